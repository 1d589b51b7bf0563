import { type Piece, sentencesIn, trimmed } from "../../../text/sentences.ts";

type BlockKind = "heading" | "bullet" | "row" | "rule" | "fence" | "code" | "text" | "frame" | "blank";

/** A line of a summary, or the lines one paragraph or bullet was wrapped into. */
export interface Block {
  readonly kind: BlockKind;
  readonly start: number;
  /** After the line break. */
  readonly end: number;
  /** Depth of a heading, indentation of all else. */
  readonly level: number;
  readonly sentences: readonly Piece[];
}

const BULLET = /^\s*(?:(?:[-*+•・]|\d{1,3}[.)])\s+|\d{1,3}、)(?:\[[ xX]\]\s+)?/u;
const HEADING = /^(#{1,6})\s+/u;
/** A line that is bold as a whole is a heading below all others. */
const BOLD_LINE = /^\s*(?:\*\*[^*]+\*\*|__[^_]+__)\s*(?:[:：]\s*)?$/u;
const BOLD_LEVEL = 7;
const FRAME = /^\s*<\/?[\w-]+>\s*$/u;
const RULE = /^\s*(?:\|\s*)?:?--[\s:|-]*$/u;
const FENCE = /^\s*(?:```|~~~)/u;
const LINE_ENDS = /[.!?:;…。！？：；)\]*|`]\s*$/u;
const LEADS_IN = /[:：]\s*(?:(?:\*\*|__)\s*)?$/u;

/** A summary as blocks; together they are the text, byte for byte. */
export function blocksOf(summary: string): readonly Block[] {
  const spans: Omit<Block, "sentences">[] = [];
  let isInFence = false;
  let start = 0;
  let before = "";
  for (const line of summary.split(/(?<=\n)/u)) {
    const kind = kindOf(line, isInFence);
    if (kind === "fence") isInFence = !isInFence;
    const end = start + line.length;
    const last = spans.at(-1);
    if (last !== undefined && kind === "text" && continues(last, line, before))
      spans[spans.length - 1] = { ...last, end };
    else spans.push({ kind, start, end, level: levelOf(line, kind) });
    start = end;
    before = line;
  }
  return spans.map((span) => ({ ...span, sentences: sentencesOfBlock(summary.slice(span.start, span.end), span) }));
}

/** Whether a block announces what follows it. */
export function leadsIn(block: Block): boolean {
  return (block.kind === "text" || block.kind === "bullet") && LEADS_IN.test(block.sentences.at(-1)?.text ?? "");
}

/** The places of the blocks that stand or fall with this one. */
export function childrenOf(blocks: readonly Block[], at: number): readonly number[] {
  const parent = blocks[at];
  if (parent === undefined) return [];
  const children: number[] = [];
  for (let next = at + 1; next < blocks.length; next += 1) {
    const block = blocks[next];
    if (block === undefined || endsGroup(blocks, { parent, block, next, isFirst: children.length === 0 })) break;
    if (block.kind !== "blank" && block.kind !== "frame") children.push(next);
  }
  return children;
}

interface Candidate {
  readonly parent: Block;
  readonly block: Block;
  readonly next: number;
  readonly isFirst: boolean;
}

function endsGroup(blocks: readonly Block[], { parent, block, next, isFirst }: Candidate): boolean {
  if (block.kind === "frame") return true;
  if (parent.kind === "heading") return block.kind === "heading" && block.level <= parent.level;
  if (block.kind === "heading") return true;
  if (parent.kind === "bullet") return block.kind !== "blank" && block.level <= parent.level;
  if (parent.kind === "row") return block.kind !== "row" && block.kind !== "rule";
  if (parent.kind === "fence") return blocks[next - 1]?.kind === "fence" && !isFirst;
  // A paragraph that ends in a colon owns the list, table or code below it, and no further paragraph.
  return block.kind === "text" && !isFirst;
}

function kindOf(line: string, isInFence: boolean): BlockKind {
  if (FENCE.test(line)) return "fence";
  if (isInFence) return "code";
  if (line.trim() === "") return "blank";
  if (HEADING.test(line) || BOLD_LINE.test(line)) return "heading";
  if (FRAME.test(line)) return "frame";
  if (RULE.test(line)) return line.includes("|") ? "rule" : "frame";
  if (/^\s*\|/u.test(line)) return "row";
  return BULLET.test(line) ? "bullet" : "text";
}

function levelOf(line: string, kind: BlockKind): number {
  if (kind !== "heading") return line.length - line.trimStart().length;
  return HEADING.exec(line)?.[1]?.length ?? BOLD_LEVEL;
}

/** Whether a line of text is the rest of a sentence that was wrapped. */
function continues(last: Omit<Block, "sentences">, line: string, before: string): boolean {
  if (last.kind === "bullet") return /^\s/u.test(line);
  return last.kind === "text" && !LINE_ENDS.test(before);
}

function sentencesOfBlock(text: string, { kind, start }: Omit<Block, "sentences">): readonly Piece[] {
  switch (kind) {
    case "blank":
    case "fence":
    case "rule":
    case "frame":
      return [];
    case "code":
    case "row":
    case "heading":
      return trimmed(text, start);
    case "bullet":
    case "text": {
      const marker = kind === "bullet" ? (BULLET.exec(text)?.[0].length ?? 0) : 0;
      return sentencesIn(text.slice(marker), start + marker);
    }
  }
}
