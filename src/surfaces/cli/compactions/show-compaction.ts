import type { Compaction, CompactResult } from "../../../contract/compaction.ts";
import type { SessionHistory } from "../../../contract/session.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint, type Paint } from "../paint.ts";
import { alignColumns, counted, grouped, oneLine } from "../plain-text.ts";
import { ageOf } from "../sessions/age.ts";
import { findCompaction, type Named } from "./compaction-selector.ts";
import { receiptLines } from "./receipt-lines.ts";
import { placeText, rangesText } from "./seq-ranges.ts";

export interface ShowCompactionFlags {
  readonly all?: boolean;
  readonly json?: boolean;
  /** How to ask for `all`; as a flag, unless it is asked for otherwise. */
  readonly allHint?: string;
}

/** Prints a compaction as a person reads it: what it did, its summary, its receipt. */
export async function showCompaction(
  io: Io,
  opened: Opened,
  { id, word, all = false, json, allHint = "--all" }: ShowCompactionFlags & Named,
): Promise<void> {
  const compaction = await findCompaction(opened, { id, word });
  if (json) return writeJson(io, compaction);
  await printCompaction(io, opened, { id, compaction, all, allHint });
}

type Shown = NonNullable<CompactResult["compaction"]>;

const COLUMNS_DEFAULT = 120;

interface Printed {
  readonly id: string;
  readonly compaction: Shown;
  readonly all: boolean;
  readonly allHint?: string;
}

/** Prints a compaction, or what one would be. */
export async function printCompaction(
  io: Io,
  opened: Opened,
  { id, compaction, all, allHint = "--all" }: Printed,
): Promise<void> {
  const paint = createPaint(io.stdout, io.env);
  const columns = io.stdout.columns ?? COLUMNS_DEFAULT;
  const messages = await transcriptOf(opened, id);
  const lines = [
    paint.bold(compaction.cost === undefined ? `Compaction ${compaction.compaction_id}` : PREVIEW_TITLE),
    ...alignColumns(factRows(compaction, messages).map(([name, fact]) => [`   ${name}`, fact])),
    "",
    ...summaryLines(compaction, paint),
    ...receiptLines(compaction.receipt, { paint, columns, isWhole: all, allHint }),
    ...ruleLines(compaction, paint),
  ];
  io.stdout.write(`${lines.join("\n")}\n`);
}

const PREVIEW_TITLE = "Preview: nothing was changed and no model was asked";

/** Without a store a transcript cannot be read, and turns are left uncounted. */
async function transcriptOf(
  { runtime, isKept }: Opened,
  session_id: string,
): Promise<SessionHistory["messages"] | undefined> {
  if (!isKept) return undefined;
  return (await runtime.dispatch("readHistory", { session_id })).messages;
}

type Fact = readonly [name: string, fact: string];

function factRows(compaction: Shown, messages: SessionHistory["messages"] | undefined): readonly Fact[] {
  const { kept, discarded, receipt, notes } = compaction;
  const pruned = receipt.pruned.length === 0 ? "" : `, ${counted(receipt.pruned.length, "result")} as a reference`;
  return [
    ...(compaction.cost === undefined ? madeRows(compaction) : []),
    ["messages", `${grouped(compaction.messages_before)} → ${grouped(compaction.messages_after)}`],
    ["tokens", tokensText(compaction)],
    ["taken out", placeText(discarded, messages)],
    ["kept", `${placeText(kept, messages)}${pruned}`],
    ...stateRows(compaction),
    ...notes.map((note): Fact => ["note", oneLine(note, NOTE_CHARS_MAX)]),
    ...judgedRows(compaction),
    ["cost", costText(compaction)],
  ];
}

const NOTE_CHARS_MAX = 1_000;

const REASONS: Readonly<Record<Compaction["trigger"], string>> = {
  threshold: "the context grew to the threshold",
  overflow: "the context no longer fitted the model",
  manual: "somebody asked for it",
};

function madeRows({ created_at, trigger, instructions, summary_by, model }: Shown): readonly Fact[] {
  const age = ageOf(Math.floor(Date.parse(created_at) / 1_000), Date.now());
  const moment = created_at.replace("T", " ").replace(/\.\d+Z$/, " UTC");
  const writers: Readonly<Record<Compaction["summary_by"], string>> = {
    model,
    curator: "a curator",
    extractive: "nobody: its sentences are the conversation's own",
    none: "nobody: only tool results became references",
  };
  return [
    ["when", `${age}, ${moment}`],
    ["why", `${trigger}: ${REASONS[trigger]}`],
    ...(instructions === undefined ? [] : [["told to", oneLine(instructions, NOTE_CHARS_MAX)] as const]),
    ["written by", writers[summary_by]],
  ];
}

function stateRows({ superseded, reshape, expanded, undone }: Shown): readonly Fact[] {
  return [
    ...(superseded === undefined ? [] : [["replaces", `the summary of ${superseded}`] as const]),
    ...(reshape === "as_is" ? [] : [["simplified", reshape.replaceAll("_", " ")] as const]),
    ...(expanded.length === 0 ? [] : [["brought back", `seqs ${rangesText(expanded)}`] as const]),
    ...(undone ? [["state", "undone: the context is as it would be without it"] as const] : []),
  ];
}

function judgedRows({ judged }: Shown): readonly Fact[] {
  if (judged === undefined) return [];
  const { supported, contradicted, unverified, usage } = judged;
  const found = `${grouped(supported)} supported, ${grouped(contradicted)} contradicted, ${grouped(unverified)} unverified`;
  const spent = `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`;
  return [["judged", `${found}; of the cost, ${spent}`]];
}

function tokensText({ tokens_before, tokens_after, cost }: Shown): string {
  const saved = tokens_before === 0 ? 0 : Math.round((1 - tokens_after / tokens_before) * 100);
  const after = cost === undefined ? grouped(tokens_after) : `about ${grouped(tokens_after)}`;
  return `about ${grouped(tokens_before)} → ${after}${saved > 0 ? `, ${saved} % less` : ""}`;
}

function costText({ cost, usage }: Shown): string {
  if (cost === undefined) return `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`;
  return `about ${grouped(cost.input_tokens)} tokens in / at most ${grouped(cost.max_output_tokens)} out`;
}

function summaryLines({ summary, summary_tokens, cost }: Shown, { bold, dim }: Paint): readonly string[] {
  if (cost?.max_output_tokens === 0)
    return [dim("There would be no summary: only tool results become references."), ""];
  if (cost !== undefined) return [dim("The summary would have to carry what the receipt calls recoverable."), ""];
  if (summary === "") return [];
  const text = withoutControls(summary).trim().split("\n");
  return [
    `${bold("Summary")}  ${dim(counted(summary_tokens, "token"))}`,
    ...text.map((line) => `   ${line}`.trimEnd()),
    "",
  ];
}

function ruleLines({ rules = [] }: Shown, { bold }: Paint): readonly string[] {
  const following = rules.filter(({ follows }) => follows);
  if (following.length === 0) return [];
  const rows = following.map(({ text, seq }) => [" ", `seq ${seq}`, withoutControls(text)]);
  return ["", bold("Rules of the user that follow the summary, word for word"), ...alignColumns(rows)];
}
