import { type Block, blocksOf, childrenOf, leadsIn } from "./summary-blocks.ts";

/** A summary without some sentences, and without what they leave empty; all else stays byte for byte. */
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
    // Two blank lines would stand where the block stood between them.
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
    if (leadsIn(block) || isTableHead(blocks, at)) for (const child of childrenOf(blocks, at)) gone.add(child);
  }
  if (gone.size === 0) return gone;
  for (let at = blocks.length - 1; at >= 0; at -= 1) if (isLeftEmpty(blocks, at, gone)) dropOwner(blocks, at, gone);
  return gone;
}

/** Whether a block owned something and owns nothing any more. */
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
  return block.kind === "heading" || block.kind === "fence" || leadsIn(block) || isTableHead(blocks, at);
}

function dropOwner(blocks: readonly Block[], at: number, gone: Set<number>): void {
  gone.add(at);
  for (const child of childrenOf(blocks, at)) gone.add(child);
}

function isTableHead(blocks: readonly Block[], at: number): boolean {
  return blocks[at]?.kind === "row" && blocks[at + 1]?.kind === "rule";
}

/** Each sentence goes with the space after it, the last ones with the space before. */
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

/** Frames, headings and blank lines say nothing alone. */
function isEmpty(blocks: readonly Block[], gone: ReadonlySet<number>): boolean {
  if (gone.size === 0) return false;
  return blocks.every(({ kind }, at) => gone.has(at) || kind === "blank" || kind === "frame" || kind === "heading");
}
