import type { Compaction, CompactResult } from "@rkat/core/contract/compaction";
import type { SessionHistory } from "@rkat/core/contract/session-info";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { print, type View } from "../command-row.ts";
import {
  ageSince,
  alignColumns,
  bytesText,
  counted,
  grouped,
  indented,
  momentText,
  costText as moneyText,
  oneLine,
  type Paint,
  writeJson,
} from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { findCompaction, shortId } from "../session-selector.ts";
import { placeText, rangesText, receiptLines } from "./receipt-lines.ts";

export interface Naming {
  /** The word that names it; without one, the command chooses. */
  readonly word: string | undefined;
  readonly all?: boolean;
  readonly json?: boolean;
  /** How to ask for `all`, where it is not a flag. */
  readonly allHint?: string;
}

export async function showCompaction(view: View, { word, all = false, json, allHint }: Naming): Promise<void> {
  const compaction = await findCompaction(view.opened, { id: view.id, word });
  if (json) return writeJson(view.io, compaction);
  await printCompaction(view, { compaction, all, ...(allHint === undefined ? {} : { allHint }) });
}

type Shown = NonNullable<CompactResult["compaction"]>;

const COLUMNS_DEFAULT = 120;

interface Printed {
  readonly compaction: Shown;
  readonly all: boolean;
  readonly allHint?: string;
}

export async function printCompaction(
  { io, paint, opened, id }: View,
  { compaction, all, allHint = "--all" }: Printed,
): Promise<void> {
  const columns = io.stdout.columns ?? COLUMNS_DEFAULT;
  const messages = await transcriptOf(opened, id);
  print(io, [
    paint.bold(compaction.cost === undefined ? `Compaction ${compaction.compaction_id}` : PREVIEW_TITLE),
    ...alignColumns(factRows(compaction, messages).map(([name, fact]) => [`   ${name}`, fact])),
    "",
    ...summaryLines(compaction, paint),
    ...receiptLines(compaction.receipt, { paint, columns, isWhole: all, allHint }),
    ...ruleLines(compaction, paint),
  ]);
}

const PREVIEW_TITLE = "Preview: nothing was changed and no model was called";

/** Undefined without a store: then turns are not counted. */
async function transcriptOf(
  { runtime, isKept }: Opened,
  session_id: string,
): Promise<SessionHistory["messages"] | undefined> {
  if (!isKept) return undefined;
  return (await runtime.dispatch("readHistory", { session_id })).messages;
}

type Fact = readonly [name: string, fact: string];

function factRows(compaction: Shown, messages: SessionHistory["messages"] | undefined): readonly Fact[] {
  const { kept, discarded, receipt, notes, evicted } = compaction;
  const pruned = receipt.pruned.length === 0 ? "" : `, ${counted(receipt.pruned.length, "result")} as a reference`;
  return [
    ...(compaction.cost === undefined ? madeRows(compaction) : []),
    ["messages", `${grouped(compaction.messages_before)} → ${grouped(compaction.messages_after)}`],
    ["tokens", tokensText(compaction)],
    ["taken out", evicted === undefined ? placeText(discarded, messages) : evictedText(evicted)],
    ["kept", `${placeText(kept, messages)}${pruned}`],
    ...stateRows(compaction),
    ...notes.map((note): Fact => ["note", oneLine(note, NOTE_CHARS_MAX)]),
    ...judgedRows(compaction),
    ...nativeRows(compaction),
    ["cost", costText(compaction)],
    ...economyRows(compaction),
    ...preparedRows(compaction),
  ];
}

function evictedText({ outputs, superseded, failed, large }: NonNullable<Shown["evicted"]>): string {
  const why = [
    [superseded, "superseded"],
    [failed, "of failed calls"],
    [large, "old and large"],
  ] as const;
  const parts = why.flatMap(([number, word]) => (number === 0 ? [] : [`${grouped(number)} ${word}`]));
  return `${counted(outputs, "tool output")}: ${parts.join(", ")}`;
}

const NOTE_CHARS_MAX = 1_000;

const REASONS: Readonly<Record<Compaction["trigger"], string>> = {
  threshold: "the context grew to the threshold",
  overflow: "the context no longer fitted the model",
  manual: "it was requested",
  eviction: "old tool output was trimmed before anything was summarised",
};

function madeRows({ created_at, trigger, instructions, summary_by, model }: Shown): readonly Fact[] {
  const writers: Readonly<Record<Compaction["summary_by"], string>> = {
    model,
    curator: "a curator",
    extractive: "no model: its sentences are quoted from the conversation",
    none: "no model: only tool results became references",
  };
  const writer = trigger === "eviction" ? "no model: tool outputs became one line each" : writers[summary_by];
  return [
    ["when", momentText(created_at)],
    ["why", `${trigger}: ${REASONS[trigger]}`],
    ...(instructions === undefined ? [] : [["instructions", oneLine(instructions, NOTE_CHARS_MAX)] as const]),
    ["written by", writer],
  ];
}

function stateRows({ superseded, reshape, expanded, undone }: Shown): readonly Fact[] {
  return [
    ...(superseded === undefined ? [] : [["replaces", `the summary of ${superseded}`] as const]),
    ...(reshape === "as_is" ? [] : [["simplified", reshape.replaceAll("_", " ")] as const]),
    ...(expanded.length === 0 ? [] : [["brought back", `seqs ${rangesText(expanded)}`] as const]),
    ...(undone ? [["state", "undone"] as const] : []),
  ];
}

function judgedRows({ judged }: Shown): readonly Fact[] {
  if (judged === undefined) return [];
  const { supported, contradicted, unverified, usage } = judged;
  const found = `${grouped(supported)} supported, ${grouped(contradicted)} contradicted, ${grouped(unverified)} unverified`;
  const spent = `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`;
  return [["judged", `${found}; of the cost, ${spent}`]];
}

function nativeRows({ native }: Shown): readonly Fact[] {
  if (native === undefined) return [];
  const { provider, model, usage, refused } = native;
  const spent = `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`;
  const use = refused ? "refused since, so the summary is sent" : `sent to ${model} in the place of the summary`;
  return [["native", `item of ${provider}, ${bytesText(native.bytes)}, ${use}; of the cost, ${spent}`]];
}

/** Whether it pays, in money, where a price is known. */
function economyRows({ economy }: Shown): readonly Fact[] {
  if (economy === undefined) return [];
  const { saves, costs, calls, cache } = economy;
  const saved = `saves about ${moneyText({ amount: saves })} over ${counted(calls, "call")}`;
  return [["pays", `${saved}, costs about ${moneyText({ amount: costs })} (the cache is ${cache})`]];
}

function preparedRows({ prepared, waited_ms, cost }: Shown): readonly Fact[] {
  if (prepared === undefined) return [];
  const waited = waited_ms === undefined || waited_ms === 0 ? "without a wait" : `waited ${waited_ms} ms`;
  return [["prepared", cost === undefined ? `${prepared.at}, ${waited}` : `${prepared.at}, so it calls no model`]];
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
  return [`${bold("Summary")}  ${dim(counted(summary_tokens, "token"))}`, ...indented(summary), ""];
}

function ruleLines({ rules = [] }: Shown, { bold }: Paint): readonly string[] {
  const following = rules.filter(({ follows }) => follows);
  if (following.length === 0) return [];
  const rows = following.map(({ text, seq }) => [" ", `seq ${seq}`, withoutControls(text)]);
  return ["", bold("Rules of the user that follow the summary, word for word"), ...alignColumns(rows)];
}

/** The compactions of a session, one line each, newest first: the order `~1` counts in. */
export function compactionTable(
  { compactions: oldestFirst }: { readonly compactions: readonly Compaction[] },
  { id, paint }: View,
): readonly string[] {
  const compactions = oldestFirst.toReversed();
  if (compactions.length === 0) return [`${shortId(id)} was not compacted yet.`];
  const replaced = new Set(compactions.flatMap(({ undone, superseded = "" }) => (undone ? [] : [superseded])));
  const hasNative = compactions.some(({ native }) => native !== undefined);
  const nativeOf = ({ native }: Compaction): string[] =>
    !hasNative ? [] : [native === undefined ? "" : `${native.provider}, ${bytesText(native.bytes)}`];
  const rows = compactions.map((compaction) => [
    ...factsOf(compaction),
    ...nativeOf(compaction),
    stateOf(compaction, replaced),
  ]);
  const head = ["ID", "WHEN", "WHY", "MESSAGES", "TOKENS", "LOST", ...(hasNative ? ["NATIVE ITEM"] : []), "STATE"];
  return alignColumns([head, ...alignRight(rows)]).map((line, index) => {
    const isPale = ["undone", "replaced"].includes(rows[index - 1]?.at(-1) ?? "undone");
    return isPale ? paint.dim(line) : line;
  });
}

/** Whether the compaction is in effect. */
function stateOf({ compaction_id, undone, expanded }: Compaction, replaced: ReadonlySet<string>): string {
  if (undone) return "undone";
  if (replaced.has(compaction_id)) return "replaced";
  return expanded.length > 0 ? "expanded" : "stands";
}

function factsOf(compaction: Compaction): readonly string[] {
  const { compaction_id, created_at, trigger, receipt } = compaction;
  return [
    shortId(compaction_id),
    ageSince(created_at),
    trigger,
    `${grouped(compaction.messages_before)} → ${grouped(compaction.messages_after)}`,
    `${grouped(compaction.tokens_before)} → ${grouped(compaction.tokens_after)}`,
    grouped(receipt.lost),
  ];
}

const NUMBER_COLUMNS = [3, 4, 5];

/** Numbers end where the numbers above and below them do. */
function alignRight(rows: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const widths = NUMBER_COLUMNS.map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => row.map((cell, column) => cell.padStart(widths[NUMBER_COLUMNS.indexOf(column)] ?? 0)));
}
