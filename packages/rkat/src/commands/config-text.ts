import { lstat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { RuntimeError } from "@rkat/core/contract/error";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/input";
import type { LoadedConfig } from "@rkat/node/config/load-config";
import { readIfThere } from "@rkat/node/config/realm";
import { loadHere } from "../open-runtime.ts";
import type { Invocation, Place } from "../parts.ts";
import { alone, replaceFile } from "./output-file.ts";

/** A file of settings as a text and as what it says; a change of the one must be that of the other. */
export interface ConfigText {
  readonly text: string;
  readonly table: JsonTable;
}

type Path = readonly string[];

/** The file with a key more, in its section; everything else stays as it is, to the byte. */
export function withKey({ text, table }: ConfigText, path: Path, value: string): ConfigText {
  const [section, key = ""] = [path.slice(0, -1), path.at(-1)];
  const line = `${key} = ${quoted(value)}`;
  const lines = text.split("\n");
  const at = lines.findIndex((one) => HEADER.exec(one)?.[1] === "[" && isSame(headerPath(one), section));
  const end = lines[at]?.endsWith("\r") ? "\r" : "";
  const added = `${text.trim() === "" ? text : `${text.replace(/(?<!\n)\n*$/, "")}\n\n`}[${section.join(".")}]\n${line}\n`;
  return {
    text: at < 0 ? added : lines.toSpliced(at + 1, 0, `${line}${end}`).join("\n"),
    table: placed(table, path, value),
  };
}

/** The file with a key, or a section, under another name, if it has it; undefined where that stands there already. */
export function withKeyRenamed({ text, table }: ConfigText, from: Path, to: Path): ConfigText | undefined {
  const value = valueAt(table, from);
  if (value === undefined) return { text, table };
  if (valueAt(table, to) !== undefined) return undefined;
  let section: Path = [];
  const lines = text.split("\n").map((line) => {
    const header = headerPath(line);
    if (header === undefined) return renamedIn(line, section, from, to);
    section = header;
    return isSame(header.slice(0, from.length), from) ? line.replace(from.join("."), to.join(".")) : line;
  });
  return { text: lines.join("\n"), table: placed(without(table, from), to, value) };
}

/** A line of a section that sets the key, or something in it. */
function renamedIn(line: string, section: Path, from: Path, to: Path): string {
  if (section.length >= from.length || !isSame(from.slice(0, section.length), section)) return line;
  const [was, is] = [from, to].map((path) => path.slice(section.length).join(".")) as [string, string]; // one for each
  const rest = line.trimStart();
  if (!rest.startsWith(was) || !/^\s*[=.]/.test(rest.slice(was.length))) return line;
  return `${line.slice(0, line.length - rest.length)}${is}${rest.slice(was.length)}`;
}

const HEADER = /^\s*(\[\[?)([^[\]]+)\]/;

/** The section that a line begins; undefined for another line. */
function headerPath(line: string): Path | undefined {
  const [, , name] = HEADER.exec(line) ?? [];
  return name?.split(".").map((part) => part.trim());
}

function isSame(path: Path | undefined, other: Path): boolean {
  return path?.length === other.length && path.every((part, index) => part === other[index]);
}

function valueAt(table: JsonTable, path: Path): unknown {
  return path.reduce<unknown>((at, key) => (isJsonTable(at) && Object.hasOwn(at, key) ? at[key] : undefined), table);
}

function placed(table: JsonTable, [key = "", ...rest]: Path, value: unknown): JsonTable {
  if (rest.length === 0) return { ...table, [key]: value };
  const inner = table[key];
  return { ...table, [key]: placed(isJsonTable(inner) ? inner : {}, rest, value) };
}

function without(table: JsonTable, [key = "", ...rest]: Path): JsonTable {
  const { [key]: inner, ...others } = table;
  return rest.length === 0 || !isJsonTable(inner) ? others : { ...others, [key]: without(inner, rest) };
}

/** A JSON text is a TOML text but for one sign that only TOML wants escaped. */
export function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

/** The user's own file of settings. */
export function userFileOf({ userRoot }: Place): string {
  return join(userRoot, ".rkat", "config.toml");
}

/** The project's file of settings, where it has one: of its folder, or of the nearest above it. */
export function projectFileOf({ sources }: LoadedConfig, place: Place): string | undefined {
  return sources.find((path) => isProjectFile(path, place));
}

/** Whether a configuration file is a project's: neither the user's own nor a realm's. */
export function isProjectFile(path: string, place: Place): boolean {
  const isNamed = basename(path) === "rkat.toml" || path.endsWith(join(".rkat", "config.toml"));
  return isNamed && path !== userFileOf(place);
}

/** A path as a person in this folder would write it. */
export function shownPath({ io }: Invocation, path: string): string {
  const near = relative(io.cwd, path);
  if (!near.startsWith("..")) return near;
  const fromHome = relative(io.home, path);
  return fromHome.startsWith("..") ? path : join("~", fromHome);
}

/**
 * Changes a file of settings, which is written whole or not at all. Throws INVALID_PARAMS, and leaves it, where the text would
 * then say something else than was meant. A file that was trusted as it was is trusted as it is then.
 */
export async function changeConfigFile(
  invocation: Invocation,
  path: string,
  change: (before: ConfigText) => ConfigText | undefined,
): Promise<void> {
  const { parts, place } = invocation;
  const shown = shownPath(invocation, path);
  const isProjects = isProjectFile(path, place());
  if (isProjects) await refuseLinks(path, shown);
  const { parse } = await parts.toml();
  await alone(path, async () => {
    const text = (await readIfThere(path)) ?? "";
    const wanted = change({ text, table: parse(text, shown) });
    const isMeant = wanted !== undefined && isDeepStrictEqual(plain(parsedOr(wanted.text)), plain(wanted.table));
    if (!isMeant) throw new RuntimeError("INVALID_PARAMS", `${shown} was not changed: its text must be edited by hand`);
    // A configuration that cannot be read cannot be asked what was trusted of it; it is asked about again then.
    const loaded = await loadHere(invocation).catch(() => undefined);
    const before = loaded?.brought.find((file) => file.path === path);
    await replaceFile(path, wanted.text, isProjects ? 0o644 : 0o600);
    if (before?.state === "trusted" && before.text === text) loaded?.trust.remember({ path, text: wanted.text });
  });

  function parsedOr(text: string): unknown {
    try {
      return parse(text, shown);
    } catch {
      return undefined;
    }
  }
}

function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** What a clone has put in our place may lead to a file of the user's that is overwritten then. */
async function refuseLinks(path: string, shown: string): Promise<void> {
  const inside = dirname(path);
  for (const one of basename(inside) === ".rkat" ? [inside, path] : [path]) {
    const found = await lstat(one).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) continue;
    throw new RuntimeError(
      "INVALID_PARAMS",
      `${one === path ? shown : dirname(shown)} is a link, and is not written through; edit the file it leads to`,
    );
  }
}
