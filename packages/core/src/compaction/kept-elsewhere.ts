import { type CompactionTrigger, RECALL_OUTPUT, type Receipt } from "../contract/compaction.ts";
import { type Entry, EntryBody } from "../contract/entry.ts";
import type { Message, ToolResultsMessage } from "../contract/message.ts";
import { z } from "../contract/schema.ts";
import type { SessionSettings } from "../contract/session.ts";
import type { Placed } from "../state/context.ts";
import { applyEntry, foldSession, type WholeState } from "../state/whole-state.ts";
import type { Asking } from "../turn/model-call.ts";
import { runEviction } from "./evict.ts";
import { type BoundaryFacts, judgeBoundary, type Verdict } from "./policy.ts";
import type { Compacting } from "./prepare.ts";
import { type CompactionJob, runCompaction } from "./run-compaction.ts";

const count = z.number().int().nonnegative();

/** What compactions say; everything else in a conversation is its messages. */
const KINDS: ReadonlySet<EntryBody["kind"]> = new Set(["compacted", "compaction_failed", "event"]);

/** What a compaction left in a conversation of another program, after so many of its messages. */
export interface Mark {
  readonly after: number;
  readonly seq: number;
  readonly body: EntryBody;
}
// Typed by its result: the declaration of the schema would repeat every entry.
const Mark: z.ZodType<Mark> = z.object({
  after: count,
  seq: count,
  body: EntryBody.refine(({ kind }) => KINDS.has(kind)),
});

/** The marks of a conversation as a store keeps them. */
export interface StoredMarks {
  readonly version: 1;
  readonly marks: readonly Mark[];
}
const StoredMarks: z.ZodType<StoredMarks> = z.object({ version: z.literal(1), marks: z.array(Mark) });

/** Reads a stored mark; undefined for one of another version or program. */
export function readMarks(stored: unknown): readonly Mark[] | undefined {
  return StoredMarks.safeParse(stored).data?.marks;
}

/** A conversation that the caller stores and passes as a whole before each model call. */
export interface Conversation {
  /** Empty if there is none. */
  readonly system: string;
  readonly messages: readonly Message[];
  /** Indexes of messages that compactions keep. */
  readonly pins: ReadonlySet<number>;
  /** The results of earlier compactions; together with the messages they form a log. */
  readonly marks: readonly Mark[];
}

/** Facts about the next call besides its messages. */
export interface NextCall extends Pick<BoundaryFacts, "contextWindow" | "toolTokens" | "outputTokens"> {
  /** The model's own count of the same context; 0 if unknown. */
  readonly countedTokens: number;
  /** The provider rejected the context: it has to shrink, whatever the estimate says. */
  readonly isRefused: boolean;
}

export interface Compacted {
  readonly shown: readonly Shown[];
  /** The marks added by this call, and all marks to pass next time. */
  readonly added: readonly Mark[];
  readonly marks: readonly Mark[];
  /** Why it still does not fit; undefined if it does, as far as is known. */
  readonly reason: string | undefined;
}

/** A message, whole or as a shorter replacement, or a summary. */
export type Shown = { readonly place: number; readonly instead?: Message } | { readonly summary: string };

/** Seqs between two messages, for entries of compactions. */
const SEQS_PER_MESSAGE = 64;
/** A call repeated with the same messages adds its marks at the same position. */
const MARKS_MAX = 48;

/** Compacts a conversation if that is due, like a session's context before a model call. */
export async function compactConversation(
  conversation: Conversation,
  compacting: Compacting,
  at: { readonly asking: Asking; readonly next: NextCall },
): Promise<Compacted> {
  const { asking, next } = at;
  const state = foldConversation(conversation);
  state.lastInputTokens = next.countedTokens;
  const added: Mark[] = [];
  const append: CompactionJob["append"] = async (bodies) => {
    for (const body of typeof bodies === "function" ? bodies() : bodies) {
      if (!isMark(body)) continue;
      const mark = { after: conversation.messages.length, seq: state.lastSeq + 1, body };
      applyEntry(state, entryOf(mark.seq, body));
      added.push(mark);
    }
  };
  const reason = await shrink({ state, compacting, asking, append }, next);
  const said = new Set(state.transcript.map(({ message }) => message));
  return {
    shown: state.shown.flatMap((placed) => shownAs(placed, said)),
    added,
    marks: stillNeeded([...conversation.marks, ...added], state),
    reason,
  };
}

interface Work {
  readonly state: WholeState;
  readonly compacting: Compacting;
  readonly asking: Asking;
  readonly append: CompactionJob["append"];
}

/** Evicts tool output, then summarises, twice if needed. Returns why it cannot shrink if no mark says so. */
async function shrink(work: Work, next: NextCall): Promise<string | undefined> {
  const { state, compacting, asking, append } = work;
  if (state.lastSeq % SEQS_PER_MESSAGE >= MARKS_MAX) return "it was tried too often with the same messages";
  const size = Math.max(state.shownTokens, state.lastInputTokens);
  const isNewTurn = state.shown.at(-1)?.message.role === "user";
  const first = judge(work, next);
  const mayEvict = compacting.evictFrom !== undefined && size >= compacting.evictFrom;
  if (mayEvict && (isNewTurn || first !== "not_due")) await runEviction({ state, compacting, asking, append });
  // After a rejection the provider decides, not the estimate.
  const verdict = next.isRefused ? "overflow" : judge(work, next);
  if (verdict === "not_due") return undefined;
  const trigger: CompactionTrigger = verdict === "overflow" ? "overflow" : "threshold";
  let outcome = await runCompaction({ state, compacting, asking, append, trigger });
  const isOver = judge(work, next) === "overflow";
  if (isOver) outcome = await runCompaction({ state, compacting, asking, append, trigger: "overflow" });
  if (outcome.compacted || state.lastEntry?.body.kind === "compaction_failed") return undefined;
  return isOver || next.isRefused ? outcome.reason : undefined;
}

const BYTES_PER_TOKEN = 4;

function judge({ state, compacting }: Work, next: NextCall): Verdict {
  const { cadence, shownTokens, shownMediaBytes } = state;
  const { session_boundary_index, last_compaction_boundary_index, last_compaction_attempt_boundary_index } = cadence;
  const last = Math.max(last_compaction_boundary_index ?? -1, last_compaction_attempt_boundary_index ?? -1);
  const facts: BoundaryFacts = {
    ...next,
    lastInputTokens: state.lastInputTokens,
    messageCount: state.shown.length,
    estimatedHistoryTokens: shownTokens,
    lastCompactionBoundaryIndex: last < 0 ? undefined : last,
    sessionBoundaryIndex: session_boundary_index,
    requestBytes: shownMediaBytes + shownTokens * BYTES_PER_TOKEN,
    minTurnsBetweenCompactions: compacting.minTurnsBetweenCompactions,
  };
  return judgeBoundary(facts, compacting.compactor);
}

/** Usage entries mean nothing to the caller. */
function isMark(body: EntryBody): boolean {
  return body.kind === "compacted" || body.kind === "compaction_failed" || body.kind === "event";
}

/** The settings of such a conversation are never read. */
const SETTINGS: SessionSettings = {
  model: "",
  provider: "",
  max_turns: 1,
  budget_limits: {},
  tools: { builtins: "none", shell: false, memory: false },
  tool_filter: "All",
  structured_output_retries: 0,
};

/** Builds a log from the conversation; equal messages get equal seqs each time. */
function foldConversation({ system, messages, pins, marks }: Conversation): WholeState {
  const entries: Entry[] = [entryOf(1, { kind: "session_created", settings: { ...SETTINGS, system_prompt: system } })];
  for (const place of pins) entries.push(entryOf(1, { kind: "pinned", seq: seqOf(place), pinned: true }));
  const marksAfter = Map.groupBy(marks, ({ after }) => after);
  const addMarks = (after: number): void => {
    for (const { seq, body } of marksAfter.get(after) ?? []) entries.push(entryOf(seq, body));
  };
  for (const [place, message] of messages.entries()) {
    addMarks(place);
    entries.push(entryOf(seqOf(place), saidBy(message)));
  }
  addMarks(messages.length);
  return foldSession("", entries);
}

function seqOf(place: number): number {
  return (place + 1) * SEQS_PER_MESSAGE;
}

function entryOf(seq: number, body: EntryBody): Entry {
  return { seq, span: 1, timestamp_ms: 0, body };
}

function saidBy(message: Message): EntryBody {
  // The turn is open from here on: the current prompt must stay.
  if (message.role === "user") return { kind: "turn_opened", message };
  return message.role === "system_notice" ? { kind: "notice", message } : { kind: "imported", message };
}

/** The marks that determine the context, and later attempts. */
function stillNeeded(marks: readonly Mark[], { shownBy }: WholeState): readonly Mark[] {
  const showing = new Set(shownBy.map(({ seq }) => seq));
  const last = marks.findLast(({ body }) => body.kind === "compacted" && body.evicted === undefined)?.seq ?? 0;
  return marks.filter(({ seq }) => showing.has(seq) || seq >= last);
}

function shownAs({ seq, message }: Placed, said: ReadonlySet<Message>): readonly Shown[] {
  // The caller stores its system messages, too.
  if (message.role === "system") return [];
  if (seq % SEQS_PER_MESSAGE !== 0) {
    return message.role === "user" && typeof message.content === "string" ? [{ summary: message.content }] : [];
  }
  const place = seq / SEQS_PER_MESSAGE - 1;
  return [said.has(message) ? { place } : { place, instead: withoutLog(message) }];
}

const LOGGED = / is in the log at seq \d{1,16}, left out of the context …\]/;

/** The replacement of an output names a tool and a log that do not exist here. */
function withoutLog(message: Message): Message {
  if (message.role !== "tool_results") return message;
  const results = message.results.map((result): ToolResultsMessage["results"][number] => {
    if (typeof result.content !== "string") return result;
    return { ...result, content: withoutRecall(result.content).replace(LOGGED, " has left the context …]") };
  });
  return { ...message, results };
}

function withoutRecall(content: string): string {
  const at = content.lastIndexOf(`; ${RECALL_OUTPUT}(`);
  return at >= 0 && content.endsWith(") shows it]") ? `${content.slice(0, at)}]` : content;
}

/** A receipt for a model without recall: what left its context is lost to it. */
export function receiptWithoutLog(receipt: Receipt): Receipt {
  const items = receipt.items.map((item) =>
    item.status === "recoverable" ? { ...item, status: "lost" as const } : item,
  );
  const isLost = ({ status }: Receipt["items"][number]): boolean => status === "lost";
  return {
    ...receipt,
    lost: receipt.lost + receipt.recoverable,
    recoverable: 0,
    items: [...items.filter(isLost), ...items.filter((item) => !isLost(item))],
  };
}
