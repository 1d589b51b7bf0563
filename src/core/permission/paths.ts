import type { JsonObject } from "../../contract/session.ts";
import { type Item, UNKNOWN } from "./glob.ts";

/** A name of a path, and the same in small letters: many disks take capitals for the same. */
interface FoldedItem extends Item {
  readonly folded: string;
}

/** A file as rules see it: from the root of the disk, and from the project's folder where it lies inside. */
export interface JudgedPath {
  readonly absolute: readonly FoldedItem[];
  readonly inside: readonly FoldedItem[] | undefined;
}

const PATH_CHARS_MAX = 4_096;

/** Places paths of a folder: `.`, `..` and doubled slashes are taken out by the letters alone; undefined for what is no path. */
export function createPlacing(folder: string, root: string): (path: string) => JudgedPath | undefined {
  const [from, base] = [pathParts(folder), pathParts(root)];
  return (path) => {
    if (path === "" || path.length > PATH_CHARS_MAX || path.includes(UNKNOWN)) return undefined;
    const full = pathParts(path, path.startsWith("/") ? [] : from);
    const isInside = full.length > base.length && base.every((part, index) => full[index] === part);
    const inside = isInside ? full.slice(base.length) : undefined;
    return { absolute: itemsOf(full), inside: inside && itemsOf(inside) };
  };
}

function itemsOf(parts: readonly string[]): readonly FoldedItem[] {
  return parts.map((text) => ({ text, folded: text.toLowerCase() }));
}

/** The parts of a path; what goes up beyond the root stays there. One spelling of letters that have two. */
export function pathParts(path: string, from: readonly string[] = []): readonly string[] {
  const parts = [...from];
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
  const named: (string | undefined)[] = [];
  for (const line of patch.trim().split(/\r?\n/)) {
    if (line.startsWith("*** ") && !FRAME.test(line)) named.push(HEADER.exec(line)?.[1]?.trim());
  }
  return named.length === 0 ? [undefined] : [...new Set(named)];
}
