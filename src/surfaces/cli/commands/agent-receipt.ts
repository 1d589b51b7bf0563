import type { AgentReceipt } from "../../../contract/agent.ts";
import type { LongtermQuality, Remaking } from "../../../contract/agent-receipt.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { fieldsOf } from "../flags.ts";
import { ageOf, alignColumns, createPaint, grouped, type Io, oneLine, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { type ReceiptView, receiptLines } from "./receipt-lines.ts";

export interface AgentReceiptFlags {
  readonly all?: boolean;
  readonly json?: boolean;
}

const COLUMNS_DEFAULT = 120;
const NOTE_CHARS_MAX = 1_000;

/** Prints a compaction of an agent as a person reads it: how it came about, then each summary with its receipt. */
export async function showAgentReceipt(
  io: Io,
  { runtime }: Opened,
  { agent, all = false, json, ...flags }: AgentReceiptFlags & { readonly agent: string },
): Promise<void> {
  const answer = await runtime.dispatch("readAgentReceipt", { agent, ...fieldsOf("readAgentReceipt", flags) });
  if (json) return writeJson(io, answer);
  const paint = createPaint(io.stdout, io.env);
  const view: ReceiptView = {
    paint,
    columns: io.stdout.columns ?? COLUMNS_DEFAULT,
    isWhole: all,
    allHint: "--all",
    of: "memories",
  };
  const { recent, longterm } = answer;
  const lines = [
    paint.bold(`Compaction of ${agent}, seq ${answer.seq}`),
    ...alignColumns(factRows(answer).map(([name, fact]) => [`   ${name}`, fact])),
    ...(longterm === undefined ? [] : tierLines("Long-term summary", longterm, view)),
    ...tierLines("Short-term summary", recent, view),
  ];
  io.stdout.write(`${lines.join("\n")}\n`);
}

type Fact = readonly [name: string, fact: string];

function factRows(receipt: AgentReceipt): readonly Fact[] {
  const { created_at, at_count, forced, model, usage, notes, quality, remaking } = receipt;
  const age = ageOf(Math.floor(Date.parse(created_at) / 1_000), Date.now());
  const why = forced ? "somebody asked for it" : "it was due";
  return [
    ["when", `${age}, ${created_at.replace("T", " ").replace(/\.\d+Z$/, " UTC")}`],
    ["why", `${why}, with ${grouped(at_count)} memories`],
    ["written by", model ?? "nobody: its sentences are the memories' own"],
    ["cost", `${grouped(usage.input_tokens)} tokens in / ${grouped(usage.output_tokens)} out`],
    ...notes.map((note): Fact => ["note", oneLine(note, NOTE_CHARS_MAX)]),
    ...(quality === undefined ? [] : [["quality", qualityText(quality)] as const]),
    ...(remaking === undefined ? [] : [["made anew", remakingText(remaking)] as const]),
  ];
}

/** `0.83: it says 5 of 14 specifics of what it was made of, where 6 would fit`. */
export function qualityText({ quality, kept, sources, attainable }: LongtermQuality): string {
  if (sources === 0) return `${quality}: what it was made of holds no specifics`;
  const said = `it says ${grouped(kept)} of ${grouped(sources)} specifics of what it was made of`;
  return `${quality}: ${said}${attainable > kept ? `, where ${grouped(attainable)} would fit` : ""}`;
}

export function remakingText({
  outcome,
  summaries,
  specifics,
  kept_before,
  kept_remade = 0,
  reason,
}: Remaking): string {
  const before = `${grouped(kept_before)} of ${grouped(specifics)} specifics`;
  const of = `${grouped(summaries)} short-term summaries`;
  switch (outcome) {
    case "remade":
      return `of ${of}: it says ${grouped(kept_remade)} of ${grouped(specifics)} specifics now, ${grouped(kept_before)} before`;
    case "not_needed":
      return `no: held against ${of}, it says what can be kept, ${before}`;
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

const NO_RECEIPT = "It was made before receipts were written; nobody counted what it kept.";

function indented(text: string): readonly string[] {
  return withoutControls(text)
    .trim()
    .split("\n")
    .map((line) => `   ${line}`.trimEnd());
}
