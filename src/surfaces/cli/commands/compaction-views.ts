import type { Compaction, CompactResult } from "../../../contract/compaction.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { SessionHistory } from "../../../contract/session-info.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import {
  ageOf,
  alignColumns,
  bytesText,
  counted,
  createPaint,
  grouped,
  type Io,
  costText as moneyText,
  oneLine,
  type Paint,
  writeJson,
} from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { shortId } from "../session-selector.ts";
import { placeText, rangesText, receiptLines } from "./receipt-lines.ts";

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

/** Prints a summary sentence by sentence, each with the messages it comes from. */
export async function showSources(
  io: Io,
  opened: Opened,
  { id, word, json }: Named & { readonly json?: boolean },
): Promise<void> {
  const { compaction_id } = await findCompaction(opened, { id, word });
  const sources = await opened.runtime.dispatch("readSummarySources", { session_id: id, compaction_id });
  if (json) return writeJson(io, sources);
  const paint = createPaint(io.stdout, io.env);
  for (const { text, seqs } of sources.sentences) {
    const from = seqs.length === 0 ? paint.yellow("no message says it") : paint.dim(`seq ${seqs.join(", ")}`);
    io.stdout.write(`${withoutControls(text)}\n   ${from}\n`);
  }
  if (sources.sentences.length === 0) io.stdout.write("This compaction has no summary.\n");
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
  manual: "somebody asked for it",
  eviction: "tool output made room before anything was summarised",
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
  const writer = trigger === "eviction" ? "nobody: only tool output became one line each" : writers[summary_by];
  return [
    ["when", `${age}, ${moment}`],
    ["why", `${trigger}: ${REASONS[trigger]}`],
    ...(instructions === undefined ? [] : [["told to", oneLine(instructions, NOTE_CHARS_MAX)] as const]),
    ["written by", writer],
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
  const waited = waited_ms === undefined || waited_ms === 0 ? "nobody waited" : `waited ${waited_ms} ms`;
  return [["prepared", cost === undefined ? `${prepared.at}, ${waited}` : `${prepared.at}, so it asks no model`]];
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

/** Prints the compactions of a session, a line each, newest first: the order `~1` counts in. */
export async function listCompactions(
  io: Io,
  { runtime }: Opened,
  { id, json }: { readonly id: string; readonly json?: boolean },
): Promise<void> {
  const answer = await runtime.dispatch("listCompactions", { session_id: id });
  if (json) return writeJson(io, answer);
  const compactions = answer.compactions.toReversed();
  if (compactions.length === 0) {
    io.stdout.write(`${shortId(id)} was not compacted yet.\n`);
    return;
  }
  const { dim } = createPaint(io.stdout, io.env);
  const now = Date.now();
  const replaced = new Set(compactions.flatMap(({ undone, superseded = "" }) => (undone ? [] : [superseded])));
  const hasNative = compactions.some(({ native }) => native !== undefined);
  const nativeOf = ({ native }: Compaction): string[] =>
    !hasNative ? [] : [native === undefined ? "" : `${native.provider}, ${bytesText(native.bytes)}`];
  const rows = compactions.map((compaction) => [
    ...factsOf(compaction, now),
    ...nativeOf(compaction),
    stateOf(compaction, replaced),
  ]);
  const head = ["ID", "WHEN", "WHY", "MESSAGES", "TOKENS", "LOST", ...(hasNative ? ["NATIVE ITEM"] : []), "STATE"];
  for (const [index, line] of alignColumns([head, ...alignRight(rows)]).entries()) {
    const isPale = ["undone", "replaced"].includes(rows[index - 1]?.at(-1) ?? "undone");
    io.stdout.write(`${isPale ? dim(line) : line}\n`);
  }
}

/** Whether what the compaction made is what the model is shown. */
function stateOf({ compaction_id, undone, expanded }: Compaction, replaced: ReadonlySet<string>): string {
  if (undone) return "undone";
  if (replaced.has(compaction_id)) return "replaced";
  return expanded.length > 0 ? "expanded" : "stands";
}

function factsOf(compaction: Compaction, now: number): readonly string[] {
  const { compaction_id, created_at, trigger, receipt } = compaction;
  return [
    shortId(compaction_id),
    ageOf(Math.floor(Date.parse(created_at) / 1_000), now),
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

/** How a compaction can be named, for help and for refusals. */
export const COMPACTION_HINT = "its id, a beginning of it, last, or ~1 for the one before the last";

/** A session and the word that names one of its compactions; without one, the command's own choice. */
export interface Named {
  readonly id: string;
  readonly word: string | undefined;
}

/** The compaction a word stands for, whether it stands or was undone; without a word, the newest. */
async function findCompaction(opened: Opened, { id, word = "last" }: Named): Promise<Compaction> {
  const compactions = await compactionsOf(opened, id);
  if (compactions.length === 0) throw notCompacted(id);
  const [, digits] = /^~(\d{0,9})$/.exec(word) ?? [];
  const back = word === "last" ? 0 : digits === undefined ? undefined : Number(digits);
  if (back === undefined) return compactionBeginning(compactions, word.toLowerCase());
  const found = compactions.at(-1 - back);
  if (found !== undefined) return found;
  throw missing(`${word} is further back than the oldest compaction; ${listHint(id)}`);
}

/** The compaction that a change is about; without a word, the newest that was not undone. */
export async function findStanding(opened: Opened, { id, word }: Named): Promise<Compaction> {
  if (word !== undefined) return findCompaction(opened, { id, word });
  const compactions = await compactionsOf(opened, id);
  const standing = compactions.findLast(({ undone }) => !undone);
  if (standing !== undefined) return standing;
  if (compactions.length === 0) throw notCompacted(id);
  throw missing(`every compaction of session ${shortId(id)} was undone already; ${listHint(id)}`);
}

/** Every compaction of a session, oldest first. */
async function compactionsOf({ runtime }: Opened, session_id: string): Promise<readonly Compaction[]> {
  return (await runtime.dispatch("listCompactions", { session_id })).compactions;
}

function compactionBeginning(compactions: readonly Compaction[], prefix: string): Compaction {
  const found = compactions.filter(({ compaction_id }) => compaction_id.startsWith(prefix));
  const [only, ...others] = found;
  if (only === undefined || prefix === "")
    throw missing(`no compaction of the session begins with ${prefix || "nothing"}; write ${COMPACTION_HINT}`);
  if (others.length === 0) return only;
  const shown = found.map(({ compaction_id }) => compaction_id).join(", ");
  const message = `${prefix} begins ${found.length} compactions: ${shown}; write more of the one you mean`;
  throw new RuntimeError("INVALID_PARAMS", message);
}

function notCompacted(id: string): RuntimeError {
  return missing(`session ${shortId(id)} was not compacted yet; rkat compact run ${shortId(id)} does it`);
}

function listHint(id: string): string {
  return `rkat compact list ${shortId(id)} shows them`;
}

function missing(message: string): RuntimeError {
  return new RuntimeError("SESSION_NOT_FOUND", message);
}
