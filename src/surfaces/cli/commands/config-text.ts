import { isJsonTable, type JsonTable } from "../../../contract/input.ts";

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
