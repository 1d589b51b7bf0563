import type { CompactResult } from "../../../contract/compaction.ts";
import { ERRORS, RuntimeError } from "../../../contract/error.ts";
import type { Listener } from "../../../service/event-queue.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { writeError } from "../failure.ts";
import { fieldsOf } from "../field-flags.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { counted, grouped } from "../plain-text.ts";
import { compactionLine } from "../run/event-line.ts";
import { shortId } from "../sessions/selector.ts";
import { receiptTotals, unverifiedTotals } from "./receipt-lines.ts";
import { printCompaction } from "./show-compaction.ts";

export interface CompactFlags {
  readonly json?: boolean;
  readonly all?: boolean;
}

/** Compacts a session, or previews it, and says what came of it. */
export async function compactNow(
  { io, exitWith }: Invocation,
  opened: Opened,
  { id, json, all = false, ...wish }: CompactFlags & { readonly id: string },
): Promise<void> {
  const { result, failure } = await attempt(io, opened, { id, ...wish, signal: io.interrupt });
  if (json) {
    writeJson(io, result);
    if (failure === undefined) return;
    writeError(io, failure);
    return exitWith(ERRORS[failure.code].exit);
  }
  if (failure !== undefined) throw failure;
  const { compaction, compacted, reason } = result;
  if (compaction === undefined) return io.stdout.write(`Not compacted: ${withoutControls(reason ?? "")}.\n`);
  if (!compacted) return printCompaction(io, opened, { id, compaction, all });
  io.stdout.write(`${compactedLines(io, compaction).join("\n")}\n`);
  const { dim } = createPaint(io.stdout, io.env);
  io.stdout.write(`${dim(`Look at it: rkat compact show ${shortId(id)}`)}\n`);
  io.stdout.write(`${dim(`Undo it:    rkat compact undo ${shortId(id)}`)}\n`);
}

interface Wish {
  readonly id: string;
  readonly instructions?: string;
  readonly signal: AbortSignal;
}

interface Attempt {
  readonly result: CompactResult;
  /** Set when a compaction began and broke off; a session with nothing to take out has not failed. */
  readonly failure: RuntimeError | undefined;
}

/** Asks for a compaction; on a terminal it says when the work begins. */
export async function attempt(io: Io, { runtime }: Opened, { id, signal, ...flags }: Wish): Promise<Attempt> {
  const { dim } = createPaint(io.stderr, io.env);
  let hasFailed = false;
  const listener: Listener = ({ event }) => {
    if (event.type === "compaction_failed") hasFailed = true;
    if (event.type === "compaction_started" && io.stderr.isTerminal) io.stderr.write(`${dim(compactionLine(event))}\n`);
  };
  const input = { session_id: id, ...fieldsOf("compactSession", flags) };
  const result = await runtime.dispatch("compactSession", input, { listener, signal });
  if (!hasFailed) return { result, failure: undefined };
  // It is an answer of the operation, not an error of it: what a turn that ends badly is to a turn.
  const message = `the compaction failed, and the context is as it was: ${result.reason ?? "nobody knows why"}`;
  return { result, failure: new RuntimeError("AGENT_ERROR", message) };
}

/** What a compaction did, in the lines that everybody reads. */
export function compactedLines(
  io: Io,
  compaction: NonNullable<CompactResult["compaction"]>,
): readonly [string, ...string[]] {
  const { messages_before, messages_after, tokens_before, tokens_after, receipt, notes } = compaction;
  const { yellow, red } = createPaint(io.stdout, io.env);
  const messages = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  const tokens = `about ${grouped(tokens_before)} → ${grouped(tokens_after)} tokens`;
  const { lost, invented, invented_cut } = receipt;
  const fate = invented_cut ? "that was cut" : "the receipt tells what";
  return [
    `Compacted: ${messages}, ${tokens}.`,
    `${receiptTotals(receipt)}.`,
    ...(lost === 0 ? [] : [red(`! ${counted(lost, "specific")} can be found nowhere any more`)]),
    ...(invented.length === 0
      ? []
      : [yellow(`! the summary said ${counted(invented.length, "thing")} nobody had said; ${fate}`)]),
    ...unverifiedTotals(receipt).map((line) => `${line}.`),
    ...notes.map((note) => yellow(`! ${withoutControls(note)}`)),
  ];
}
