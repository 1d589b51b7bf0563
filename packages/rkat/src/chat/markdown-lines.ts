import { cellsOf } from "./wrapped-text.ts";

// Each in as many steps as the line has signs: a model may write a line of nothing else.

export type Kind = "blank" | "fence" | "heading" | "rule" | "underline" | "table" | "item" | "text";

const QUOTE = /^ {0,3}>(?: ?>)* ?/;
const QUOTED_MAX = 8;
const ITEM = /^( *)([-*+]|\d{1,9}[.)]) +(\[[ xX]\] )?(?=\S)/;

/** What a line is, by how it begins. */
export function kindOf(body: string): Kind {
  const [sign = ""] = body.trimStart();
  if (sign === "") return "blank";
  if (sign === "|") return "table";
  if ((sign === "`" || sign === "~") && fenceOf(body) !== undefined) return "fence";
  if (sign === "#" && headingOf(body) !== undefined) return "heading";
  if ("-*_".includes(sign) && isOnly(body, sign, 3)) return "rule";
  if (sign === "=" && isOnly(body, sign, 1)) return "underline";
  return ITEM.test(body) ? "item" : "text";
}

/** A line without the signs of a quote, and how many of them there were. */
export function bodyOf(line: string): { readonly depth: number; readonly body: string } {
  const [signs = ""] = QUOTE.exec(line) ?? [];
  if (signs === "") return { depth: 0, body: line };
  return { depth: Math.min(QUOTED_MAX, signs.split(">").length - 1), body: line.slice(signs.length) };
}

/** Where code begins, or ends. */
export function fenceOf(line: string): { indent: number; mark: string; name: string } | undefined {
  const bare = line.trimStart();
  const [sign = ""] = bare;
  if (sign !== "`" && sign !== "~") return undefined;
  let run = 1;
  while (bare[run] === sign) run += 1;
  const info = bare.slice(run);
  if (run < 3 || (sign === "`" && info.includes("`"))) return undefined;
  const [name = ""] = /^[^\s{,:]*/.exec(info.trimStart()) ?? [];
  return { indent: line.length - bare.length, mark: sign.repeat(run), name };
}

export function headingOf(line: string): { level: number; words: string } | undefined {
  const [whole = "", marks = ""] = /^ {0,3}(#{1,6})(?= |$)/.exec(line) ?? [];
  if (marks === "") return undefined;
  const words = line.slice(whole.length).trim();
  let end = words.length;
  while (words[end - 1] === "#") end -= 1;
  const isClosed = end === 0 || words[end - 1] === " ";
  return { level: marks.length, words: isClosed ? words.slice(0, end).trimEnd() : words };
}

function isOnly(line: string, sign: string, least: number): boolean {
  const signs = line.replaceAll(" ", "");
  return signs.length >= least && signs === sign.repeat(signs.length);
}

/** Whether the beginning of a line determines its kind. */
export function isSureOf(beginning: string): boolean {
  const { body } = bodyOf(beginning);
  const bare = body.trimStart();
  const [sign = ""] = bare;
  switch (sign) {
    case "":
    case ">":
    case "|":
      return false;
    case "#":
      return /^#{1,6}[^# ]|^#{7}/.test(bare);
    case "`":
    case "~":
      return bare[1] !== undefined && bare[2] !== undefined && (bare[1] !== sign || bare[2] !== sign);
    case "=":
    case "_":
      return hasOther(bare, sign);
    case "-":
    case "*":
    case "+":
      if (bare[1] === undefined) return false;
      return (bare[1] !== " " && hasOther(bare, sign)) || isSureItem(body, sign);
    default:
      if (sign < "0" || sign > "9") return true;
      return /^\d+[^\d.) ]|^\d{10}|^\d+[.)][^ ]|^\d+ /.test(bare) || isSureItem(body, "");
  }
}

/** Of an item it must be seen whether it is one of a list to be ticked off, and that it is no rule. */
function isSureItem(body: string, sign: string): boolean {
  const [opening = ""] = ITEM.exec(body) ?? [];
  if (opening === "") return false;
  if (sign !== "" && !hasOther(body, sign)) return false;
  return opening.endsWith("] ") || !/^\[(?:[ xX]?|[ xX]\] ?)$/.test(body.slice(opening.length));
}

function hasOther(text: string, sign: string): boolean {
  for (const one of text) if (one !== sign && one !== " ") return true;
  return false;
}

/** Half of a screen at most is left empty. */
const INDENT_MAX = 20;

/** The prefixes of a text's first line and of the following lines; `listed` is the indent of the surrounding list. */
export function openingOf(body: string, listed: number): { first: string; further: string; rest: string } {
  const item = ITEM.exec(body);
  if (item === null) {
    const bare = body.trimStart();
    const indent = " ".repeat(Math.min(INDENT_MAX, listed, body.length - bare.length));
    return { first: indent, further: indent, rest: bare };
  }
  const [whole, spaces = "", mark = "", box] = item;
  const sign = /^\d/.test(mark) ? mark : "•";
  const tick = box === undefined ? "" : box[1] === " " ? "☐ " : "☑ ";
  const first = `${spaces.slice(0, INDENT_MAX)}${sign === "•" && tick !== "" ? "" : `${sign} `}${tick}`;
  return { first, further: " ".repeat(cellsOf(first)), rest: body.slice(whole.length) };
}
