import type { JsonObject } from "../contract/session.ts";
import { type Item, UNKNOWN } from "./glob.ts";

/** A path from the root, and from the project's folder if it is inside. */
export interface Place {
  readonly absolute: readonly Item[];
  readonly inside: readonly Item[] | undefined;
}

export interface JudgedPath {
  /** As written and with links resolved, in lower case: many file systems ignore case. */
  readonly names: readonly Place[];
  readonly real: Place;
  /** Resolves another path of the project's folder, in lower case. */
  follow(path: string): readonly string[] | undefined;
}

/** The target of a symbolic link, "" if it is no link, undefined if it does not exist. Throws if that is unknown. */
export type ReadLink = (path: string) => string | undefined;

const PATH_CHARS_MAX = 4_096;
/** As many as the kernel follows. */
const LINKS_MAX = 40;

/** Resolves paths of a folder, with and without links; undefined for an invalid or unknown path. */
export function createPlacing(
  { folder, root }: { readonly folder: string; readonly root: string },
  readLink: ReadLink = () => undefined,
): (path: string) => JudgedPath | undefined {
  const links = createFollowing(readLink);
  const follow = (path: string) => links(path.startsWith("/") ? path : `${root}/${path}`)?.map(folded);
  return (path) => {
    if (path === "" || path.length > PATH_CHARS_MAX || path.includes(UNKNOWN)) return undefined;
    const named = path.startsWith("/") ? path : `${folder}/${path}`;
    const written = pathParts(named);
    const [base, real, plain] = [root, named, `/${written.join("/")}`].map(links);
    // After a link, `..` differs between a shell and a tool that normalizes first.
    if (base === undefined || real === undefined || real.join("/") !== plain?.join("/")) return undefined;
    const names = [placeIn(pathParts(root), written, folded), placeIn(base, real, folded)];
    return { names, real: placeIn(base, real), follow };
  };
}

const spelled = (text: string): string => text.normalize("NFC");
const folded = (text: string): string => spelled(text).toLowerCase();

/** The parts of an absolute path with links resolved; parts that do not exist yet stay as they are. */
function createFollowing(readLink: ReadLink): (path: string) => readonly string[] | undefined {
  const look = remembering(readLink);
  const walk = (path: string): readonly string[] | undefined => {
    const left = path.split("/").reverse();
    let parts: string[] = [];
    for (let links = 0; left.length > 0; ) {
      const before = parts;
      parts = [...pathParts(left.pop() ?? "", before)];
      if (parts.length <= before.length) continue;
      const to = look(`/${parts.join("/")}`);
      if (to === undefined) return pathParts(left.reverse().join("/"), parts);
      if (to === "") continue;
      links += 1;
      // A link in /proc leads to another file for the command.
      if (links > LINKS_MAX || parts[0] === "proc") return undefined;
      left.push(...to.split("/").reverse());
      parts = to.startsWith("/") ? [] : before;
    }
    return parts;
  };
  return remembering((path) => {
    try {
      return walk(path);
    } catch {
      // An unreadable folder, or an invalid name.
      return undefined;
    }
  });
}

function remembering<T>(look: (path: string) => T): (path: string) => T | undefined {
  const seen = new Map<string, T>();
  return (path) => {
    if (!seen.has(path)) seen.set(path, look(path));
    return seen.get(path);
  };
}

function placeIn(base: readonly string[], parts: readonly string[], spell = spelled): Place {
  const absolute = parts.map((text) => ({ text: spell(text) }));
  const isInside = parts.length > base.length && base.every((part, at) => spell(part) === absolute[at]?.text);
  return { absolute, inside: isInside ? absolute.slice(base.length) : undefined };
}

/** The parts of a path; `..` at the root stays there. */
export function pathParts(path: string, from: readonly string[] = []): readonly string[] {
  const parts = [...from];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts;
}

/** Arguments in which tools name files. */
const PATH_FIELDS = [
  "path",
  "paths",
  "file",
  "files",
  "file_path",
  "file_paths",
  "filePath",
  "filename",
  "source",
  "destination",
  "directory",
  "folder",
];

/** The paths a call names: undefined items are unknown, an empty list means no paths. */
export function pathsOf(tool: string, args: JsonObject): readonly (string | undefined)[] {
  // A tool that stands for patches names its file as `path`: after a line break in a patch, the rest of a name would be lost.
  if (tool === "apply_patch" && typeof args.patch === "string") return patchedPaths(args.patch);
  const named = PATH_FIELDS.flatMap((field) => (Object.hasOwn(args, field) ? textsIn(args[field]) : []));
  return tool === "apply_patch" && named.length === 0 ? [undefined] : named;
}

function textsIn(value: unknown): readonly (string | undefined)[] {
  if (Array.isArray(value)) return value.map((one) => (typeof one === "string" ? one : undefined));
  return [typeof value === "string" ? value : undefined];
}

const HEADER = /^\*\*\* (?:(?:Add|Delete|Update) File|Move to): (.*)$/;
const FRAME = /^\*\*\* (?:Begin Patch|End Patch|End of File)\s*$/;

/** The paths in a patch's headers; an unknown header may name anything. */
function patchedPaths(patch: string): readonly (string | undefined)[] {
  const named: (string | undefined)[] = [];
  for (const line of patch.trim().split(/\r?\n/)) {
    if (line.startsWith("*** ") && !FRAME.test(line)) named.push(HEADER.exec(line)?.[1]?.trim());
  }
  return named.length === 0 ? [undefined] : [...new Set(named)];
}
