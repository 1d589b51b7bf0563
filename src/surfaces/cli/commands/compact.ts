import type { Command } from "commander";
import type { CompactResult } from "../../../contract/compaction.ts";
import { describeEvent } from "../../../contract/describe-event.ts";
import { ERRORS, RuntimeError } from "../../../contract/error.ts";
import type { Listener } from "../../../service/event-queue.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { writeError } from "../failure.ts";
import { addFieldFlags, fieldsOf, jsonFlag } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { counted, createPaint, grouped, type Io, writeJson } from "../io.ts";
import { type Opened, withCompaction } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import {
  COMPACTION_HINT,
  findStanding,
  listCompactions,
  type Named,
  printCompaction,
  type ShowCompactionFlags,
  showCompaction,
  showSources,
} from "./compaction-views.ts";
import { rangesText, receiptTotals, unverifiedTotals } from "./receipt-lines.ts";
import { addSimulate } from "./simulate.ts";

/** Declares `rkat compact`: everything about what was taken out of a context, and how it comes back. */
export function addCompactCommand(program: Command, invocation: Invocation): void {
  const compact = holdCommands(program.command("compact"))
    .summary("summarise a context, see what that lost, undo it")
    .description(
      "Makes a session's context smaller: older turns become a summary. Nothing is deleted; each compaction has a " +
        "receipt of what it took out, and can be undone.",
    );
  addRun(compact, invocation);
  addReads(compact, invocation);
  addSources(compact, invocation);
  addChanges(compact, invocation);
  addSimulate(compact, invocation);
  describeHelp(compact, {
    examples: [
      ["rkat compact run last --preview", "what would go, and what it would cost"],
      ["rkat compact run last", "do it"],
      ["rkat compact show last", "the summary, and where every specific is now"],
      ["rkat compact undo last", "as if it had not been"],
    ],
    notes: NOTES,
  });
}

const NOTES = [SELECTOR_NOTE, ["A compaction is named by", COMPACTION_HINT]] as const;

function addRun(parent: Command, invocation: Invocation): void {
  const run = parent
    .command("run")
    .summary("compact a session now")
    .description("Compacts a session now, whatever its size; the recent turns and what is pinned stay as they are.")
    .argument("<session>")
    .usage("SESSION [options]");
  addFieldFlags(run, "compactSession")
    .option("--all", "with --preview: list every specific")
    .addOption(jsonFlag())
    .action((session: string, flags: CompactFlags) =>
      onSession(invocation, session, (opened, id) => compactNow(invocation, opened, { id, ...flags })),
    );
  describeHelp(run, {
    examples: [
      ["rkat compact run last", "the recent turns stay word for word"],
      ["rkat compact run last --preview", "nothing is changed, no model is asked"],
      ['rkat compact run ~1 --instructions "keep every port"', "tell who summarises what matters"],
    ],
    notes: [["Exit codes", "0 done, or nothing to do · 10 no such session · 11 it runs a turn · 30 it failed"]],
  });
}

function addReads(parent: Command, invocation: Invocation): void {
  const { io } = invocation;
  const list = parent
    .command("list")
    .summary("list a session's compactions")
    .description("Lists the compactions of a session, newest first; without a name, of the last.")
    .argument("[session]")
    .usage("[SESSION] [options]")
    .addOption(jsonFlag())
    .action((session: string | undefined, flags: { readonly json?: boolean }) =>
      onSession(invocation, session ?? "last", (opened, id) => listCompactions(io, opened, { id, ...flags })),
    );
  describeHelp(list, { examples: [["rkat compact list last", "when, why, how much smaller, what was lost"]] });
  const show = parent
    .command("show")
    .summary("show a compaction and its receipt")
    .description("Shows what a compaction did: its summary, and what became of every specific it took out.")
    .option("--all", "list every specific, not a few of each kind");
  onCompaction(show, invocation, (opened, named, flags: ShowCompactionFlags) =>
    showCompaction(io, opened, { ...named, ...flags }),
  );
  describeHelp(show, {
    examples: [
      ["rkat compact show last", "the newest compaction of the last session"],
      ["rkat compact show last ~1 --all", "the one before, with everything it took out"],
    ],
    notes: [["A compaction is named by", COMPACTION_HINT, "without a name it is the newest"]],
  });
}

function addSources(parent: Command, invocation: Invocation): void {
  const { io } = invocation;
  const sources = parent
    .command("sources")
    .summary("show where a summary's sentences come from")
    .description("Shows which messages each sentence of a compaction's summary comes from, by their seqs.");
  onCompaction(sources, invocation, (opened, named, flags: UndoFlags) =>
    showSources(io, opened, { ...named, ...flags }),
  );
  describeHelp(sources, {
    examples: [
      ["rkat compact sources last", "a sentence that no message says is marked"],
      ["rkat compact sources last ~1 --json | jq '.sentences[] | select(.seqs == [])'", "for scripts"],
    ],
    notes: [["A compaction is named by", COMPACTION_HINT, "without a name it is the newest"]],
  });
}

function addChanges(parent: Command, invocation: Invocation): void {
  const { io } = invocation;
  const undo = parent
    .command("undo")
    .summary("bring back what a compaction took out")
    .description("Makes the context what it would be without a compaction and those built on it; later turns stay.");
  onCompaction(undo, invocation, (opened, named, flags: UndoFlags) =>
    undoCompaction(io, opened, { ...named, ...flags }),
  );
  describeHelp(undo, { examples: [["rkat compact undo last", "the newest that stands"]], notes: [STANDING] });
  const expand = parent
    .command("expand")
    .summary("bring back some turns")
    .description("Brings turns that a compaction took out back into the context, the newest first; its summary stays.");
  addFieldFlags(expand, "expandCompaction");
  onCompaction(expand, invocation, (opened, named, flags: UndoFlags) =>
    expandCompaction(io, opened, { ...named, ...flags }),
  );
  describeHelp(expand, {
    examples: [
      ["rkat compact expand last", "as much as there is room for"],
      ["rkat compact expand last --from 12 --to 20", "the turns of these seqs, as in session show --history"],
    ],
    notes: [STANDING],
  });
}

const STANDING = ["A compaction is named by", COMPACTION_HINT, "without a name it is the newest that stands"] as const;

function onSession(
  invocation: Invocation,
  session: string,
  act: (opened: Opened, id: string) => Promise<void>,
): Promise<void> {
  return withCompaction(invocation, async (opened) => act(opened, await findSession(opened, session)));
}

function onCompaction<F>(
  command: Command,
  invocation: Invocation,
  act: (opened: Opened, named: Named, flags: F) => Promise<void>,
): void {
  command
    .argument("<session>")
    .argument("[compaction]")
    .usage("SESSION [COMPACTION] [options]")
    .addOption(jsonFlag())
    .action((session: string, word: string | undefined, flags: F) =>
      onSession(invocation, session, (opened, id) => act(opened, { id, word }, flags)),
    );
}

interface CompactFlags {
  readonly json?: boolean;
  readonly all?: boolean;
}

/** Compacts a session, or previews it, and says what came of it. */
async function compactNow(
  { io, exitWith }: Invocation,
  opened: Opened,
  { id, json, all = false, ...fields }: CompactFlags & { readonly id: string },
): Promise<void> {
  const { result, failure } = await attempt(io, opened, { id, ...fields, signal: io.interrupt });
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

interface CompactRequest {
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
export async function attempt(io: Io, { runtime }: Opened, { id, signal, ...flags }: CompactRequest): Promise<Attempt> {
  const { dim } = createPaint(io.stderr, io.env);
  let hasFailed = false;
  const listener: Listener = ({ event }) => {
    if (event.type === "compaction_failed") hasFailed = true;
    if (event.type === "compaction_started" && io.stderr.isTerminal)
      io.stderr.write(`${dim(describeEvent(event).text)}\n`);
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
async function expandCompaction(io: Io, opened: Opened, { id, word, ...flags }: UndoFlags & Named): Promise<void> {
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
