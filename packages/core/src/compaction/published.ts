import type { CompactionTrigger, WorkState } from "../contract/compaction.ts";
import type { CompactionBasis, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { messageOf } from "../contract/error.ts";
import { advanceCadence, type Hash, hashContext, messagesOf, rangesOf, showTranscript } from "../state/context.ts";
import type { PreparedRecord } from "../state/session-state.ts";
import type { WholeState } from "../state/whole-state.ts";
import { type Asking, waitFor } from "../turn/model-call.ts";
import { contentTokens, estimateTokens } from "../turn/tokens.ts";
import { removesEnough } from "./economy.ts";
import { grammarFaults } from "./grammar.ts";
import { describeCompaction } from "./policy.ts";
import type { Compacting } from "./prepare.ts";
import { workStateText } from "./shown-messages.ts";
import { workFor } from "./work-state.ts";

/** A compaction that is not active yet, and how much of the transcript it covers. */
export interface Made {
  readonly compaction: EntryBodyOf<"compaction_prepared">["compaction"];
  readonly basis: Pick<CompactionBasis, "transcript">;
}

type HowPublished = Partial<Pick<EntryBodyOf<"compacted">, "trigger" | "created_at" | "prepared" | "waited_ms">>;

/** The entry that activates a compaction. Messages since it was planned follow it. */
export function publishedEntry(
  state: Pick<WholeState, "transcript" | "cadence">,
  { compaction, basis }: Made,
  how: HowPublished,
): EntryBodyOf<"compacted"> {
  const late = state.transcript.slice(basis.transcript);
  const lateTokens = estimateTokens(messagesOf(late));
  const body: EntryBodyOf<"compacted"> = {
    kind: "compacted",
    ...compaction,
    ...how,
    messages_before: compaction.messages_before + late.length,
    messages_after: compaction.messages_after + late.length,
    tokens_before: compaction.tokens_before + lateTokens,
    tokens_after: compaction.tokens_after + lateTokens,
    shows: [...compaction.shows, ...rangesOf(late, state.transcript)],
  };
  return { ...body, cadence: advanceCadence(state.cadence, body) };
}

/** The hash of everything a compaction depends on: context, seqs, pins, the active compaction and rewrites. */
export function basisOf(
  state: WholeState,
  { transcript, shown }: Pick<CompactionBasis, "transcript" | "shown">,
  hash: Hash,
): string {
  const covered = state.shown.slice(0, shown);
  const said = new Set(state.transcript.slice(0, transcript).map(({ seq }) => seq));
  const active = state.compactions.findLast(({ undone }) => !undone);
  return hash(
    JSON.stringify([
      hashContext(messagesOf(covered), hash),
      covered.map(({ seq }) => seq),
      said.size,
      active?.seq ?? 0,
      active?.expanded ?? [],
      state.rewrites.length,
      [...state.pins].filter((seq) => said.has(seq)).sort((a, b) => a - b),
    ]),
  );
}

export function isUntouched(state: WholeState, { body }: PreparedRecord, hash: Hash): boolean {
  return basisOf(state, body.basis, hash) === body.basis.sha256;
}

export interface Publishing {
  readonly state: WholeState;
  readonly compacting: Compacting;
  readonly asking: Asking;
  readonly hash: Hash;
  readonly trigger: CompactionTrigger;
  /** The largest allowed context afterwards; absent if any reduction is enough. */
  readonly tokensMax?: number | undefined;
  /** Since when the turn waits for it; absent if it does not. */
  readonly waitingSinceMs?: number | undefined;
  append(bodies: () => readonly EntryBody[]): Promise<void>;
}

/**
 * Activates the prepared compaction by one append if the messages it covers are unchanged; otherwise drops and reports
 * it. Returns its id, or undefined if there was none or it was dropped.
 */
export async function publishPrepared(publishing: Publishing): Promise<string | undefined> {
  const { asking } = publishing;
  let published: string | undefined;
  // Checked when nothing else can be appended before: an injected text or a pin may come at any moment.
  await publishing.append(() => {
    const { prepared } = publishing.state;
    if (prepared === undefined) return [];
    const decided = decide(publishing, prepared);
    if ("reason" in decided) return [droppedEntry(prepared, decided.reason)];
    published = decided.entry.compaction_id;
    return [startedEntry(publishing.state, decided.entry), decided.entry];
  });
  if (published !== undefined) await callHook({ ...publishing, asking }, published);
  return published;
}

/** The entry of a dropped compaction. It reports the usage, which was counted before. */
export function droppedEntry({ body }: PreparedRecord, reason: string): EntryBodyOf<"compaction_dropped"> {
  const { compaction_id, usage } = body.compaction;
  return { kind: "compaction_dropped", compaction_id, reason, usage };
}

export const TOUCHED = "the covered messages have changed since it was prepared";

function decide(
  publishing: Publishing,
  prepared: PreparedRecord,
): { entry: EntryBodyOf<"compacted"> } | { reason: string } {
  const { state, hash, asking, tokensMax = Number.POSITIVE_INFINITY } = publishing;
  if (!isUntouched(state, prepared, hash)) return { reason: TOUCHED };
  const entry = withFreshWork(publishing, preparedEntry(publishing, prepared, asking.clock.now()));
  const { tokens_before: tokensBefore, tokens_after: tokensAfter } = entry;
  if (tokensAfter > tokensMax) return { reason: "with the messages added since, the context would still not fit" };
  if (!removesEnough({ tokensBefore, tokensAfter })) {
    return { reason: "with the messages added since, it would remove less than 5 % of the context" };
  }
  const fault = faultWith(state, entry);
  return fault === undefined ? { entry } : { reason: `with the messages added since, ${fault}` };
}

/** Tools may have run since it was prepared, so the state of the work is computed again. */
function withFreshWork(
  { state, compacting, asking }: Publishing,
  entry: EntryBodyOf<"compacted">,
): EntryBodyOf<"compacted"> {
  if (entry.shows.every((part) => "from_seq" in part)) return entry;
  const { work_state: before, ...rest } = entry;
  const work = workFor(state, compacting, asking.redact);
  return { ...rest, ...work, tokens_after: rest.tokens_after + sizeOf(work.work_state) - sizeOf(before) };
}

function sizeOf(work: WorkState | undefined): number {
  return work === undefined ? 0 : contentTokens(workStateText(work));
}

export function preparedEntry(
  { state, trigger, waitingSinceMs }: Pick<Publishing, "state" | "trigger" | "waitingSinceMs">,
  { seq, body }: PreparedRecord,
  nowMs: number,
): EntryBodyOf<"compacted"> {
  return publishedEntry(state, body, {
    trigger,
    created_at: new Date(nowMs).toISOString(),
    prepared: { seq, at: body.compaction.created_at },
    ...(trigger === "manual" ? {} : { waited_ms: waitingSinceMs === undefined ? 0 : nowMs - waitingSinceMs }),
  });
}

/** Why a provider would reject the context; a provider that rejects the current one is not in use. */
function faultWith(state: WholeState, body: EntryBodyOf<"compacted">): string | undefined {
  const { transcript, compactions, pins } = state;
  const madeFrom = transcript.length - (transcript[0]?.message.role === "system" ? 1 : 0);
  const record = { seq: state.lastSeq + 1, body, madeFrom, undone: false, expanded: [] };
  const indifferent = new Set(grammarFaults(messagesOf(state.shown)).map(({ grammar }) => grammar));
  const found = [pins, NO_PINS]
    .flatMap((pinned) => grammarFaults(messagesOf(showTranscript(transcript, [...compactions, record], pinned))))
    .find(({ grammar }) => !indifferent.has(grammar));
  return found && `${found.grammar} would reject it: ${found.fault}`;
}

const NO_PINS: ReadonlySet<number> = new Set();

/** Also a prepared compaction has a started event, so that starts and ends can be counted. */
function startedEntry(state: WholeState, { economy, compaction_id }: EntryBodyOf<"compacted">): EntryBody {
  return {
    kind: "event",
    event: {
      type: "compaction_started",
      compaction_id,
      input_tokens: state.lastInputTokens,
      estimated_history_tokens: state.shownTokens,
      message_count: state.shown.length,
      ...(economy === undefined ? {} : { economy }),
    },
  };
}

/** Calls the hook of an active compaction. */
export async function callHook(
  { compacting, state, asking }: Pick<Publishing, "compacting" | "state" | "asking">,
  compactionId: string,
): Promise<void> {
  const { after, reported } = compacting.hooks;
  const record = state.compactions.find(({ body }) => body.compaction_id === compactionId);
  if (after === undefined || record === undefined) return;
  try {
    await waitFor(asking, (signal) => after(describeCompaction(record), signal));
  } catch (thrown) {
    const error = asking.redact(messageOf(thrown));
    asking.emit({ type: "hook_failed", hook_id: "after_compaction", point: "turn_boundary", error });
  }
  const kept = reported?.() ?? [];
  if (kept.length > 0) await asking.append(kept);
}
