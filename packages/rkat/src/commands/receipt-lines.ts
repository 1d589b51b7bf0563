import type { FactKind, Receipt, SeqRange, SpecificStatus } from "@rkat/core/contract/compaction";
import type { Message } from "@rkat/core/contract/message";
import { alignColumns, counted, grouped, oneLine, type Paint } from "../io.ts";

export interface ReceiptView {
  readonly paint: Paint;
  readonly columns: number;
  /** Whether every specific is listed, and not a few of each kind. */
  readonly isWhole: boolean;
  /** What to write to have every one listed. */
  readonly allHint: string;
  /** What specifics are counted by the numbers of: messages of a session, or an agent's memories. */
  readonly of?: "messages" | "memories";
}

/** `12 specifics: 3 in the summary, 2 in the tail, 0 pinned, 7 recoverable, 0 lost`. */
export function receiptTotals({ total, in_summary, in_tail, pinned, recoverable, lost }: Receipt): string {
  const places = `${grouped(in_summary)} in the summary, ${grouped(in_tail)} in the tail, ${grouped(pinned)} pinned`;
  return `${counted(total, "specific")}: ${places}, ${grouped(recoverable)} recoverable, ${grouped(lost)} lost`;
}

function memoryTotals({ total, in_summary, in_tail, recoverable, lost }: Receipt): string {
  const places = `${grouped(in_summary)} in the summary, ${grouped(in_tail)} shown besides it`;
  return `${counted(total, "specific")}: ${places}, ${grouped(recoverable)} recoverable, ${grouped(lost)} lost`;
}

function placeOf(seq: number, { of = "messages" }: ReceiptView): string {
  return of === "messages" ? `seq ${seq}` : `memory ${seq}`;
}

/** `3 sentences of the summary are unverified`, where there are any. */
export function unverifiedTotals({ unverified = [] }: Receipt): readonly string[] {
  const are = unverified.length === 1 ? "is" : "are";
  return unverified.length === 0 ? [] : [`${counted(unverified.length, "sentence")} of the summary ${are} unverified`];
}

/** The receipt: lost specifics first and in full, then the others by kind. */
export function receiptLines(receipt: Receipt, view: ReceiptView): readonly string[] {
  const { paint } = view;
  const { lost } = receipt;
  const totals = view.of === "memories" ? memoryTotals(receipt) : receiptTotals(receipt);
  return [
    paint.bold("Receipt"),
    `   ${lost === 0 ? totals : paint.red(totals)}`,
    ...unverifiedTotals(receipt).map((line) => `   ${line}`),
    ...lostLines(receipt, view),
    ...inventedLines(receipt, view),
    ...unverifiedLines(receipt, view),
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

/** Lost specifics are shown in full. */
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

const UNVERIFIED_SHOWN_MAX = 5;

function unverifiedLines({ unverified = [] }: Receipt, { paint, isWhole, allHint }: ReceiptView): readonly string[] {
  if (unverified.length === 0) return [];
  const shown = isWhole ? unverified : unverified.slice(0, UNVERIFIED_SHOWN_MAX);
  return [
    "",
    paint.bold("Unverified: claims of the summary without an exact source"),
    ...shown.map((sentence) => `   ${oneLine(sentence, WHOLE)}`),
    ...moreLine(unverified.length - shown.length, allHint),
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

const PLACES: Readonly<Record<SpecificStatus, string>> = {
  in_summary: "in summary",
  in_tail: "in tail",
  pinned: "pinned",
  recoverable: "recoverable",
  lost: "lost",
};

const SHOWN_PER_KIND_MAX = 6;

function kindLines({ items }: Receipt, view: ReceiptView): readonly string[] {
  const byKind = Map.groupBy(items, ({ kind }) => kind);
  // The table of kinds names each of them, in the order they matter to a reader.
  return (Object.keys(KINDS) as FactKind[]).flatMap((kind) => {
    const all = (byKind.get(kind) ?? []).filter(({ status }) => status !== "lost");
    if (all.length === 0) return [];
    const shown = view.isWhole ? all : all.slice(0, SHOWN_PER_KIND_MAX);
    const title = `${view.paint.bold(KINDS[kind])}  ${view.paint.dim(placesOf(all, view))}`;
    return ["", title, ...itemLines(shown, view), ...moreLine(all.length - shown.length, view.allHint)];
  });
}

function placesOf(items: readonly Item[], view: ReceiptView): string {
  const byStatus = Map.groupBy(items, ({ status }) => status);
  return [...byStatus].map(([status, those]) => `${those.length} ${statusOf(status, view)}`).join(", ");
}

/** Memories have no tail: what is shown besides a summary is the other one, and the newest of them. */
function statusOf(status: SpecificStatus, { of }: ReceiptView): string {
  return of === "memories" && status === "in_tail" ? "shown" : PLACES[status];
}

const TEXT_CHARS_MIN = 30;

function itemLines(items: readonly Item[], view: ReceiptView): readonly string[] {
  const { columns } = view;
  const heads = alignColumns(items.map(({ status, seq }) => [" ", statusOf(status, view), placeOf(seq, view), "|"]));
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
  return ["", paint.dim(`${grouped(more)} further specifics are counted above and listed nowhere`)];
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
