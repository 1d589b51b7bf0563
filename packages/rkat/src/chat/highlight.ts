import { type StreamParser, StringStream } from "@codemirror/streamparser";
import type { Paint } from "../io.ts";
import { type Ink, inkOf, NO_INK } from "./wrapped-text.ts";

/** A highlighted line of code. Lines come in order, since a line may open a block that the next continues. */
export type Highlight = (line: string) => string;

type Parser = StreamParser<unknown>;

/** Longer lines are of machines, and the expressions of some languages look at a line more than once. */
const LINE_CHARS_MAX = 500;
/** What follows is shown plainly: some languages keep every name of a block, and look through them. */
const BLOCK_CHARS_MAX = 200_000;
/** The most open blocks that are remembered, since every name is searched in all of them. */
const OPEN_MAX = 500;
/** Tokens without a sign, one after the other, before a line is given up. */
const STILL_MAX = 20;
const TAB_CELLS = 4;
/** Code of any indent is right: some languages take one that is less than this for a mistake. */
const INDENT_MIN = 1;

/** Whether code of this name is known, and its language there; a promise of that while it is not there yet. */
export function languageOf(name: string): Parser | Promise<Parser | undefined> | undefined {
  const key = name.toLowerCase();
  const language = NAMES.get(key);
  if (language === undefined) return undefined;
  const there = loaded.get(language);
  if (there !== undefined) return there;
  const load = LANGUAGES[language];
  return load?.().then(
    (parser) => {
      loaded.set(language, parser);
      return parser;
    },
    // Without its language, code is shown plainly.
    () => undefined,
  );
}

const loaded = new Map<string, Parser>();

const clike = () => import("@codemirror/legacy-modes/mode/clike");
const script = () => import("@codemirror/legacy-modes/mode/javascript");
const markup = () => import("@codemirror/legacy-modes/mode/xml");
const styles = () => import("@codemirror/legacy-modes/mode/css");

const LANGUAGES: Readonly<Record<string, () => Promise<Parser>>> = {
  "js mjs cjs jsx javascript node": async () => (await script()).javascript,
  "ts mts cts tsx typescript": async () => (await script()).typescript,
  "json jsonc json5 jsonl": async () => (await script()).json,
  "py python python3 py3": async () => (await import("@codemirror/legacy-modes/mode/python")).python,
  "sh bash zsh shell shellscript console": async () => (await import("@codemirror/legacy-modes/mode/shell")).shell,
  "go golang": async () => (await import("@codemirror/legacy-modes/mode/go")).go,
  "rs rust": async () => (await import("@codemirror/legacy-modes/mode/rust")).rust,
  "c h": async () => (await clike()).c,
  "cpp c++ cc cxx hpp": async () => (await clike()).cpp,
  java: async () => (await clike()).java,
  "cs csharp c#": async () => (await clike()).csharp,
  "kt kts kotlin": async () => (await clike()).kotlin,
  scala: async () => (await clike()).scala,
  dart: async () => (await clike()).dart,
  "html htm vue svelte": async () => (await markup()).html,
  "xml svg xhtml plist": async () => (await markup()).xml,
  css: async () => (await styles()).css,
  scss: async () => (await styles()).sCSS,
  less: async () => (await styles()).less,
  "sql sqlite": async () => (await import("@codemirror/legacy-modes/mode/sql")).sqlite,
  "postgres postgresql pgsql": async () => (await import("@codemirror/legacy-modes/mode/sql")).pgSQL,
  mysql: async () => (await import("@codemirror/legacy-modes/mode/sql")).mySQL,
  "yaml yml": async () => yaml,
  toml: async () => (await import("@codemirror/legacy-modes/mode/toml")).toml,
  "diff patch": async () => diff,
  "dockerfile docker containerfile": async () => (await import("@codemirror/legacy-modes/mode/dockerfile")).dockerFile,
  "rb ruby": async () => (await import("@codemirror/legacy-modes/mode/ruby")).ruby,
  swift: async () => (await import("@codemirror/legacy-modes/mode/swift")).swift,
  lua: async () => (await import("@codemirror/legacy-modes/mode/lua")).lua,
  "ps1 powershell pwsh": async () => (await import("@codemirror/legacy-modes/mode/powershell")).powerShell,
};

const NAMES = new Map(
  Object.keys(LANGUAGES).flatMap((names) => names.split(" ").map((name) => [name, names] as const)),
);

/** Lines by what they begin with. */
const diff: Parser = {
  token: (stream) => {
    const [sign = ""] = stream.string;
    stream.skipToEnd();
    return sign === "+" ? "inserted" : sign === "-" ? "deleted" : sign === "@" ? "meta" : null;
  },
};

/** Few colours, each of which is read on a dark screen and on a light one. */
export function createHighlight(parser: Parser, paint: Paint): Highlight {
  const [words, texts, faint, values, gone] = [
    inkOf(paint.magenta),
    inkOf(paint.green),
    inkOf(paint.dim),
    inkOf(paint.cyan),
    inkOf(paint.red),
  ];
  const inks: Readonly<Record<string, Ink>> = {
    keyword: words,
    controlKeyword: words,
    tag: words,
    tagName: words,
    string: texts,
    "string property": values,
    regexp: texts,
    inserted: texts,
    comment: faint,
    number: values,
    bool: values,
    atom: values,
    meta: values,
    attribute: values,
    attributeName: values,
    deleted: gone,
  };
  let state = parser.startState?.(INDENT_MIN);
  let chars = 0;
  return (line) => {
    chars += line.length;
    if (line.length > LINE_CHARS_MAX || chars > BLOCK_CHARS_MAX) return line;
    try {
      const shown = inkedLine(line, { parser, state, inks });
      if (isOverfull(state)) state = parser.startState?.(INDENT_MIN);
      return shown;
    } catch {
      // A language mode that fails on a line must not break the answer.
      state = parser.startState?.(INDENT_MIN);
      return line;
    }
  };
}

function isOverfull(state: unknown): boolean {
  return Object.values(state ?? {}).some((held) => Array.isArray(held) && held.length > OPEN_MAX);
}

function inkedLine(
  line: string,
  { parser, state, inks }: { parser: Parser; state: unknown; inks: Readonly<Record<string, Ink>> },
): string {
  if (line.trim() === "") parser.blankLine?.(state, INDENT_MIN);
  const stream = new StringStream(line, TAB_CELLS, INDENT_MIN);
  let shown = "";
  let ink = NO_INK;
  let still = 0;
  while (!stream.eol()) {
    stream.start = stream.pos;
    const kind = parser.token(stream, state);
    if (stream.pos <= stream.start) {
      still += 1;
      if (still > STILL_MAX) throw new Error("the language stands still");
      continue;
    }
    still = 0;
    // A dot between names is a number to some.
    const next = stream.current() === "." ? NO_INK : inkOfKind(kind, inks);
    if (next !== ink) shown += ink.close + next.open;
    ink = next;
    shown += stream.current();
  }
  return shown + ink.close;
}

/** The first of its names that has a look: kinds are written as `string.special` and `string property`. */
function inkOfKind(kind: string | null | undefined, inks: Readonly<Record<string, Ink>>): Ink {
  // Some languages say nothing where they should say null.
  if (kind === null || kind === undefined) return NO_INK;
  const whole = inks[kind];
  if (whole !== undefined) return whole;
  for (const name of kind.split(/[ .]/)) {
    const ink = inks[name];
    if (ink !== undefined) return ink;
  }
  return NO_INK;
}

/** Where a text of several lines continues: lines that are indented by more than this. */
interface State {
  textBeyond: number | undefined;
}

/** YAML a line at a time, each sign looked at once: the mode that is there for it looks at spaces again and again. */
const yaml: StreamParser<unknown> = {
  startState: (): State => ({ textBeyond: undefined }),
  // It is the state that was made above.
  token: (stream, state) => tokenOf(stream, state as State),
};

function tokenOf(stream: StringStream, state: State): string | null {
  if (stream.sol() && state.textBeyond !== undefined) {
    if (stream.indentation() > state.textBeyond) {
      stream.skipToEnd();
      return "string";
    }
    state.textBeyond = undefined;
  }
  const isAfterSpace = stream.sol() || stream.string[stream.pos - 1] === " ";
  if (stream.eatSpace()) return null;
  const sign = stream.next() ?? "";
  switch (sign) {
    case "#":
      if (!isAfterSpace) return null;
      stream.skipToEnd();
      return "comment";
    case '"':
    case "'":
      return quoted(stream, sign);
    case "{":
    case "}":
    case "[":
    case "]":
    case ",":
    case ":":
      return null;
    case "&":
    case "*":
    case "!":
      stream.eatWhile((one) => one !== " " && one !== ",");
      return "meta";
    case "|":
    case ">":
      stream.skipToEnd();
      state.textBeyond = stream.indentation();
      return "meta";
    default:
      return plain(stream, sign);
  }
}

function quoted(stream: StringStream, quote: string): string {
  for (let sign = stream.next(); sign !== undefined && sign !== quote; sign = stream.next())
    if (sign === "\\" && quote === '"') stream.next();
  return isKey(stream) ? "attribute" : "string";
}

function plain(stream: StringStream, first: string): string | null {
  if (first === "-" && (stream.eol() || stream.peek() === " ")) return null;
  while (!stream.eol() && !isKey(stream)) {
    const sign = stream.peek() ?? "";
    if (",]}".includes(sign) || (sign === "#" && stream.string[stream.pos - 1] === " ")) break;
    stream.next();
  }
  if (isKey(stream)) return "attribute";
  const value = stream.current().trim();
  return /^(?:true|false|null|yes|no|on|off|~|[-+]?[\d.][\d._]*(?:e[-+]?\d+)?)$/i.test(value) ? "atom" : null;
}

/** Whether a colon follows that ends a key. */
function isKey({ string, pos }: StringStream): boolean {
  return string[pos] === ":" && (string[pos + 1] === undefined || string[pos + 1] === " ");
}
