import { type Piece, sentencesIn, trimmed } from "../text/sentences.ts";

/** Removes sentences from a summary, and blocks that become empty; the rest is unchanged. */
export function cutSentences(summary: string, isCut: (sentence: string) => boolean): string {
  const blocks = blocksOf(summary);
  const gone = goneBlocks(blocks, isCut);
  let text = "";
  let isAfterCut = false;
  let before: Block["kind"] | undefined;
  for (const [at, block] of blocks.entries()) {
    if (gone.has(at)) {
      isAfterCut = true;
      continue;
    }
    // Avoids two blank lines where a block was removed.
    if (block.kind === "blank" && isAfterCut && (before === undefined || before === "blank")) continue;
    if (block.kind !== "blank") isAfterCut = false;
    before = block.kind;
    text += withoutSentences(summary, block, isCut);
  }
  if (isEmpty(blocks, gone)) return "";
  return gone.size > 0 && !summary.endsWith("\n") ? text.trimEnd() : text;
}

function goneBlocks(blocks: readonly Block[], isCut: (sentence: string) => boolean): ReadonlySet<number> {
  const gone = new Set<number>();
  for (const [at, block] of blocks.entries()) {
    if (block.sentences.length === 0 || !block.sentences.every(({ text }) => isCut(text))) continue;
    gone.add(at);
    if (introducesNext(block) || isTableHead(blocks, at)) for (const child of childrenOf(blocks, at)) gone.add(child);
  }
  if (gone.size === 0) return gone;
  for (let at = blocks.length - 1; at >= 0; at -= 1) if (isLeftEmpty(blocks, at, gone)) dropOwner(blocks, at, gone);
  return gone;
}

/** Whether all children of a block were removed. */
function isLeftEmpty(blocks: readonly Block[], at: number, gone: ReadonlySet<number>): boolean {
  const block = blocks[at];
  if (block === undefined || gone.has(at) || !isOwner(blocks, at)) return false;
  const children = childrenOf(blocks, at).filter(
    (child) => blocks[child]?.kind !== "rule" && blocks[child]?.kind !== "fence",
  );
  return children.length > 0 && children.every((child) => gone.has(child));
}

function isOwner(blocks: readonly Block[], at: number): boolean {
  const block = blocks[at];
  if (block === undefined) return false;
  return block.kind === "heading" || block.kind === "fence" || introducesNext(block) || isTableHead(blocks, at);
}

function dropOwner(blocks: readonly Block[], at: number, gone: Set<number>): void {
  gone.add(at);
  for (const child of childrenOf(blocks, at)) gone.add(child);
}

function isTableHead(blocks: readonly Block[], at: number): boolean {
  return blocks[at]?.kind === "row" && blocks[at + 1]?.kind === "rule";
}

/** Each sentence is removed with the space after it, the last ones with the space before. */
function withoutSentences(summary: string, block: Block, isCut: (sentence: string) => boolean): string {
  const { start, end, sentences } = block;
  if (!sentences.some(({ text }) => isCut(text))) return summary.slice(start, end);
  const lastKept = sentences.findLastIndex(({ text }) => !isCut(text));
  const kept = sentences.map((piece, at) => {
    if (isCut(piece.text)) return "";
    const next = sentences[at + 1];
    return summary.slice(piece.start, at === lastKept || next === undefined ? piece.end : next.start);
  });
  return summary.slice(start, sentences[0]?.start) + kept.join("") + summary.slice(sentences.at(-1)?.end, end);
}

/** Frames, headings and blank lines alone are empty. */
function isEmpty(blocks: readonly Block[], gone: ReadonlySet<number>): boolean {
  if (gone.size === 0) return false;
  return blocks.every(({ kind }, at) => gone.has(at) || kind === "blank" || kind === "frame" || kind === "heading");
}

type BlockKind = "heading" | "bullet" | "row" | "rule" | "fence" | "code" | "text" | "frame" | "blank";

/** A line of a summary, or the lines of one wrapped paragraph or bullet. */
export interface Block {
  readonly kind: BlockKind;
  readonly start: number;
  /** After the line break. */
  readonly end: number;
  /** Depth of a heading, indentation of other blocks. */
  readonly level: number;
  readonly sentences: readonly Piece[];
}

const BULLET = /^\s*(?:(?:[-*+•・]|\d{1,3}[.)])\s+|\d{1,3}、)(?:\[[ xX]\]\s+)?/u;
const HEADING = /^(#{1,6})\s+/u;
/** A bold line is a heading below all others. */
const BOLD_LINE = /^\s*(?:\*\*[^*]+\*\*|__[^_]+__)\s*(?:[:：]\s*)?$/u;
const BOLD_LEVEL = 7;
const FRAME = /^\s*<\/?[\w-]+>\s*$/u;
const RULE = /^\s*(?:\|\s*)?:?--[\s:|-]*$/u;
const FENCE = /^\s*(?:```|~~~)/u;
const LINE_ENDS = /[.!?:;…。！？：；)\]*|`]\s*$/u;
const INTRODUCES_NEXT = /[:：]\s*(?:(?:\*\*|__)\s*)?$/u;

/** Splits a summary into blocks; joined they are the same text. */
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

/** Whether a block introduces the following one. */
function introducesNext(block: Block): boolean {
  return (block.kind === "text" || block.kind === "bullet") && INTRODUCES_NEXT.test(block.sentences.at(-1)?.text ?? "");
}

/** Indexes of the blocks that depend on this one. */
function childrenOf(blocks: readonly Block[], at: number): readonly number[] {
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

/** Whether a line continues a wrapped sentence. */
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
