/** What `rkat mcp add` was told of a server. */
export interface NewServer {
  readonly name: string;
  readonly command?: string | undefined;
  readonly args?: readonly string[];
  readonly url?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The file with one server more, at its end; what is there stays as it is, to the byte. */
export function withServer(text: string, server: NewServer): string {
  const { name, command, args = [], url, env = {}, headers = {} } = server;
  const lines = [
    "[[servers]]",
    `name = ${quoted(name)}`,
    ...(command === undefined ? [] : [`command = ${quoted(command)}`]),
    ...(args.length === 0 ? [] : [`args = [${args.map(quoted).join(", ")}]`]),
    ...(url === undefined ? [] : [`url = ${quoted(url)}`]),
    ...inlineTable("env", env),
    ...inlineTable("headers", headers),
  ];
  const before = text.trim() === "" ? text : `${text.replace(/(?<!\n)\n*$/, "")}\n\n`;
  return `${before}${lines.join("\n")}\n`;
}

function inlineTable(key: string, texts: Readonly<Record<string, string>>): readonly string[] {
  const pairs = Object.entries(texts).map(([name, text]) => `${quoted(name)} = ${quoted(text)}`);
  return pairs.length === 0 ? [] : [`${key} = { ${pairs.join(", ")} }`];
}

/** A JSON text is a TOML text but for one sign that only TOML wants escaped. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

const HEADER = /^\s*\[\[\s*servers\s*\]\]/;

/** The file without its n-th server. The comments above a server are not part of it, those inside it are. */
export function withoutServer(text: string, index: number): string {
  const lines = text.split("\n");
  const starts = lines.flatMap((line, at) => (HEADER.test(line) ? [at] : []));
  const [from = lines.length, next = lines.length] = [starts[index], starts[index + 1]];
  let to = next;
  // What stands right above the next server, comments and the blank line before them, is said of that one.
  while (to > from && next < lines.length && /^\s*(?:#|$)/.test(lines[to - 1] ?? "")) to -= 1;
  const isDoubled = (lines[from - 1] ?? "").trim() === "" && (lines[to] ?? "").trim() === "";
  return lines.toSpliced(from, to - from + (isDoubled ? 1 : 0)).join("\n");
}
