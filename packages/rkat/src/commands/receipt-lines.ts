import type { FactKind, Receipt, SeqRange, ReceiptView as Told } from "@rkat/core/contract/compaction";
import { CLASS_OF } from "@rkat/core/contract/describe-event";
import type { Message } from "@rkat/core/contract/message";
import { alignColumns, counted, grouped, oneLine, type Paint } from "../io.ts";

export interface ReceiptView {
  readonly paint: Paint;
  readonly columns: number;
  /** Whether every fact is listed, and not a few of each kind. */
  readonly isWhole: boolean;
  /** What to write to have every one listed. */
  readonly allHint: string;
  /** What facts are counted by the numbers of: messages of a session, or an agent's memories. */
  readonly of?: "messages" | "memories";
}

/** `12 facts: 5 in view (3 in the summary), 7 recoverable, 0 lost`. */
function receiptTotals({ total, in_summary, in_tail, pinned, recoverable, lost }: Receipt): string {
  const shown = `${grouped(in_summary + in_tail + pinned)} in view (${grouped(in_summary)} in the summary)`;
  return `${counted(total, "fact")}: ${shown}, ${grouped(recoverable)} recoverable, ${grouped(lost)} lost`;
}

function placeOf(seq: number, { of = "messages" }: ReceiptView): string {
  return of === "messages" ? `seq ${seq}` : `memory ${seq}`;
}

/** The receipt: its verdict, lost facts first and in full, then the others by kind. */
export function receiptLines(receipt: Told, view: ReceiptView): readonly string[] {
  const { paint } = view;
  const { lost, verdict } = receipt;
  return [
    paint.bold("Receipt"),
    `   ${lost === 0 ? verdict : paint.red(verdict)}`,
    `   ${receiptTotals(receipt)}`,
    ...lostLines(receipt, view),
    ...inventedLines(receipt, view),
    ...doubtfulLines(receipt, view),
    ...prunedLines(receipt, view),
    ...kindLines(receipt, view),
    ...uncountedLines(receipt, view),
  ];
}

type Item = Receipt["items"][number];

function lostLines({ items, lost }: Receipt, view: ReceiptView): readonly string[] {
  const { paint } = view;
  const gone = items.filter(({ status }) => status === "lost");
  if (gone.length === 0) return [];
  const rows = gone.map(({ kind, text, seq }) => [" ", kind, placeOf(seq, view), oneLine(text, WHOLE)]);
  const more = lost > gone.length ? [paint.red(`   … and ${grouped(lost - gone.length)} more`)] : [];
  return ["", paint.red("Lost: neither in the context nor found again"), ...alignColumns(rows), ...more];
}

/** Lost facts are shown in full. */
const WHOLE = 1_000_000;
const INVENTED_SHOWN_MAX = 20;

function inventedLines(
  { invented, invented_cut }: Receipt,
  { paint, isWhole, allHint }: ReceiptView,
): readonly string[] {
  if (invented.length === 0) return [];
  const fate = invented_cut ? "its sentences were cut from the summary" : "it is still in the summary";
  const shown = isWhole ? invented : invented.slice(0, INVENTED_SHOWN_MAX);
  return [
    "",
    paint.yellow(`Invented: no message contains it; ${fate}`),
    ...shown.flatMap(({ kind, text, sentence }) => [
      `   ${kind}  ${oneLine(text, WHOLE)}`,
      ...(sentence === "" ? [] : [paint.dim(`      ${invented_cut ? "cut: " : "in: "}${oneLine(sentence, WHOLE)}`)]),
    ]),
    ...moreLine(invented.length - shown.length, allHint),
  ];
}

const DOUBTFUL_SHOWN_MAX = 5;

function doubtfulLines({ doubtful = [] }: Receipt, { paint, isWhole, allHint }: ReceiptView): readonly string[] {
  if (doubtful.length === 0) return [];
  const shown = isWhole ? doubtful : doubtful.slice(0, DOUBTFUL_SHOWN_MAX);
  return [
    "",
    paint.bold("Not checked: sentences that contradict a message, or that no message contains"),
    ...shown.map((sentence) => `   ${oneLine(sentence, WHOLE)}`),
    ...moreLine(doubtful.length - shown.length, allHint),
  ];
}

const PRUNED_SHOWN_MAX = 10;

function prunedLines({ pruned }: Receipt, { paint, isWhole, allHint }: ReceiptView): readonly string[] {
  if (pruned.length === 0) return [];
  const shown = isWhole ? pruned : pruned.slice(0, PRUNED_SHOWN_MAX);
  const rows = shown.map(({ seq, tool_use_id, tokens }) => [
    " ",
    `seq ${seq}`,
    oneLine(tool_use_id, ID_CHARS_MAX),
    `${grouped(tokens)} tokens`,
  ]);
  const title = paint.bold("Tool results that stand as a reference; the log has them whole");
  return ["", title, ...alignColumns(rows), ...moreLine(pruned.length - shown.length, allHint)];
}

const ID_CHARS_MAX = 60;

const KINDS: Readonly<Record<FactKind, string>> = {
  work_state: "Work",
  ask: "Asked",
  rule: "Rules",
  path: "Paths",
  identifier: "Identifiers",
  url: "URLs",
  command: "Commands",
  number: "Numbers",
};

const SHOWN_PER_KIND_MAX = 6;

function kindLines({ items }: Receipt, view: ReceiptView): readonly string[] {
  const byKind = Map.groupBy(items, ({ kind }) => kind);
  // The table of kinds names each of them, in the order they matter to a reader.
  return (Object.keys(KINDS) as FactKind[]).flatMap((kind) => {
    const all = (byKind.get(kind) ?? []).filter(({ status }) => status !== "lost");
    if (all.length === 0) return [];
    const shown = view.isWhole ? all : all.slice(0, SHOWN_PER_KIND_MAX);
    const title = `${view.paint.bold(KINDS[kind])}  ${view.paint.dim(placesOf(all))}`;
    return ["", title, ...itemLines(shown, view), ...moreLine(all.length - shown.length, view.allHint)];
  });
}

function placesOf(items: readonly Item[]): string {
  const byClass = Map.groupBy(items, ({ status }) => CLASS_OF[status]);
  return [...byClass].map(([name, those]) => `${those.length} ${name}`).join(", ");
}

const TEXT_CHARS_MIN = 30;

function itemLines(items: readonly Item[], view: ReceiptView): readonly string[] {
  const { columns } = view;
  const heads = alignColumns(items.map(({ status, seq }) => [" ", CLASS_OF[status], placeOf(seq, view), "|"]));
  return items.map(({ text }, index) => {
    const head = heads[index]?.slice(0, -1) ?? "";
    return `${head}${oneLine(text, Math.max(TEXT_CHARS_MIN, columns - head.length))}`;
  });
}

function moreLine(count: number, allHint: string): readonly string[] {
  return count > 0 ? [`   … and ${grouped(count)} more (${allHint})`] : [];
}

/** A receipt lists so many; its counts are of all. */
function uncountedLines({ total, items }: Receipt, { paint }: ReceiptView): readonly string[] {
  const more = total - items.length;
  if (more <= 0) return [];
  return ["", paint.dim(`${grouped(more)} further facts are counted above and listed nowhere`)];
}

const RANGES_SHOWN_MAX = 8;

/** `2–17, 21`: the seqs of ranges, as many as a line can hold. */
export function rangesText(ranges: readonly SeqRange[]): string {
  const shown = ranges.slice(0, RANGES_SHOWN_MAX).map(({ from_seq, to_seq }) => span(from_seq, to_seq));
  const more = ranges.length - shown.length;
  return `${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** `12 messages: seqs 2–31, turns 1–6`; without a transcript, the seqs alone. */
export function placeText(
  ranges: readonly SeqRange[],
  transcript: readonly (Message & { readonly seq: number })[] | undefined,
): string {
  if (ranges.length === 0) return "nothing";
  const seqs = `seqs ${rangesText(ranges)}`;
  if (transcript === undefined) return seqs;
  const turns = new Set<number>();
  let turn = 0;
  let messages = 0;
  for (const { role, seq } of transcript) {
    if (role === "user") turn += 1;
    if (!ranges.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq)) continue;
    messages += 1;
    turns.add(Math.max(turn, 1));
  }
  const numbers = rangesText(runsOf([...turns]));
  return `${counted(messages, "message")}: ${seqs}, ${turns.size === 1 ? "turn" : "turns"} ${numbers}`;
}

function runsOf(numbers: readonly number[]): readonly SeqRange[] {
  const runs: SeqRange[] = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last !== undefined && last.to_seq === number - 1) last.to_seq = number;
    else runs.push({ from_seq: number, to_seq: number });
  }
  return runs;
}

function span(from: number, to: number): string {
  return from === to ? grouped(from) : `${grouped(from)}–${grouped(to)}`;
}
