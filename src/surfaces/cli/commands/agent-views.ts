import { join } from "node:path";
import { Argument, InvalidArgumentError } from "commander";
import { type AgentHistory, AgentName, type AgentStatus } from "../../../contract/agent.ts";
import type { OperationOutput } from "../../../contract/operations.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { fieldsOf } from "../flags.ts";
import {
  ageOf,
  alignColumns,
  counted,
  createPaint,
  grouped,
  type Io,
  jsonText,
  oneLine,
  type Paint,
  writeJson,
} from "../io.ts";
import { isThere, type Opened } from "../open-runtime.ts";
import { qualityText, remakingText } from "./agent-receipt.ts";

export interface ContextFlags {
  readonly json?: boolean;
}

/** Prints what an agent is shown of its life, as the model reads it. */
export async function showAgentContext(
  io: Io,
  { runtime }: Opened,
  { agent, ...flags }: ContextFlags & { readonly agent: string },
): Promise<void> {
  const context = await runtime.dispatch("readAgentContext", { agent, ...fieldsOf("readAgentContext", flags) });
  if (flags.json) return writeJson(io, context);
  const { prompt } = context;
  io.stdout.write(`${io.stdout.isTerminal ? withoutControls(prompt) : prompt}\n`);
  if (context.immediate.length > 0) return;
  io.stderr.write(`${createPaint(io.stderr, io.env).dim(strangerText(agent))}\n`);
}

/** Prints the summaries an agent ever had, newest first. */
export async function showAgentHistory(
  io: Io,
  { runtime }: Opened,
  { agent, ...flags }: ContextFlags & { readonly agent: string },
): Promise<void> {
  const answer = await runtime.dispatch("readAgentHistory", { agent, ...fieldsOf("readAgentHistory", flags) });
  if (flags.json) return writeJson(io, answer);
  const { bold, dim } = createPaint(io.stdout, io.env);
  for (const { seq, created_at, tier, from, to, summary, receipt, quality, remaking } of answer.summaries) {
    const name = tier === "recent" ? "short-term" : "long-term";
    io.stdout.write(`${bold(`${name} summary of memories ${from} to ${to}`)}  ${dim(`seq ${seq}, ${created_at}`)}\n`);
    io.stdout.write(`${withoutControls(summary).trimEnd()}\n`);
    const facts = [
      ...(receipt === undefined ? ["no receipt"] : [countsText(receipt)]),
      ...(quality === undefined ? [] : [`quality ${qualityText(quality)}`]),
      ...(remaking === undefined ? [] : [`made anew ${remakingText(remaking)}`]),
    ];
    io.stdout.write(`${facts.map((fact) => dim(`   ${fact}`)).join("\n")}\n\n`);
  }
  if (answer.summaries.length === 0) io.stdout.write("No memories were compacted.\n");
  const { next_before_seq } = answer;
  if (next_before_seq !== undefined)
    io.stdout.write(`${dim(`Older ones: rkat agent history ${agent} --before ${next_before_seq}`)}\n`);
}

function countsText(counts: NonNullable<AgentHistory["summaries"][number]["receipt"]>): string {
  const { total, in_summary, in_tail, recoverable, lost, invented, unverified } = counts;
  const places = `${grouped(in_summary)} in it, ${grouped(in_tail)} shown besides it, ${grouped(recoverable)} recoverable`;
  const claims = `${grouped(invented)} invented, ${counted(unverified, "sentence")} unverified`;
  return `${counted(total, "specific")}: ${places}, ${grouped(lost)} lost; ${claims}`;
}

/** Prints the agents of this folder, a line each, by name. */
export async function listAgents(io: Io, { runtime }: Opened, { json }: { readonly json?: boolean }): Promise<void> {
  const answer = await runtime.dispatch("listAgents", {});
  if (json) return writeJson(io, answer);
  if (answer.agents.length === 0) {
    io.stdout.write("No agents found.\n");
    return;
  }
  const now = Date.now();
  const age = (moment: string): string => ageOf(Math.floor(Date.parse(moment) / 1_000), now);
  const rows = answer.agents.map(({ agent, count, created_at, updated_at }) => [
    grouped(count).padStart(COUNT_TITLE.length),
    age(updated_at),
    age(created_at),
    agent,
  ]);
  // Names come last: some scripts are wider than their letters are many, and nothing after them stays in line.
  const [head = "", ...lines] = alignColumns([[COUNT_TITLE, "CHANGED", "SINCE", "AGENT"], ...rows]);
  io.stdout.write(`${[createPaint(io.stdout, io.env).dim(head), ...lines].join("\n")}\n`);
}

const COUNT_TITLE = "MEMORIES";

/** Prints what an agent remembers: counts, tiers, the last compaction and the next, then both summaries. */
export async function showAgentStatus(
  io: Io,
  { runtime, place, config }: Opened,
  { agent, json }: { readonly agent: string; readonly json?: boolean },
): Promise<void> {
  const status = await runtime.dispatch("readAgentStatus", { agent });
  if (json) return writeJson(io, status);
  const paint = createPaint(io.stdout, io.env);
  const folder = join(place.stateFolder, ".rkat", "agents", agent);
  const isOfFolder = config.store.url === undefined && (await isThere(folder));
  const files = isOfFolder ? [["files", folder]] : [];
  const rows = alignColumns([...countRows(status), ...tierRows(status), ...compactionRows(status), ...files]);
  const lines = [
    ...rows.map((row) => (row.startsWith(PROBLEM) ? paint.yellow(row) : row)),
    ...summaryLines(status, paint),
    ...(status.count + status.notes === 0 ? ["", paint.dim(strangerText(agent))] : []),
  ];
  io.stdout.write(`${lines.join("\n")}\n`);
}

const PROBLEM = "problem";
const SENTENCE_CHARS_MAX = 1_000;

type Row = readonly string[];

function countRows({ agent, count, notes }: AgentStatus): readonly Row[] {
  return [
    ["agent", agent],
    ["memories", grouped(count)],
    ["notes", grouped(notes)],
  ];
}

function tierRows(status: AgentStatus): readonly Row[] {
  const { count, immediate_count, immediate_window, recent_range, longterm_range } = status;
  const newest = { from_seq: count - immediate_count + 1, to_seq: count };
  const window = `; the window is ${grouped(immediate_window)}`;
  return [
    ["immediate", immediate_count === 0 ? "none" : `${rangeText(newest)}, word for word${window}`],
    ["short-term", recent_range === undefined ? "none yet" : `${rangeText(recent_range)}, in a summary`],
    ["long-term", longterm_range === undefined ? "none yet" : `${rangeText(longterm_range)}, in a summary`],
  ];
}

function rangeText({ from_seq, to_seq }: { readonly from_seq: number; readonly to_seq: number }): string {
  if (from_seq === to_seq) return `memory ${grouped(to_seq)}`;
  return `memories ${grouped(from_seq)}–${grouped(to_seq)}`;
}

function compactionRows(status: AgentStatus): readonly Row[] {
  const { compactions, last_compaction_at, last_error } = status;
  return [
    [
      "compactions",
      last_compaction_at === undefined
        ? "none yet"
        : `${grouped(compactions)}, the last ${momentText(last_compaction_at)}`,
    ],
    ["next", nextText(status)],
    ...(last_error === undefined ? [] : [[PROBLEM, oneLine(last_error, SENTENCE_CHARS_MAX)]]),
  ];
}

function momentText(moment: string): string {
  const age = ageOf(Math.floor(Date.parse(moment) / 1_000), Date.now());
  return `${age}, ${moment.replace("T", " ").replace(/\.\d+Z$/, " UTC")}`;
}

function nextText({ count, next_compaction_at, compaction_due, compaction_running, last_error }: AgentStatus): string {
  if (compaction_running) return "runs now";
  const left = next_compaction_at - count;
  const at = `at ${grouped(next_compaction_at)} memories`;
  if (left > 0) return `${at}, ${grouped(left)} from now`;
  // After a failure it is due as well, and waits for a memory before it is tried again.
  return compaction_due && last_error === undefined ? `${at}: it is due` : `${at}: it is due, with the next memory`;
}

function summaryLines({ longterm_summary, recent_summary }: AgentStatus, { bold }: Paint): readonly string[] {
  const section = (title: string, text: string | undefined): readonly string[] =>
    text === undefined
      ? []
      : [
          "",
          bold(title),
          ...withoutControls(text)
            .trim()
            .split("\n")
            .map((line) => `   ${line}`.trimEnd()),
        ];
  return [...section("Long-term summary", longterm_summary), ...section("Short-term summary", recent_summary)];
}

/** Reads an agent's name. */
export function agentName(text: string): string {
  const { data, error } = AgentName.safeParse(text);
  if (data !== undefined) return data;
  const sentence = error?.issues[0]?.message ?? "";
  throw new InvalidArgumentError(`${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`);
}

/** The agent that a command is about. */
export function nameArgument(): Argument {
  return new Argument("<name>").argParser(agentName);
}

/** Who writes a name that was never used may have meant another. */
export function strangerText(agent: string): string {
  return `${agent} remembers nothing yet; rkat agent list shows who does.`;
}

export interface AgentExportFlags {
  readonly after?: number;
  readonly json?: boolean;
}

/** Prints an agent's log: all of it from a seq on, or one page as it is answered. */
export async function exportAgent(
  io: Io,
  { runtime }: Opened,
  { agent, json, ...flags }: AgentExportFlags & { readonly agent: string },
): Promise<void> {
  const fields = fieldsOf("exportAgent", flags);
  let after: number | undefined = flags.after ?? 0;
  while (after !== undefined) {
    const page: OperationOutput<"exportAgent"> = await runtime.dispatch("exportAgent", { agent, ...fields, after });
    if (json) return writeJson(io, page);
    for (const entry of page.entries) io.stdout.write(`${jsonText(entry)}\n`);
    after = page.next_after;
  }
}
