import { join } from "node:path";
import type { AgentHistory, AgentReceipt, AgentStatus, LongtermQuality, Remaking } from "@rkat/core/contract/agent";
import { withoutControls } from "@rkat/server/http/terminal-text";
import type { OpenedCall, View } from "../command-row.ts";
import { alignColumns, counted, grouped, indented, momentText, oneLine } from "../io.ts";
import { isThere } from "../open-runtime.ts";
import { type ReceiptView, receiptLines } from "./receipt-lines.ts";

const COLUMNS_DEFAULT = 120;
const NOTE_CHARS_MAX = 1_000;

/** A compaction of an agent: its facts, then each summary with its receipt. */
export function agentReceiptLines(
  answer: AgentReceipt,
  { io, paint, flags, arg }: OpenedCall<{ readonly all?: boolean }>,
): readonly string[] {
  const columns = io.stdout.columns ?? COLUMNS_DEFAULT;
  const view: ReceiptView = { paint, columns, isWhole: flags.all === true, allHint: "--all", of: "memories" };
  const { recent, longterm } = answer;
  return [
    paint.bold(`Compaction of ${arg("name")}, seq ${answer.seq}`),
    ...alignColumns(factRows(answer).map(([name, fact]) => [`   ${name}`, fact])),
    ...(longterm === undefined ? [] : tierLines("Long-term summary", longterm, view)),
    ...tierLines("Short-term summary", recent, view),
  ];
}

type Fact = readonly [name: string, fact: string];

function factRows(receipt: AgentReceipt): readonly Fact[] {
  const { created_at, at_count, forced, model, usage, notes, quality, remaking } = receipt;
  const why = forced ? "requested" : "due";
  return [
    ["when", momentText(created_at)],
    ["why", `${why}, with ${grouped(at_count)} memories`],
    ["written by", model ?? "no model: its sentences are quoted from the memories"],
    ["cost", `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`],
    ...notes.map((note): Fact => ["note", oneLine(note, NOTE_CHARS_MAX)]),
    ...(quality === undefined ? [] : [["quality", qualityText(quality)] as const]),
    ...(remaking === undefined ? [] : [["made anew", remakingText(remaking)] as const]),
  ];
}

/** `0.83: it has 5 of the 14 specifics of its sources, where 6 would fit`. */
function qualityText({ quality, kept, sources, attainable }: LongtermQuality): string {
  if (sources === 0) return `${quality}: its sources have no specifics`;
  const said = `it has ${grouped(kept)} of the ${grouped(sources)} specifics of its sources`;
  return `${quality}: ${said}${attainable > kept ? `, where ${grouped(attainable)} would fit` : ""}`;
}

function remakingText({ outcome, summaries, specifics, kept_before, kept_remade = 0, reason }: Remaking): string {
  const before = `${grouped(kept_before)} of ${grouped(specifics)} specifics`;
  const of = `${grouped(summaries)} short-term summaries`;
  switch (outcome) {
    case "remade":
      return `of ${of}: it says ${grouped(kept_remade)} of ${grouped(specifics)} specifics now, ${grouped(kept_before)} before`;
    case "not_needed":
      return `no: compared with ${of}, it has what can be kept, ${before}`;
    case "not_better":
      return `no: of ${of} it would say ${grouped(kept_remade)} of ${grouped(specifics)} specifics, now ${grouped(kept_before)}`;
    case "failed":
      return `no: ${oneLine(reason ?? "it failed", NOTE_CHARS_MAX)}; it says ${before} of ${of}`;
  }
}

function tierLines(title: string, tier: AgentReceipt["recent"], view: ReceiptView): readonly string[] {
  const { from, to, summary, by, receipt } = tier;
  const { bold, dim } = view.paint;
  return [
    "",
    `${bold(`${title} of memories ${grouped(from)} to ${grouped(to)}`)}${by === "extractive" ? dim("  extractive") : ""}`,
    ...indented(summary),
    "",
    ...(receipt === undefined ? [dim(NO_RECEIPT)] : receiptLines(receipt, view)),
  ];
}

const NO_RECEIPT = "It was written before receipts existed.";

export function historyLines(
  { summaries, next_before_seq }: AgentHistory,
  { paint, arg }: OpenedCall,
): readonly string[] {
  const { bold, dim } = paint;
  return [
    ...summaries.flatMap(({ seq, created_at, tier, from, to, summary, receipt, quality, remaking }) => [
      bold(`${tier === "recent" ? "short-term" : "long-term"} summary of memories ${from} to ${to}`) +
        `  ${dim(`seq ${seq}, ${created_at}`)}`,
      withoutControls(summary).trimEnd(),
      dim(`   ${receipt === undefined ? "no receipt" : countsText(receipt)}`),
      ...(quality === undefined ? [] : [dim(`   quality ${qualityText(quality)}`)]),
      ...(remaking === undefined ? [] : [dim(`   made anew ${remakingText(remaking)}`)]),
      "",
    ]),
    ...(summaries.length === 0 ? ["No memories were compacted."] : []),
    ...(next_before_seq === undefined
      ? []
      : [dim(`Older ones: rkat agent history ${arg("name")} --before ${next_before_seq}`)]),
  ];
}

function countsText(counts: NonNullable<AgentHistory["summaries"][number]["receipt"]>): string {
  const { total, in_summary, in_tail, recoverable, lost, invented, unverified } = counts;
  const places = `${grouped(in_summary)} in it, ${grouped(in_tail)} shown besides it, ${grouped(recoverable)} recoverable`;
  const claims = `${grouped(invented)} invented, ${counted(unverified, "sentence")} unverified`;
  return `${counted(total, "specific")}: ${places}, ${grouped(lost)} lost; ${claims}`;
}

const PROBLEM = "problem";
const SENTENCE_CHARS_MAX = 1_000;

/** What an agent remembers: counts, tiers, the last compaction and the next, then both summaries. */
export async function agentStatusLines(
  status: AgentStatus,
  { opened, paint }: Pick<View, "opened" | "paint">,
): Promise<readonly string[]> {
  const { agent, count, notes, immediate_count, immediate_window, compactions, last_compaction_at, last_error } =
    status;
  const folder = join(opened.place.stateFolder, ".rkat", "agents", agent);
  const hasFiles = opened.config.store.url === undefined && (await isThere(folder));
  const newest = rangeText({ from_seq: count - immediate_count + 1, to_seq: count });
  const made =
    last_compaction_at === undefined
      ? "none yet"
      : `${grouped(compactions)}, the last ${momentText(last_compaction_at)}`;
  const rows = [
    ["agent", agent],
    ["memories", grouped(count)],
    ["notes", grouped(notes)],
    [
      "immediate",
      immediate_count === 0 ? "none" : `${newest}, word for word; the window is ${grouped(immediate_window)}`,
    ],
    ["short-term", summaryText(status.recent_range)],
    ["long-term", summaryText(status.longterm_range)],
    ["compactions", made],
    ["next", nextText(status)],
    ...(last_error === undefined ? [] : [[PROBLEM, oneLine(last_error, SENTENCE_CHARS_MAX)]]),
    ...(hasFiles ? [["files", folder]] : []),
  ];
  const section = (title: string, text: string | undefined): readonly string[] =>
    text === undefined ? [] : ["", paint.bold(title), ...indented(text)];
  return [
    ...alignColumns(rows).map((row) => (row.startsWith(PROBLEM) ? paint.yellow(row) : row)),
    ...section("Long-term summary", status.longterm_summary),
    ...section("Short-term summary", status.recent_summary),
    ...(count + notes === 0 ? ["", paint.dim(strangerText(agent))] : []),
  ];
}

type Range = NonNullable<AgentStatus["recent_range"]>;

function summaryText(range: Range | undefined): string {
  return range === undefined ? "none yet" : `${rangeText(range)}, in a summary`;
}

function rangeText({ from_seq, to_seq }: Range): string {
  if (from_seq === to_seq) return `memory ${grouped(to_seq)}`;
  return `memories ${grouped(from_seq)}–${grouped(to_seq)}`;
}

function nextText({ count, next_compaction_at, compaction_due, compaction_running, last_error }: AgentStatus): string {
  if (compaction_running) return "runs now";
  const left = next_compaction_at - count;
  const at = `at ${grouped(next_compaction_at)} memories`;
  if (left > 0) return `${at}, ${grouped(left)} from now`;
  // After a failure it is due as well, and is tried again with the next memory.
  return compaction_due && last_error === undefined ? `${at}: it is due` : `${at}: it is due, with the next memory`;
}

/** For a name that was never used: it may be mistyped. */
export function strangerText(agent: string): string {
  return `${agent} has no memories yet; rkat agent list shows the agents that do.`;
}
