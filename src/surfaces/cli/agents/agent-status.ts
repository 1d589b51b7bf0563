import { join } from "node:path";
import type { AgentStatus } from "../../../contract/agent/agent.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { type Io, writeJson } from "../io.ts";
import { isThere, type Opened } from "../open-runtime.ts";
import { createPaint, type Paint } from "../paint.ts";
import { alignColumns, grouped, oneLine } from "../plain-text.ts";
import { ageOf } from "../sessions/age.ts";
import { strangerText } from "./agent-name.ts";

/** Prints what an agent remembers: counts, tiers, the last compaction and the next, then both summaries. */
export async function showAgentStatus(
  io: Io,
  { runtime, place }: Opened,
  { agent, json }: { readonly agent: string; readonly json?: boolean },
): Promise<void> {
  const status = await runtime.dispatch("readAgentStatus", { agent });
  if (json) return writeJson(io, status);
  const paint = createPaint(io.stdout, io.env);
  const folder = join(place.stateFolder, ".rkat", "agents", agent);
  const files = (await isThere(folder)) ? [["files", folder]] : [];
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
