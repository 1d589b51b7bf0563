import { withoutControls } from "@rkat/server/http/terminal-text";
import type { Paint } from "../io.ts";
import { createHighlight, languageOf } from "./highlight.ts";
import { addInline, createInks, hasMore } from "./markdown-inline.ts";
import { bodyOf, fenceOf, headingOf, isSureOf, type Kind, kindOf, openingOf } from "./markdown-lines.ts";
import { createTable, type Table } from "./markdown-table.ts";
import { createWrappedText, type Ink, inInk, inked, inkOf, NO_INK } from "./wrapped-text.ts";

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
  /** Leaves no ink open. */
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
  /** A line of its own. */
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
