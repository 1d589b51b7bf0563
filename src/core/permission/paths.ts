import type { JsonObject } from "../../contract/session.ts";
import { type Item, UNKNOWN } from "./glob.ts";

/** A file as rules see it: from the root of the disk, and from the project's folder where it lies inside. */
export interface JudgedPath {
  readonly absolute: readonly Item[];
  readonly inside: readonly Item[] | undefined;
  /** Both in small letters: many disks take capitals for the same. */
  readonly folded: { readonly absolute: readonly Item[]; readonly inside: readonly Item[] | undefined };
  /** How it is shown. */
  readonly shown: string;
}

const PATH_CHARS_MAX = 4_096;

/** Takes `.`, `..` and doubled slashes out of a path, by its letters alone; undefined for what is no path. */
export function judgePath(path: string, folder: string, root: string): JudgedPath | undefined {
  if (path === "" || path.length > PATH_CHARS_MAX || path.includes(UNKNOWN)) return undefined;
  const full = pathParts(path.startsWith("/") ? path : `${folder}/${path}`);
  const base = pathParts(root);
  const isInside = full.length > base.length && base.every((part, index) => full[index] === part);
  const inside = isInside ? full.slice(base.length) : undefined;
  const items = (parts: readonly string[]) => parts.map((text) => ({ text }));
  const folded = (parts: readonly string[]) => parts.map((text) => ({ text: text.toLowerCase() }));
  return {
    absolute: items(full),
    inside: inside && items(inside),
    folded: { absolute: folded(full), inside: inside && folded(inside) },
    shown: inside === undefined ? `/${full.join("/")}` : inside.join("/"),
  };
}

/** The parts of a path; what goes up beyond the root stays there. One spelling of letters that have two. */
export function pathParts(path: string): readonly string[] {
  const parts: string[] = [];
  for (const part of path.normalize("NFC").split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts;
}

/** The arguments by which tools name the files they read or change. */
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

/** The paths a call names; undefined in the list where there must be one that cannot be told, an empty list where none is. */
export function pathsOf(tool: string, args: JsonObject): readonly (string | undefined)[] {
  if (tool === "apply_patch") return typeof args.patch === "string" ? patchedPaths(args.patch) : [undefined];
  return PATH_FIELDS.flatMap((field) => (Object.hasOwn(args, field) ? textsIn(args[field]) : []));
}

function textsIn(value: unknown): readonly (string | undefined)[] {
  if (Array.isArray(value)) return value.map((one) => (typeof one === "string" ? one : undefined));
  return [typeof value === "string" ? value : undefined];
}

const HEADER = /^\*\*\* (?:(?:Add|Delete|Update) File|Move to): (.*)$/;
const FRAME = /^\*\*\* (?:Begin Patch|End Patch|End of File)\s*$/;

/** What the headers of a patch name; a header that is none of those known may name anything. */
function patchedPaths(patch: string): readonly (string | undefined)[] {
  const headers = patch
    .trim()
    .split(/\r?\n/)
    .filter((line) => line.startsWith("*** ") && !FRAME.test(line));
  const named = headers.map((line) => HEADER.exec(line)?.[1]?.trim());
  return named.length === 0 ? [undefined] : [...new Set(named)];
}
