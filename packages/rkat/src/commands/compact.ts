import type { CompactResult } from "@rkat/core/contract/compaction";
import { describeEvent } from "@rkat/core/contract/describe-event";
import { ERRORS, RuntimeError } from "@rkat/core/contract/error";
import { OPERATIONS } from "@rkat/core/contract/operations";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { Option } from "commander";
import { type CommandRow, command, type OpenedCall, onSession, operation, print, type View } from "../command-row.ts";
import { writeError } from "../failure.ts";
import { fieldOptions, fieldsOf, jsonFlag } from "../flags.ts";
import { counted, createPaint, grouped, type Io, writeJson } from "../io.ts";
import { type Opened, withCompaction } from "../open-runtime.ts";
import { COMPACTION_NOTE, findActiveCompaction, findCompaction, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { compactionTable, type Naming, printCompaction, showCompaction } from "./compaction-views.ts";
import { rangesText } from "./receipt-lines.ts";
import { simulateRow } from "./simulate.ts";

export const compactRows: readonly CommandRow[] = [
  command("compact", {
    text: "Summarise a context, check what that lost, undo it: older turns become a summary. Nothing is deleted; each compaction has a receipt of what it removed.",
    notes: [SELECTOR_NOTE, COMPACTION_NOTE],
  }),
  command("compact run SESSION", {
    text: "Compact a session now, whatever its size; the recent turns and pinned messages stay as they are.",
    flags: () => [
      ...fieldOptions("compactSession"),
      new Option("--all", "with --preview: list every specific"),
      jsonFlag(),
    ],
    examples: [
      ["rkat compact run last", "the recent turns stay word for word"],
      ["rkat compact run last --preview", "changes nothing, asks no model"],
      ['rkat compact run ~1 --instructions "keep every port"', "instructions for the summary"],
    ],
    notes: [["Exit codes", "0 done, or nothing to do · 10 no such session · 11 it runs a turn · 30 it failed"]],
    run: onSession<CompactFlags>(compactNow, withCompaction),
  }),
  operation("compact list [SESSION]", "listCompactions", {
    text: "List the compactions of a session, newest first; without a name, of the last session.",
    examples: [["rkat compact list last", "when, why, how much smaller, how much was lost"]],
    view: compactionTable,
  }),
  command("compact show SESSION [COMPACTION]", {
    text: "Show a compaction: its summary, and where every specific that it removed is now.",
    flags: () => [new Option("--all", "list every specific, not a few of each kind"), jsonFlag()],
    examples: [
      ["rkat compact show last", "the newest compaction of the last session"],
      ["rkat compact show last ~1 --all", "the one before, with everything it removed"],
    ],
    run: onSession<CompactFlags>(
      (call) => showCompaction(call, { ...call.flags, word: call.arg("compaction") }),
      withCompaction,
    ),
  }),
  operation("compact sources SESSION [COMPACTION]", "readSummarySources", {
    examples: [
      ["rkat compact sources last", "marks sentences that no message says"],
      ["rkat compact sources last ~1 --json | jq '.sentences[] | select(.seqs == [])'", "for scripts"],
    ],
    input: (call) => compactionNamed(call, findCompaction),
    view: ({ sentences }, { paint }) =>
      sentences.length === 0
        ? "This compaction has no summary."
        : sentences.flatMap(({ text, seqs, origin }) => [
            withoutControls(text),
            `   ${origin === undefined ? paint.yellow("no message says it") : paint.dim(`seq ${seqs.join(", ")} (${origin})`)}`,
          ]),
  }),
  command("compact undo SESSION [COMPACTION]", {
    text: OPERATIONS.undoCompaction.summary,
    flags: () => [jsonFlag()],
    examples: [["rkat compact undo last", "the newest that was not undone"]],
    run: onSession((call) => undoCompaction(call, { ...call.flags, word: call.arg("compaction") }), withCompaction),
  }),
  operation("compact expand SESSION [COMPACTION]", "expandCompaction", {
    text: "Bring turns that a compaction removed back into the context, the newest first; its summary stays.",
    examples: [
      ["rkat compact expand last", "as much as there is room for"],
      ["rkat compact expand last --from 12 --to 20", "the turns of these seqs, as in session show --history"],
    ],
    input: (call) => compactionNamed(call, findActiveCompaction),
    view: async ({ expanded, left_out, ...size }, call) => {
      const none = "Nothing to bring back: these turns are in the context.";
      const back = expanded.length === 0 ? none : `Brought back seqs ${rangesText(expanded)}.`;
      const missing = `! Left out seqs ${rangesText(left_out)}: there was no room; --max-tokens N makes it`;
      return [
        `${back} ${sizeText(size)}`,
        ...(left_out.length === 0 ? [] : [call.paint.yellow(missing)]),
        ...(await nextWarning(call)),
      ];
    },
  }),
  simulateRow,
];

async function compactionNamed(
  call: OpenedCall,
  find: typeof findActiveCompaction,
): Promise<{ readonly compaction_id: string }> {
  const { compaction_id } = await find(call.opened, { id: call.id, word: call.arg("compaction") });
  return { compaction_id };
}

interface CompactFlags {
  readonly json?: boolean;
  readonly all?: boolean;
}

async function compactNow(call: OpenedCall<CompactFlags>): Promise<void> {
  const { io, invocation, opened, id, flags, paint } = call;
  const { result, failure } = await attempt(io, opened, { ...flags, id, signal: io.interrupt });
  if (flags.json) {
    writeJson(io, result);
    if (failure === undefined) return;
    writeError(io, failure);
    return invocation.exitWith(ERRORS[failure.code].exit);
  }
  if (failure !== undefined) throw failure;
  const { compaction, compacted, reason } = result;
  if (compaction === undefined) return print(io, `Not compacted: ${withoutControls(reason ?? "")}.`);
  if (!compacted) return printCompaction(call, { compaction, all: flags.all === true });
  print(io, [
    ...compactedLines(io, compaction),
    paint.dim(`Show it: rkat compact show ${shortId(id)}`),
    paint.dim(`Undo it: rkat compact undo ${shortId(id)}`),
  ]);
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
  // The operation reports a failed compaction as a result, not as an error.
  const message = `the compaction failed, and the context is as it was: ${result.reason ?? "unknown reason"}`;
  return { result, failure: new RuntimeError("AGENT_ERROR", message) };
}

export function compactedLines(
  io: Io,
  compaction: NonNullable<CompactResult["compaction"]>,
): readonly [string, ...string[]] {
  const { messages_before, messages_after, tokens_before, tokens_after, receipt, notes } = compaction;
  const { yellow, red } = createPaint(io.stdout, io.env);
  const messages = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  const tokens = `about ${grouped(tokens_before)} → ${grouped(tokens_after)} tokens`;
  return [
    `Compacted: ${messages}, ${tokens}.`,
    receipt.lost === 0 ? receipt.verdict : red(receipt.verdict),
    ...notes.map((note) => yellow(`! ${withoutControls(note)}`)),
  ];
}

/** Undoes a compaction, and prints how large the context is without it. */
export async function undoCompaction(view: View, { word, json }: Naming): Promise<void> {
  const { io, opened, id: session_id } = view;
  const { compaction_id, undone } = await findActiveCompaction(opened, { id: session_id, word });
  const answer = await opened.runtime.dispatch("undoCompaction", { session_id, compaction_id });
  if (json) return writeJson(io, answer);
  const later = answer.compaction_ids.filter((other) => other !== compaction_id).map(shortId);
  const built = later.length === 0 ? "" : `, and ${later.join(", ")}, built on it`;
  const done = undone ? `${shortId(compaction_id)} was undone already` : `Undid ${shortId(compaction_id)}${built}`;
  print(io, [`${done}. ${sizeText(answer)}`, ...(await nextWarning(view))]);
}

function sizeText({ messages, estimated_tokens }: { messages: number; estimated_tokens: number }): string {
  return `The context is now ${counted(messages, "message")}, about ${counted(estimated_tokens, "token")}.`;
}

/** A warning where the next turn would compact the context again. */
async function nextWarning({ opened, paint, id: session_id }: View): Promise<readonly string[]> {
  if (!opened.isKept) return [];
  const { estimated_tokens, auto_compact_threshold } = await opened.runtime.dispatch("readContext", { session_id });
  if (auto_compact_threshold === undefined || estimated_tokens < auto_compact_threshold) return [];
  const limit = `the ${grouped(auto_compact_threshold)} tokens at which it is compacted`;
  return [paint.yellow(`! It is over ${limit}, so the next turn compacts it again`)];
}
