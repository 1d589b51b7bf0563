import { fieldsOf } from "../field-flags.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import { counted, grouped } from "../plain-text.ts";
import { shortId } from "../sessions/selector.ts";
import { findStanding, type Named } from "./compaction-selector.ts";
import { rangesText } from "./seq-ranges.ts";

export interface UndoFlags {
  readonly json?: boolean;
}

/** Undoes a compaction, and says how large the context is without it. */
export async function undoCompaction(io: Io, opened: Opened, { id, word, json }: UndoFlags & Named): Promise<void> {
  const { compaction_id, undone } = await findStanding(opened, { id, word });
  const answer = await opened.runtime.dispatch("undoCompaction", { session_id: id, compaction_id });
  if (json) return writeJson(io, answer);
  const later = answer.compaction_ids.filter((other) => other !== compaction_id).map(shortId);
  const built = later.length === 0 ? "" : `, and ${later.join(", ")}, built on it`;
  const done = undone ? `${shortId(compaction_id)} was undone already` : `Undid ${shortId(compaction_id)}${built}`;
  io.stdout.write(`${done}. ${sizeText(answer)}\n`);
  await warnOfNext(io, opened, id);
}

/** Brings what a compaction took out back into the context, and says how large that is now. */
export async function expandCompaction(
  io: Io,
  opened: Opened,
  { id, word, ...flags }: UndoFlags & Named,
): Promise<void> {
  const { compaction_id } = await findStanding(opened, { id, word });
  const range = fieldsOf("expandCompaction", flags);
  const answer = await opened.runtime.dispatch("expandCompaction", { session_id: id, compaction_id, ...range });
  if (flags.json) return writeJson(io, answer);
  const { expanded, left_out } = answer;
  const back =
    expanded.length === 0
      ? "Nothing to bring back: these turns are in the context."
      : `Brought back ${seqsOf(expanded)}.`;
  io.stdout.write(`${back} ${sizeText(answer)}\n`);
  if (left_out.length > 0) {
    const { yellow } = createPaint(io.stdout, io.env);
    io.stdout.write(`${yellow(`! Left out ${seqsOf(left_out)}: there was no room; --max-tokens N makes it`)}\n`);
  }
  await warnOfNext(io, opened, id);
}

function seqsOf(ranges: Parameters<typeof rangesText>[0]): string {
  return `seqs ${rangesText(ranges)}`;
}

function sizeText({ messages, estimated_tokens }: { messages: number; estimated_tokens: number }): string {
  return `The context is now ${counted(messages, "message")}, about ${counted(estimated_tokens, "token")}.`;
}

/** What was brought back would be gone again soon, and nobody would know why. */
async function warnOfNext(io: Io, { runtime, isKept }: Opened, session_id: string): Promise<void> {
  if (!isKept) return;
  const { estimated_tokens, auto_compact_threshold } = await runtime.dispatch("readContext", { session_id });
  if (auto_compact_threshold === undefined || estimated_tokens < auto_compact_threshold) return;
  const { yellow } = createPaint(io.stdout, io.env);
  const limit = `the ${grouped(auto_compact_threshold)} tokens at which it is compacted`;
  io.stdout.write(`${yellow(`! It is over ${limit}, so a coming turn compacts it again`)}\n`);
}
