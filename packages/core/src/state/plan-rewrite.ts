import type { GrammarFault } from "../compaction/grammar.ts";
import type { EntryBodyOf } from "../contract/entry.ts";
import { invalid } from "../contract/error.ts";
import { Message } from "../contract/message.ts";
import type { OperationInput } from "../contract/operations.ts";
import type { RewriteCommit, Undated } from "../contract/rewrite.ts";
import { assistantText } from "../turn/tokens.ts";
import { type Hash, messagesOf, type Placed, showTranscript } from "./context.ts";
import { judgeCompactions, type RewriteTo, revisionOf, rewrite, spanDigest } from "./rewrites.ts";
import { titleOf } from "./session-row.ts";
import type { WholeState } from "./whole-state.ts";

export interface Wanted {
  readonly to: RewriteTo;
  readonly selection: RewriteCommit["selection"];
  /** The selected range, moved if calls were closed since. */
  readonly range: { readonly start: number; readonly end: number };
}

type Why = Pick<OperationInput<"restoreRevision">, "reason" | "actor">;

export interface Making {
  readonly why: Why;
  /** The revision and length that the reader saw. */
  readonly parent: string;
  readonly seen: number;
  readonly now: number;
  readonly hash: Hash;
  /** What providers would reject in the messages. */
  readonly judge: (messages: readonly Message[]) => readonly GrammarFault[];
}

/** The entry of a rewrite and the resulting transcript; INVALID_PARAMS if it changes nothing or breaks something. */
export function planRewrite(
  state: WholeState,
  wanted: Wanted,
  making: Making,
): { readonly body: EntryBodyOf<"rewritten">; readonly after: readonly Placed[] } {
  const next = ahead(state, wanted.to);
  requireChange(state, next.transcript);
  requireGrammar(state, next, making.judge);
  return { body: rewritten(state, wanted, { ...making, after: next.transcript }), after: next.transcript };
}

/** Drops messages that the replacement repeats at either end: those keep their seqs, pins and compactions. */
export function splice(
  { transcript }: WholeState,
  input: Pick<OperationInput<"rewriteTranscript">, "selection" | "replacement">,
  how: { seen: number; now: string },
): Wanted {
  // The results that close the last visible message's calls belong to it.
  const isClosing = transcript[how.seen]?.message.role === "tool_results";
  const past = (index: number): number => (isClosing && index === how.seen ? index + 1 : index);
  const range = { start: past(input.selection.start), end: past(input.selection.end) };
  const given = input.replacement;
  const shorter = Math.min(range.end - range.start, given.length);
  let head = 0;
  while (head < shorter && isSame(transcript[range.start + head], given[head])) head += 1;
  let tail = 0;
  while (head + tail < shorter && isSame(transcript[range.end - 1 - tail], given[given.length - 1 - tail])) tail += 1;
  const messages = given.slice(head, given.length - tail).map((message) => dated(message, how.now));
  return { to: { start: range.start + head, end: range.end - tail, messages }, selection: input.selection, range };
}

function isSame(placed: Placed | undefined, given: Undated | undefined): boolean {
  if (placed === undefined || given === undefined) return false;
  const { message } = placed;
  return textForm(message) === textForm(dated(given, message.created_at));
}

/** With its fields in a fixed order. */
function textForm(message: Message): string {
  return JSON.stringify(Message.parse(message));
}

export function dated(message: Undated, now: string): Message {
  // `as`: it has every field of its role; only the time may have been missing.
  return { ...message, created_at: message.created_at ?? now } as Message;
}

type Ahead = Pick<WholeState, "transcript" | "shown">;

function ahead(state: WholeState, to: RewriteTo): Ahead {
  const transcript = rewrite(state, to, state.lastSeq + 1);
  const rewrites = [...state.rewrites, { before: state.transcript }];
  const compactions = judgeCompactions(state.compactions, { transcript, rewrites });
  return { transcript, shown: showTranscript(transcript, compactions, state.pins) };
}

function requireChange({ transcript }: WholeState, after: readonly Placed[]): void {
  const isSameList = after.length === transcript.length && after.every(({ seq }, at) => seq === transcript[at]?.seq);
  if (!isSameList) return;
  throw invalid("the transcript already has this content; nothing would change");
}

/** Refuses a rewrite that a provider would reject, unless it already rejects the session as it is. */
function requireGrammar(before: Ahead, after: Ahead, judge: Making["judge"]): void {
  const faultIn = (what: keyof Ahead): { fault: GrammarFault; seq: number | undefined } | undefined => {
    const indifferent = new Set(judge(before[what].map(({ message }) => message)).map(({ grammar }) => grammar));
    const faults = judge(after[what].map(({ message }) => message));
    const fault = faults.find(({ grammar }) => !indifferent.has(grammar));
    return fault && { fault, seq: after[what][fault.at]?.seq };
  };
  const found = faultIn("transcript") ?? faultIn("shown");
  if (found === undefined) return;
  const at = after.transcript.findIndex(({ seq }) => seq === found.seq);
  const which = at < 0 ? "the summary" : `message ${at}, ${after.transcript[at]?.message.role}`;
  const { grammar, fault } = found.fault;
  throw invalid(`${which}: ${grammar} would reject the transcript: ${fault}`);
}

function rewritten(
  { transcript }: WholeState,
  { to, selection, range }: Wanted,
  making: Making & { readonly after: readonly Placed[] },
): EntryBodyOf<"rewritten"> {
  const { after, parent, why, now, hash } = making;
  const [first] = after;
  const asked = after.find(({ message }) => message.role === "user")?.message;
  const said = after.findLast(({ message }) => message.role === "block_assistant" && assistantText(message) !== "");
  const gone = transcript.slice(range.start, range.end);
  const put = after.slice(range.start, after.length - (transcript.length - range.end));
  const { kind, note } = why.reason;
  return {
    kind: "rewritten",
    to,
    commit: {
      parent_revision: parent,
      revision: revisionOf(after, hash),
      selection,
      original_span_digest: spanDigest(messagesOf(gone), hash),
      replacement_digest: spanDigest(messagesOf(put), hash),
      messages_before: making.seen,
      messages_after: after.length,
      reason: { kind, ...(note === undefined || note === null ? {} : { note }) },
      ...(why.actor === undefined || why.actor === null ? {} : { actor: why.actor }),
      committed_at: { secs_since_epoch: Math.floor(now / 1_000), nanos_since_epoch: (now % 1_000) * 1_000_000 },
    },
    row: {
      has_system: first?.message.role === "system",
      title: asked?.role === "user" ? titleOf(asked.content) : "",
      text_seq: said?.seq ?? 0,
    },
  };
}

/**
 * Makes call ids unique across answers: some servers count from zero in each answer, and providers reject duplicates.
 * The newest keeps its id, since its result may still come.
 */
export function withUniqueCalls(messages: readonly Message[]): readonly Message[] {
  const lastAt = lastCalls(messages);
  const numbers = new Map<string, number>();
  const freshId = (id: string): string => {
    for (let number = (numbers.get(id) ?? 0) + 1; ; number += 1) {
      const fresh = `${id}_${number}`;
      if (lastAt.has(fresh)) continue;
      numbers.set(id, number);
      return fresh;
    }
  };
  /** New ids for the newest answer's calls. */
  let renamed = new Map<string, string>();
  return messages.map((message, at): Message => {
    if (message.role === "block_assistant") {
      const repeated = callsIn(message).filter((id) => lastAt.get(id) !== at);
      renamed = new Map(repeated.map((id) => [id, freshId(id)]));
      if (renamed.size === 0) return message;
      const blocks = message.blocks.map((block) => {
        if (block.block_type !== "tool_use") return block;
        return { ...block, data: { ...block.data, id: renamed.get(block.data.id) ?? block.data.id } };
      });
      return { ...message, blocks };
    }
    if (message.role !== "tool_results" || renamed.size === 0) return message;
    const results = message.results.map((result) => {
      return { ...result, tool_use_id: renamed.get(result.tool_use_id) ?? result.tool_use_id };
    });
    return { ...message, results };
  });
}

/** The last answer that uses each id. */
function lastCalls(messages: readonly Message[]): ReadonlyMap<string, number> {
  const lastAt = new Map<string, number>();
  for (const [at, message] of messages.entries()) {
    if (message.role === "block_assistant") for (const id of callsIn(message)) lastAt.set(id, at);
  }
  return lastAt;
}

function callsIn({ blocks }: Extract<Message, { role: "block_assistant" }>): readonly string[] {
  return blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : []));
}
