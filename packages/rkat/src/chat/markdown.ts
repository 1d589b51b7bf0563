import { withoutControls } from "@rkat/core/text/terminal-text";
import type { Paint } from "../io.ts";
import { createHighlight, languageOf } from "./highlight.ts";
import { addInline, createInks, hasMore } from "./markdown-inline.ts";
import { createTable, type Table } from "./markdown-table.ts";
import { cellsOf, createWrappedText, type Ink, inInk, inked, inkOf, NO_INK } from "./wrapped-text.ts";

/** Markdown as it is streamed, shown as it comes. What was written stays, so that it can be scrolled and copied. */
export interface MarkdownStream {
  push(piece: string): void;
  /** Writes what is left; the next piece begins anew. */
  end(): void;
}

export interface MarkdownScreen {
  write(text: string): void;
  /** Cells of a line, as they are now. */
  width(): number;
  readonly paint: Paint;
}

const WIDTH_MIN = 20;
/** Longer lines are hard to follow with the eye. */
const WIDTH_MAX = 100;
/** A line that is not known for what it is after so much of it is a text. */
const UNSURE_CHARS_MAX = 1_000;
/** A longer row is none of a table. */
const ROW_CHARS_MAX = 4_000;
/** So much of a line is read at once, so that a sign never looks further. */
const READ_CHARS_MAX = 4_000;
/** So much is held back for a language that is being loaded. */
const HELD_CHARS_MAX = 64_000;
const RULE_CELLS = 40;
/** Text that is indented so far is code, outside of a list. */
const CODE_INDENT = 4;

export function createMarkdownStream(to: MarkdownScreen): MarkdownStream {
  // One write per piece, since a terminal draws each write.
  let drawn = "";
  const blocks = createBlocks({
    write: (text) => {
      drawn += text;
    },
    width: () => Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, to.width())),
    paint: to.paint,
  });
  /** The line that is not whole yet, or what of it is not shown. */
  let rest = "";
  /** What came since a language is being loaded. */
  let held: string | undefined;
  let waiting: object | undefined;
  /** The first half of a sign that comes in two. */
  let half = "";
  const draw = (): void => {
    blocks.rest();
    if (drawn !== "") to.write(drawn);
    drawn = "";
  };
  const take = (piece: string): void => {
    let from = 0;
    for (let end = piece.indexOf("\n"); end >= 0; end = piece.indexOf("\n", from)) {
      const line = rest + piece.slice(from, end);
      rest = "";
      from = end + 1;
      const loading = blocks.endLine(line);
      if (loading === undefined) continue;
      hold(piece.slice(from), loading);
      return;
    }
    if (from === piece.length) return;
    rest = blocks.showBeginning(rest + piece.slice(from), piece);
  };
  const hold = (piece: string, loading: Promise<void>): void => {
    held = piece;
    const own = {};
    waiting = own;
    void loading.then(() => {
      // It may have ended or timed out meanwhile.
      if (waiting !== own) return;
      release();
      draw();
    });
  };
  const release = (): void => {
    const piece = held ?? "";
    held = undefined;
    waiting = undefined;
    take(piece);
  };
  return {
    push: (piece) => {
      const whole = half + piece;
      half = /[\ud800-\udbff]$/.test(whole) ? whole.slice(-1) : "";
      const text = withoutControls(half === "" ? whole : whole.slice(0, -1)).replaceAll("\t", "    ");
      if (held === undefined) take(text);
      else {
        held += text;
        if (held.length > HELD_CHARS_MAX) release();
      }
      draw();
    },
    end: () => {
      while (held !== undefined) release();
      half = "";
      if (rest !== "") blocks.endLine(rest);
      rest = "";
      blocks.end();
      draw();
    },
  };
}

interface Blocks {
  /** Shows a line, or what is left of it; a promise where the next ones wait for something. */
  endLine(line: string): Promise<void> | undefined;
  /** Shows the part of an unfinished line that later text cannot change; returns the rest. */
  showBeginning(line: string, piece: string): string;
  rest(): void;
  end(): void;
}

function createBlocks({ write, width, paint }: MarkdownScreen): Blocks {
  const inks = createInks(paint);
  const titleInk = inked(inks.strong, inks.link);
  const asCode = plainCode(paint);
  const text = createWrappedText({ write, width });
  let block: "none" | "text" | "code" | "table" = "none";
  let code: CodeBlock | undefined;
  let codeMargin = "";
  let table: Table | undefined;
  /** How deep in quotes it is, and what lines begin with therefore. */
  let quoted = 0;
  let margin = "";
  /** Where the text of the item begins that what follows may belong to. */
  let listed = 0;
  let isAfterGap = true;
  /** Whether the beginning of the line that is not whole is shown, and the last sign of it. */
  let isBegun = false;
  let before = "";

  const say = (line: string): void => {
    write(`${margin}${line}\n`);
    isAfterGap = false;
  };
  const gap = (): void => {
    if (!isAfterGap) write(`${margin}\n`);
    isAfterGap = true;
  };
  /** Adds the part of a text that is certain, and returns the rest. */
  const addText = (given: string, isWhole: boolean, ink: Ink = NO_INK): string => {
    for (let left = given; ; ) {
      const part = left.slice(0, READ_CHARS_MAX);
      const isLast = part.length === left.length;
      const reading = { inks, ink, before, depth: 0 };
      let end = addInline(part, text, { ...reading, isWhole: isWhole && isLast });
      if (end === 0 && !isLast) end = addInline(part, text, { ...reading, isWhole: true });
      if (end > 0) before = part[end - 1] ?? "";
      left = left.slice(end);
      if (isLast) return left;
    }
  };
  const showLine = (words: string, ink: Ink): void => {
    text.begin(margin, margin);
    before = "";
    addText(words, true, ink);
    text.end();
    isAfterGap = false;
  };
  const close = (): void => {
    if (block === "text") text.end();
    if (block === "table") for (const row of table?.end() ?? []) showLine(row.trim(), NO_INK);
    block = "none";
  };
  const quote = (depth: number): void => {
    if (depth === quoted) return;
    close();
    quoted = depth;
    margin = depth === 0 ? "" : inInk("│ ".repeat(depth), inks.tag);
    listed = 0;
  };
  /** Opens a paragraph, or continues the open one; returns its text. */
  const openText = (body: string, kind: Kind): string => {
    before = "";
    if (block === "text" && kind === "text") {
      text.add(" ", NO_INK);
      return body.trimStart();
    }
    close();
    if (kind === "text" && !body.startsWith(" ")) listed = 0;
    const { first, further, rest } = openingOf(body, listed);
    if (kind === "item") listed = further.length;
    text.begin(margin + first, margin + further);
    block = "text";
    isAfterGap = false;
    return rest;
  };
  const endText = (line: string): void => {
    addText(line, true);
    // Two spaces at its end break a line.
    if (line.endsWith("  ")) text.breakLine();
    else text.add(" ", NO_INK);
  };
  const openCode = (body: string): Promise<void> | undefined => {
    close();
    gap();
    code = openCodeBlock(body, { paint, listed });
    codeMargin = margin + code.lead;
    block = "code";
    if (code.name !== "") write(`${codeMargin}${inInk(code.name, inks.tag)}\n`);
    isAfterGap = false;
    return code.loading;
  };
  const endCodeLine = (line: string): void => {
    isAfterGap = false;
    const shown = isLongCode(line) ? asCode(line) : code?.line(line);
    if (shown === undefined) block = "none";
    else write(`${codeMargin}${shown}\n`);
  };
  const addRow = (row: string): void => {
    if (block !== "table") {
      close();
      const lead = " ".repeat(Math.min(listed, row.length - row.trimStart().length));
      table = createTable({ write, width: width(), margin: margin + lead, inks });
      block = "table";
    }
    const none = table?.add(row) ?? [];
    if (none.length > 0) block = "none";
    for (const one of none) showLine(one.trim(), NO_INK);
    isAfterGap = false;
  };
  const drawRule = (body: string, kind: Kind): void => {
    const isUnderText = block === "text" && listed === 0;
    close();
    const cells = Math.min(isUnderText ? body.trim().length : RULE_CELLS, width() - 2 * quoted);
    say(inInk((kind === "underline" ? "═" : "─").repeat(cells), inks.tag));
  };
  const isIndentedCode = (body: string, depth: number): boolean => {
    const isOutside = depth !== quoted || (block !== "text" && listed === 0);
    return isOutside && body.startsWith(" ".repeat(CODE_INDENT)) && body.length <= ROW_CHARS_MAX;
  };
  /** What a line is: too long for what it would be, it is a text. */
  const kindIn = (line: string, body: string): Kind => {
    const kind = kindOf(body);
    if (kind === "underline" && block !== "text") return "text";
    const charsMax = kind === "table" ? ROW_CHARS_MAX : UNSURE_CHARS_MAX;
    return line.length > charsMax && !isSureOf(line.slice(0, charsMax + 1)) ? "text" : kind;
  };

  const endLine = (line: string): Promise<void> | undefined => {
    if (block === "code" && isBegun) {
      isBegun = false;
      return void write(`${asCode(line)}\n`);
    }
    if (block === "code") {
      const inner = withoutQuotes(line, quoted);
      if (inner !== undefined) return void endCodeLine(inner);
      block = "none";
    }
    if (isBegun) {
      isBegun = false;
      return void endText(line);
    }
    const { depth, body } = bodyOf(line);
    quote(depth);
    const kind = kindIn(line, body);
    if (block === "table" && kind !== "table") close();
    switch (kind) {
      case "blank":
        close();
        return void gap();
      case "fence":
        return openCode(body);
      case "heading": {
        close();
        gap();
        listed = 0;
        const { level, words } = headingOf(body) ?? { level: 1, words: body };
        return void showLine(words, level <= 2 ? titleInk : inks.strong);
      }
      case "underline":
      case "rule":
        return void drawRule(body, kind);
      case "table":
        return void addRow(body);
      case "item":
        return void endText(openText(body, kind));
      case "text":
        if (isIndentedCode(body, depth)) return void say(asCode(body));
        return void endText(openText(body, kind));
    }
  };
  const showBeginning = (line: string, piece: string): string => {
    if (block === "code") {
      if (!isBegun && !isLongCode(line)) return line;
      write(isBegun ? asCode(line) : codeMargin + asCode(withoutQuotes(line, quoted) ?? line));
      isAfterGap = false;
      isBegun = true;
      return "";
    }
    let left = line;
    if (!isBegun) {
      const { depth, body } = bodyOf(line);
      const isSure = isSureOf(line);
      const charsMax = body.trimStart().startsWith("|") ? ROW_CHARS_MAX : UNSURE_CHARS_MAX;
      if ((!isSure && line.length <= charsMax) || isIndentedCode(body, depth)) return line;
      quote(depth);
      if (block === "table") close();
      left = openText(body, isSure ? kindOf(body) : "text");
      isBegun = true;
    } else if (!hasMore(left, piece)) return left;
    return addText(left, false);
  };
  return {
    endLine,
    showBeginning,
    rest: text.rest,
    end: () => {
      close();
      quote(0);
      listed = 0;
      isBegun = false;
      isAfterGap = true;
    },
  };
}

/** A line within so many quotes; undefined where it is outside of them. */
function withoutQuotes(line: string, depth: number): string | undefined {
  let rest = line;
  for (let quote = 0; quote < depth; quote += 1) {
    const [sign] = /^ {0,3}> ?/.exec(rest) ?? [];
    if (sign === undefined) return undefined;
    rest = rest.slice(sign.length);
  }
  return rest;
}

/** A longer line is shown as it comes. */
const LINE_CHARS_MAX = 4_000;

/** A block of code: lines between two fences, shown as they are, which the terminal wraps. */
interface CodeBlock {
  readonly name: string;
  /** What its lines begin with, where it belongs to a list. */
  readonly lead: string;
  /** Settles when its language is there; undefined where there is nothing to wait for. */
  readonly loading: Promise<void> | undefined;
  /** A line as it is shown, without the indent of the fence; undefined for the one that ends the block. */
  line(line: string): string | undefined;
}

function openCodeBlock(fence: string, { paint, listed }: { paint: Paint; listed: number }): CodeBlock {
  const { indent, mark, name } = fenceOf(fence) ?? { indent: 0, mark: "", name: "" };
  let show = plainCode(paint);
  const language = show("-") === "-" ? undefined : languageOf(name);
  const isLoading = language instanceof Promise;
  if (language !== undefined && !isLoading) show = createHighlight(language, paint);
  return {
    name,
    lead: " ".repeat(Math.min(listed, indent)),
    loading: isLoading
      ? language.then((parser) => {
          if (parser !== undefined) show = createHighlight(parser, paint);
        })
      : undefined,
    line: (line) => {
      const bare = line.trim();
      if (bare.startsWith(mark) && bare === (bare[0] ?? "").repeat(bare.length)) return undefined;
      return show(line.slice(Math.min(indent, line.length - line.trimStart().length)));
    },
  };
}

/** Code of no language that is known. */
function plainCode(paint: Paint): (line: string) => string {
  const ink = inkOf(paint.green);
  return (line) => (line === "" ? "" : inInk(line, ink));
}

/** Whether so much of a line is too long to wait for its end. */
function isLongCode(line: string): boolean {
  return line.length > LINE_CHARS_MAX;
}

// Each in as many steps as the line has signs: a model may write a line of nothing else.

type Kind = "blank" | "fence" | "heading" | "rule" | "underline" | "table" | "item" | "text";

const QUOTE = /^ {0,3}>(?: ?>)* ?/;
const QUOTED_MAX = 8;
const ITEM = /^( *)([-*+]|\d{1,9}[.)]) +(\[[ xX]\] )?(?=\S)/;

/** What a line is, by how it begins. */
function kindOf(body: string): Kind {
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
function bodyOf(line: string): { readonly depth: number; readonly body: string } {
  const [signs = ""] = QUOTE.exec(line) ?? [];
  if (signs === "") return { depth: 0, body: line };
  return { depth: Math.min(QUOTED_MAX, signs.split(">").length - 1), body: line.slice(signs.length) };
}

/** Where code begins, or ends. */
function fenceOf(line: string): { indent: number; mark: string; name: string } | undefined {
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

function headingOf(line: string): { level: number; words: string } | undefined {
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
function isSureOf(beginning: string): boolean {
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
function openingOf(body: string, listed: number): { first: string; further: string; rest: string } {
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
