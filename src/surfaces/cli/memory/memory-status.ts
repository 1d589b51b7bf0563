import type { MemoryStatusReport } from "../../../contract/memory.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import { alignColumns, bytesText, grouped, oneLine } from "../plain-text.ts";

/** Prints what memory holds, what is still to be taken in, and how it searches. */
export async function showMemoryStatus(
  io: Io,
  { runtime }: Opened,
  { json }: { readonly json?: boolean } = {},
): Promise<void> {
  const status = await runtime.dispatch("readMemoryStatus", {});
  if (json) return writeJson(io, status);
  const { yellow } = createPaint(io.stdout, io.env);
  for (const line of alignColumns(statusRows(status))) {
    io.stdout.write(`${line.startsWith(PROBLEM) ? yellow(line) : line}\n`);
  }
}

const PROBLEM = "problem";
const SENTENCE_CHARS_MAX = 1_000;

function statusRows(status: MemoryStatusReport): readonly (readonly string[])[] {
  const { entries, pending, sessions_behind, embedder, index, bytes, mode, problem } = status;
  const behind = sessions_behind === 0 ? "none" : `${grouped(sessions_behind)}; the next search takes them in`;
  return [
    ["entries", grouped(entries)],
    ["pending vectors", grouped(pending)],
    ["sessions behind", behind],
    ["embedder", oneLine(embedder, SENTENCE_CHARS_MAX)],
    ["index", oneLine(index, SENTENCE_CHARS_MAX)],
    ["size", bytesText(bytes)],
    ["mode", mode === "hybrid" ? "hybrid: by words and meaning" : `lexical, by words alone: ${whyByWords(status)}`],
    ...(problem === undefined ? [] : [[PROBLEM, oneLine(problem, SENTENCE_CHARS_MAX)]]),
  ];
}

/** Why a search goes by words alone. */
export function whyByWords({ problem, embedder, entries, pending }: MemoryStatusReport): string {
  if (problem !== undefined) return oneLine(problem, SENTENCE_CHARS_MAX);
  if (embedder === "none") return "there is no embedder";
  if (entries === 0) return "there is nothing to search yet";
  return pending === 0
    ? "its vectors were made just now"
    : `${grouped(pending)} of ${grouped(entries)} entries have no vector yet`;
}
