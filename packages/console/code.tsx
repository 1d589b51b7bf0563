import type { ComponentChildren, JSX } from "preact";

/** Longer code is shown without colours. */
const COLOURED_CHARS_MAX = 50_000;

type Grammar = readonly [comment: string, words: string];

const C_WORDS =
  "abstract async await bool boolean break case catch char class const continue declare default defer delete do double else enum export extends extern false final finally float fn for from func function go if impl implements import in int interface is let long match mod module mut namespace new nil null number of override package private protected pub public readonly return self short static string struct super switch template this throw trait true try type typedef typeof undefined union unsigned use using var virtual void where while yield";
const PY_WORDS =
  "False None True and as assert async await begin break case class continue def del do done elif else end esac except export fi finally for from function global if import in is lambda local module nil nonlocal not or pass raise require return self set then true false try unless until while with yield null yes no";
const SQL_WORDS =
  "add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then union unique update using values view when where with";

const C_LIKE: Grammar = ["\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)", C_WORDS];
const SCRIPTS: Grammar = ["#[^\\n]*", PY_WORDS];
const SQL: Grammar = ["--[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)", SQL_WORDS];
const MARKUP: Grammar = ["<!--[^]*?(?:-->|$)", ""];

const GRAMMARS: readonly (readonly [names: string, grammar: Grammar])[] = [
  [
    "js mjs cjs jsx javascript ts mts cts tsx typescript json jsonc json5 jsonl go golang rs rust c h cpp c++ cc hpp java cs csharp kt kotlin scala dart swift php css scss less",
    C_LIKE,
  ],
  [
    "py python py3 sh bash zsh shell console yaml yml toml ini rb ruby perl r make makefile dockerfile docker lua ps1 powershell",
    SCRIPTS,
  ],
  ["sql sqlite postgres postgresql pgsql mysql", SQL],
  ["html htm xml svg vue svelte", MARKUP],
];
const BY_NAME = new Map(GRAMMARS.flatMap(([names, grammar]) => names.split(" ").map((name) => [name, grammar])));

/** One expression per grammar; every character is consumed by its first match, so the time is linear. */
const expressions = new Map<Grammar, RegExp>();

function expressionOf(grammar: Grammar): RegExp {
  const [comment, words] = grammar;
  const made =
    expressions.get(grammar) ??
    new RegExp(
      `(?<comment>${comment})|(?<string>"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`(?:\\\\.|[^\`\\\\])*\`?)|(?<number>\\b\\d[\\w.]*)|(?<word>\\b(?:${words.replaceAll(" ", "|") || "(?!)"})\\b)|(?<tag><\\/?[a-z][\\w:-]*)|[\\w$]+`,
      grammar === SQL ? "gi" : "g",
    );
  expressions.set(grammar, made);
  return made;
}

function coloured(text: string, grammar: Grammar): ComponentChildren {
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const { 0: found, index, groups = {} } of text.matchAll(expressionOf(grammar))) {
    const kind = Object.keys(groups).find(
      (name) => groups[name] !== undefined && (name !== "tag" || grammar === MARKUP),
    );
    if (kind === undefined) continue;
    parts.push(text.slice(from, index), <span class={`code-${kind}`}>{found}</span>);
    from = index + found.length;
  }
  return [...parts, text.slice(from)];
}

const DIFF_KINDS: Readonly<Record<string, string>> = { "+": "inserted", "-": "deleted", "@": "meta" };

/** Whether a text is a patch: of `diff`, of git, or in the form that `apply_patch` takes. */
function isPatch(text: string): boolean {
  return /^(?:diff --git |--- \S|\*\*\* Begin Patch|@@ )/m.test(text.slice(0, 2_000)) && /^[+-]/m.test(text);
}

function diffLines(text: string): ComponentChildren {
  return text.split("\n").map((line, index) => (
    <span key={index} class={`diff-line ${/^(?:---|\+\+\+) /.test(line) ? "meta" : (DIFF_KINDS[line[0] ?? ""] ?? "")}`}>
      {line}
      {"\n"}
    </span>
  ));
}

/** Code, with colours where its language is known. */
export function Code({ text, language = "" }: { text: string; language?: string }): JSX.Element {
  const name = language.toLowerCase();
  const grammar = BY_NAME.get(name);
  const isDiff = name === "diff" || name === "patch" || (name === "" && isPatch(text));
  const isLong = text.length > COLOURED_CHARS_MAX;
  return (
    <pre class="text">
      {isLong ? text : isDiff ? diffLines(text) : grammar === undefined ? text : coloured(text, grammar)}
    </pre>
  );
}
