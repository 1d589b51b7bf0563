import { isDeepStrictEqual } from "node:util";
import { asRuntimeError, invalid } from "@rkat/core/contract/error";
import { parseToml } from "@rkat/node/config/config-file";
import { applyEdits, findNodeAtLocation, type JSONPath, modify, type ParseError, parse, parseTree } from "jsonc-parser";
import { type ClientFile, type Edit, HOOK_WORD, SERVER_NAME, SERVER_WORDS } from "./clients.ts";

/** The text of a file with what connects the client; the rest stays as it is, to the byte. Undefined: there is no file. */
export function connected({ content }: ClientFile, text: string | undefined, shown: string): string {
  if (content.kind === "text") return content.text;
  if (content.kind === "toml") return withTable(text ?? "", content.words, shown);
  const added = guarded(shown, () => content.edits.reduce((before, edit) => withEdit(before, edit, shown), text ?? ""));
  return text === undefined ? `${added}\n` : added;
}

/** The text without it; undefined where the whole file is ours. */
export function disconnected({ content }: ClientFile, text: string, shown: string): string | undefined {
  if (content.kind === "toml") return withoutTable(text, shown);
  if (content.kind === "json") {
    return guarded(shown, () => content.edits.reduce((before, edit) => withoutEdit(before, edit, shown), text));
  }
  // The first lines name it: one of another version is ours, too.
  return text.startsWith(content.text.slice(0, content.text.indexOf("description:"))) ? undefined : text;
}

/** The parser throws for what it cannot place, and a value that is nested too deeply ends its stack. */
function guarded(shown: string, work: () => string): string {
  try {
    return work();
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    if (error.code === "INVALID_PARAMS") throw error;
    throw invalid(`${shown} has another structure than its client writes; add or remove the server by hand`, thrown);
  }
}

const LENIENT = { allowTrailingComma: true, allowEmptyContent: true };

/** The value that a program reads, which of doubled keys is the last. */
function valueAt(text: string, keys: JSONPath): unknown {
  const whole: unknown = parse(text, [], LENIENT);
  // Of a list or a text it is undefined, as of an object without the key.
  return keys.reduce((value, key) => (value as Record<string, unknown> | undefined)?.[key], whole);
}

/** Where our value is in the text, or undefined. */
function ourPlace(text: string, { keys, isItem }: Edit, shown: string): JSONPath | undefined {
  const errors: ParseError[] = [];
  const whole: unknown = parse(text, errors, LENIENT);
  const [error] = errors;
  const line = error && text.slice(0, error.offset).split("\n").length;
  if (line !== undefined)
    throw invalid(`${shown} is not valid JSON at line ${line}; fix it, then run the command again`);
  if (whole !== undefined && (typeof whole !== "object" || whole === null || Array.isArray(whole)))
    throw invalid(`${shown} is not a JSON object; fix it, then run the command again`);
  const found = valueAt(text, [...keys]);
  if (isItem !== true) return isOurs(found) ? [...keys] : undefined;
  const at = Array.isArray(found) ? found.findIndex((item) => JSON.stringify(item).includes(HOOK_WORD)) : -1;
  return at < 0 ? undefined : [...keys, at];
}

function isOurs(server: unknown): boolean {
  return server !== undefined && JSON.stringify(server).includes(JSON.stringify(SERVER_WORDS).slice(1, -1));
}

function withEdit(text: string, edit: Edit, shown: string): string {
  const { keys, value, isItem } = edit;
  const had = ourPlace(text, edit, shown);
  if (had === undefined && isItem !== true) requireFree(valueAt(text, [...keys]), shown);
  if (had !== undefined && isDeepStrictEqual(valueAt(text, had), value)) return text;
  const changed = modified(text, had ?? (isItem === true ? [...keys, -1] : [...keys]), value);
  const place = ourPlace(changed, edit, shown);
  if (place !== undefined && isDeepStrictEqual(valueAt(changed, place), value)) return changed;
  throw invalid(`${shown} has the key ${keys[0]} twice; remove one, then run the command again`);
}

function withoutEdit(text: string, edit: Edit, shown: string): string {
  const place = ourPlace(text, edit, shown);
  if (place === undefined) return text;
  let left = modified(text, place, undefined);
  // What held nothing else goes, too, but for comments.
  for (let depth = place.length - 1; depth > 0; depth -= 1) {
    const tree = parseTree(left, [], LENIENT);
    const node = tree && findNodeAtLocation(tree, place.slice(0, depth));
    if (node === undefined || !/^[[{]\s*[\]}]$/.test(left.slice(node.offset, node.offset + node.length))) break;
    left = modified(left, place.slice(0, depth), undefined);
  }
  return left;
}

function modified(text: string, place: JSONPath, value: unknown): string {
  const indent = /\n([\t ]+)\S/.exec(text)?.[1] ?? "  ";
  const formattingOptions = { insertSpaces: !indent.startsWith("\t"), tabSize: indent.length, eol: eolOf(text) };
  return applyEdits(text, modify(text, place, value, { formattingOptions, isArrayInsertion: place.at(-1) === -1 }));
}

function eolOf(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}

function requireFree(server: unknown, shown: string): void {
  if (server === undefined || isOurs(server)) return;
  throw invalid(`${shown} has a server ${SERVER_NAME} that rkat connect did not write; rename or remove it first`);
}

const TABLE = "mcp_servers";
const HEADER = `[${TABLE}.${SERVER_NAME}]`;
/** The table as it is written below, with the blank line before it. */
const WRITTEN = /(?:^|(?<=\n)\r?\n)\[mcp_servers\.rkat\]\r?\ncommand = .*\r?\nargs = .*(?:\r?\n|$)/;

function withTable(text: string, [command = "", ...args]: readonly string[], shown: string): string {
  const had = serverIn(text, shown);
  requireFree(had, shown);
  if (isDeepStrictEqual(had, { command, args })) return text;
  const rest = had === undefined ? text : withoutTable(text, shown);
  const eol = eolOf(text);
  // A string or a list of strings in JSON is one in TOML.
  const lines = [HEADER, `command = ${JSON.stringify(command)}`, `args = ${JSON.stringify(args)}`, ""];
  const gap = rest === "" ? "" : rest.endsWith("\n") ? eol : eol + eol;
  return checked(`${rest}${gap}${lines.join(eol)}`, { command, args }, shown);
}

function withoutTable(text: string, shown: string): string {
  return isOurs(serverIn(text, shown)) ? checked(text.replace(WRITTEN, ""), undefined, shown) : text;
}

function serverIn(text: string, shown: string): unknown {
  const servers = parseToml(text, shown)[TABLE];
  const found = typeof servers === "object" ? (servers as Record<string, unknown>)[SERVER_NAME] : undefined;
  return found && { ...found };
}

/** The text, if it has this server: some ways to write the same table cannot be changed line by line. */
function checked(text: string, wanted: unknown, shown: string): string {
  try {
    if (isDeepStrictEqual(serverIn(text, shown), wanted)) return text;
  } catch {
    // The sentence below is clearer than one about a text that the user never sees.
  }
  throw invalid(`${shown} writes its ${TABLE} in a form that cannot be changed line by line; change it by hand`);
}
