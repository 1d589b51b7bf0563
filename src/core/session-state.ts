import type { CompactionCadence } from "../contract/compaction.ts";
import type { Entry, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { BudgetType, Usage } from "../contract/event.ts";
import type { Content, Message, ToolUseBlock } from "../contract/message.ts";
import type { SessionSettings } from "../contract/session.ts";
import { advanceCadence, NO_CADENCE, type Placed, showTranscript, standingIn } from "./context.ts";
import { addCost } from "./cost.ts";
import { spanOf } from "./entry-events.ts";
import {
  judgeCompactions,
  type KeptCompaction,
  lastTextIn,
  type RewriteRecord,
  rewrite,
  saidIn,
  withSystemOf,
} from "./rewrites.ts";
import { assistantText, estimateTokens, mediaBytes } from "./tokens.ts";

/** What a session is now: the fold of its log. Whoever holds it applies each entry once, in order. */
export interface SessionState {
  readonly sessionId: string;
  settings: SessionSettings;
  /** The full transcript, the system message first. */
  transcript: Placed[];
  /** Every rewrite of it, oldest first. */
  rewrites: readonly RewriteRecord[];
  /** What the model is shown of it, the system message first. */
  shown: Placed[];
  /** The estimate of what is shown, kept up so that deciding whether to compact costs the same at every length. */
  shownTokens: number;
  /** Bytes of the media among it. */
  shownMediaBytes: number;
  compactions: readonly KeptCompaction[];
  /** Seqs of messages that no compaction takes out of the context. */
  readonly pins: Set<number>;
  cadence: CompactionCadence;
  /** A compaction began and has not ended: it runs, or its process ended. */
  isCompacting: boolean;
  /** The compaction that is ready to be made; whether what it covers is still the same is for whoever makes it to see. */
  prepared: PreparedRecord | undefined;
  /** Input tokens the model counted for its last answer; 0 after a compaction. */
  lastInputTokens: number;
  /** When the model last answered, which is since when its provider's cache ages; 0 before the first answer. */
  lastAnswerMs: number;
  /** How long the newest turn came after the answer before it; 0 before there were two. */
  lastPauseMs: number;
  /** Seq of the last event; the next append names it. */
  lastSeq: number;
  updatedAtMs: number;
  usage: Usage;
  /** What was used since the newest turn was opened. */
  turnUsage: Usage;
  toolCallsUsed: number;
  readonly warned: Set<BudgetType>;
  turnsOpened: number;
  /** A turn was opened and is not closed: it runs, or its process ended. */
  isTurnOpen: boolean;
  pendingPrompt: Content | undefined;
  /** Tool calls of the newest answer that have no result yet. */
  openCalls: readonly ToolUseBlock[];
  /** Those of them, by id, whose results whoever asked for the turn will bring. */
  pending: readonly string[];
  /** What others of them gave that ran here. */
  heldResults: Pick<EntryBodyOf<"results_held">, "results" | "calls"> | undefined;
  /** The person's word the turn waits for, or has got for its open calls. */
  approval: PendingApproval | undefined;
  /** Rules that a person's words have added for the session. */
  allowed: readonly string[];
  /** Notices that came while calls were open: they may not stand between a call and its result. */
  heldNotices: readonly Placed[];
  /** Texts injected under a key, newest last. */
  readonly injected: Map<string, string>;
  lastText: { readonly seq: number; readonly text: string } | undefined;
  archived: boolean;
}

/** A prepared compaction, and the seq of its entry. */
export interface PreparedRecord {
  readonly seq: number;
  readonly body: EntryBodyOf<"compaction_prepared">;
}

/** A question about calls, and the words it has got so far, by call. */
export interface PendingApproval {
  readonly asked: EntryBodyOf<"approval_asked">;
  readonly askedAtMs: number;
  readonly answers: ReadonlyMap<string, EntryBodyOf<"approval_answered">>;
}

/** Whether calls of it still wait for a word. */
export function isWaiting({ approval }: Pick<SessionState, "approval">): boolean {
  return approval?.asked.calls.some(({ id }) => !approval.answers.has(id)) ?? false;
}

/** Folds a log from its first entry. */
export function foldSession(sessionId: string, entries: readonly Entry[]): SessionState {
  const state = beginFold(sessionId, entries);
  for (const entry of entries) applyUnshown(state, entry);
  // Once for all: what is shown after each of a long log's compactions is nobody's question here.
  showAnew(state);
  return state;
}

/** The state before the first entry of a log. */
export function beginFold(sessionId: string, [first]: readonly Entry[]): SessionState {
  if (first?.body.kind !== "session_created") throw new Error(`log of session ${sessionId} has no beginning`);
  return {
    sessionId,
    settings: first.body.settings,
    transcript: [],
    rewrites: [],
    shown: [],
    shownTokens: 0,
    shownMediaBytes: 0,
    compactions: [],
    pins: new Set(),
    cadence: NO_CADENCE,
    isCompacting: false,
    prepared: undefined,
    lastInputTokens: 0,
    lastAnswerMs: 0,
    lastPauseMs: 0,
    lastSeq: 0,
    updatedAtMs: first.timestamp_ms,
    usage: NO_USAGE,
    turnUsage: NO_USAGE,
    toolCallsUsed: 0,
    warned: new Set(),
    turnsOpened: 0,
    isTurnOpen: false,
    pendingPrompt: undefined,
    openCalls: [],
    pending: [],
    heldResults: undefined,
    approval: undefined,
    allowed: [],
    heldNotices: [],
    injected: new Map(),
    lastText: undefined,
    archived: false,
  };
}

/** A state with what is not saved yet. What was said before is left out: copying it would cost more with every turn. */
export interface Ahead extends Omit<SessionState, "transcript" | "shown"> {
  /** What will be shown besides what is shown now. */
  readonly added: readonly Placed[];
}

/** The state as it will be once these bodies, which are of a turn, are appended; the state itself stays as it is. */
export function foldAhead(state: SessionState, bodies: readonly EntryBody[]): Ahead {
  const ahead: SessionState = {
    ...state,
    transcript: [],
    shown: [],
    warned: new Set(state.warned),
    injected: new Map(state.injected),
  };
  for (const body of bodies) {
    applyUnshown(ahead, { body, seq: ahead.lastSeq + 1, span: spanOf(body), timestamp_ms: state.updatedAtMs });
  }
  const { transcript: _said, shown: added, ...rest } = ahead;
  return { ...rest, added };
}

/** Advances the state by one entry. */
export function applyEntry(state: SessionState, entry: Entry): void {
  applyUnshown(state, entry);
  if (SHOWS_ANEW.has(entry.body.kind)) showAnew(state);
}

/** Entries after which what is shown is not merely longer. */
const SHOWS_ANEW: ReadonlySet<EntryBody["kind"]> = new Set([
  "session_created",
  "settings_changed",
  "compacted",
  "compaction_undone",
  "expanded",
  "pinned",
  "rewritten",
]);

/** The same but for what is shown after a change of it, which `showAnew` makes up for. */
export function applyUnshown(state: SessionState, entry: Entry): void {
  const { body, seq } = entry;
  state.lastSeq = seq + entry.span - 1;
  state.cadence = advanceCadence(state.cadence, body);
  state.updatedAtMs = entry.timestamp_ms;
  switch (body.kind) {
    case "session_created":
      state.pendingPrompt = body.pending_prompt;
      applySettings(state, body.settings, entry);
      return;
    case "settings_changed":
      applySettings(state, body.settings, entry);
      return;
    case "imported":
      applyMessage(state, seq, body.message);
      // Whoever has the history has, or can get, the results of the calls it ends with.
      state.pending = state.openCalls.map(({ data }) => data.id);
      return;
    case "notice":
      if (body.idempotency_key !== undefined) rememberKey(state, body.idempotency_key, body.message.body ?? "");
      if (state.openCalls.length > 0) state.heldNotices = [...state.heldNotices, { seq, message: body.message }];
      else place(state, { seq, message: body.message });
      return;
    case "turn_opened":
      applyMessage(state, seq, body.message);
      openTurn(state, entry);
      state.pendingPrompt = undefined;
      return;
    case "turn_continued":
      openTurn(state, entry);
      return;
    case "assistant":
      applyMessage(state, seq, body.message);
      if (body.usage === undefined) return;
      count(state, body.usage);
      state.lastInputTokens = body.usage.input_tokens;
      state.lastAnswerMs = entry.timestamp_ms;
      return;
    case "tool_results":
      applyMessage(state, seq, body.message);
      state.toolCallsUsed += body.calls.filter((call) => call.counted).length;
      return;
    case "results_held":
      state.heldResults = { results: body.results, calls: body.calls };
      state.toolCallsUsed += body.calls.filter((call) => call.counted).length;
      return;
    case "approval_asked":
      state.approval = { asked: body, askedAtMs: entry.timestamp_ms, answers: new Map() };
      return;
    case "approval_answered":
      if (state.approval?.asked.approval_id !== body.approval_id) return;
      state.approval = {
        ...state.approval,
        answers: new Map([...state.approval.answers, ...body.calls.map((id) => [id, body] as const)]),
      };
      if (body.remember === "session") state.allowed = [...new Set([...state.allowed, ...(body.rules ?? [])])];
      return;
    case "call_failed":
    case "extraction_attempt":
      count(state, body.usage);
      return;
    case "event":
      if (body.event.type === "budget_warning") state.warned.add(body.event.budget_type);
      if (body.event.type === "compaction_started") state.isCompacting = true;
      if (body.event.type === "native_compaction_refused") refuseNative(state, body.event.compaction_id);
      return;
    case "compacted":
      // What a prepared one took was counted when it was prepared.
      if (body.prepared === undefined) count(state, body.usage);
      else if (state.prepared?.seq === body.prepared.seq) state.prepared = undefined;
      state.compactions = [...state.compactions, keptCompaction(state, seq, body)];
      if (body.evicted !== undefined) {
        // Both thresholds are judged on what is left: the model has not counted that yet.
        state.lastInputTokens = Math.max(0, state.lastInputTokens - (body.tokens_before - body.tokens_after));
        return;
      }
      state.lastInputTokens = 0;
      state.isCompacting = false;
      return;
    case "compaction_prepared":
      count(state, body.compaction.usage);
      state.prepared = { seq, body };
      return;
    case "compaction_dropped":
      if (body.compaction_id === undefined) {
        if (body.usage !== undefined) count(state, body.usage);
      } else if (state.prepared?.body.compaction.compaction_id === body.compaction_id) state.prepared = undefined;
      return;
    case "compaction_failed":
      if (body.usage !== undefined) count(state, body.usage);
      state.isCompacting = false;
      return;
    case "compaction_undone": {
      const from = state.compactions.findIndex((record) => record.body.compaction_id === body.compaction_id);
      if (from < 0) return;
      state.compactions = state.compactions.map((one, at) =>
        at < from ? one : { ...one, undone: true, undoneByHand: true },
      );
      return;
    }
    case "expanded": {
      const { compactions } = state;
      const standing = standingIn(state);
      state.compactions = compactions.map((one) =>
        one === standing ? { ...one, expanded: [...one.expanded, ...body.ranges] } : one,
      );
      return;
    }
    case "pinned":
      if (body.pinned) state.pins.add(body.seq);
      else state.pins.delete(body.seq);
      return;
    case "rewritten":
      applyRewrite(state, seq, body);
      return;
    case "archived":
      state.archived = true;
      return;
    case "turn_closed":
      state.isTurnOpen = false;
      if (body.end.status === "completed") state.pending = body.end.pending ?? [];
      return;
    case "model_called":
    case "attempt_failed":
      return;
  }
}

function openTurn(state: SessionState, entry: Entry): void {
  state.isTurnOpen = true;
  if (state.lastAnswerMs > 0) state.lastPauseMs = Math.max(0, entry.timestamp_ms - state.lastAnswerMs);
  state.turnsOpened += 1;
  state.turnUsage = NO_USAGE;
  // The clock runs per turn, so its warning is due again.
  state.warned.delete("time");
}

function count(state: SessionState, usage: Usage): void {
  state.usage = addUsage(state.usage, usage);
  state.turnUsage = addUsage(state.turnUsage, usage);
}

/** Adds a message to the end of the transcript and of what is shown. */
function place(state: SessionState, placed: Placed): void {
  state.transcript.push(placed);
  state.shown.push(placed);
  state.shownTokens += estimateTokens([placed.message]);
  state.shownMediaBytes += mediaBytes(placed.message);
}

export function showAnew(state: SessionState): void {
  state.shown = showTranscript(state.transcript, state.compactions, state.pins);
  state.shownTokens = estimateTokens(state.shown.map((placed) => placed.message));
  state.shownMediaBytes = state.shown.reduce((sum, placed) => sum + mediaBytes(placed.message), 0);
}

function keptCompaction(state: SessionState, seq: number, body: EntryBodyOf<"compacted">): KeptCompaction {
  const madeFrom = saidIn(state.transcript).length;
  // An eviction keeps everything else as it is shown, what was brought back by hand with it.
  const expanded = body.evicted === undefined ? [] : (standingIn(state)?.expanded ?? []);
  return { seq, body, madeFrom, madeAfter: state.rewrites.length, undone: false, undoneByHand: false, expanded };
}

function refuseNative(state: SessionState, compactionId: string): void {
  state.compactions = state.compactions.map((one) =>
    one.body.compaction_id === compactionId ? { ...one, nativeRefused: true } : one,
  );
}

/** Calls are closed before a transcript is rewritten, so none are open and no notice waits. */
function applyRewrite(state: SessionState, seq: number, { to, commit }: EntryBodyOf<"rewritten">): void {
  const before = state.transcript;
  // Another list, not the same one changed: what was computed of the old one must not be taken for the new one's.
  state.transcript = rewrite(state, to, seq);
  state.rewrites = [...state.rewrites, { commit, before }];
  state.compactions = judgeCompactions(state.compactions, state);
  state.settings = withSystemOf(state.settings, state.transcript);
  state.lastText = lastTextIn(state.transcript);
  // What the model counted was another context.
  state.lastInputTokens = 0;
}

function applyMessage(state: SessionState, seq: number, message: Message): void {
  place(state, { seq, message });
  if (message.role === "block_assistant") {
    const text = assistantText(message);
    if (text !== "") state.lastText = { seq, text };
    state.openCalls = message.blocks.filter((block) => block.block_type === "tool_use");
  }
  if (message.role !== "tool_results") return;
  state.openCalls = [];
  state.pending = [];
  state.heldResults = undefined;
  state.approval = undefined;
  for (const notice of state.heldNotices) place(state, notice);
  state.heldNotices = [];
}

const KEYS_MAX = 1_000;

function rememberKey(state: SessionState, key: string, text: string): void {
  state.injected.set(key, text);
  const [oldest] = state.injected.keys();
  if (state.injected.size > KEYS_MAX && oldest !== undefined) state.injected.delete(oldest);
}

function applySettings(state: SessionState, settings: SessionSettings, entry: Entry): void {
  state.settings = settings;
  const [first] = state.transcript;
  const hasSystem = first?.message.role === "system";
  const prompt = settings.system_prompt;
  if (hasSystem && first.message.content === prompt) return;
  if (hasSystem) state.transcript.shift();
  if (prompt !== undefined && prompt !== "") {
    const created_at = new Date(entry.timestamp_ms).toISOString();
    state.transcript.unshift({ seq: entry.seq, message: { role: "system", content: prompt, created_at } });
  }
}

export const NO_USAGE: Usage = { input_tokens: 0, output_tokens: 0 };

export function addUsage(total: Usage, more: Usage): Usage {
  const cost = addCost(total, more);
  const created = (total.cache_creation_tokens ?? 0) + (more.cache_creation_tokens ?? 0);
  const read = (total.cache_read_tokens ?? 0) + (more.cache_read_tokens ?? 0);
  return {
    input_tokens: total.input_tokens + more.input_tokens,
    output_tokens: total.output_tokens + more.output_tokens,
    ...(created > 0 ? { cache_creation_tokens: created } : {}),
    ...(read > 0 ? { cache_read_tokens: read } : {}),
    ...(total.estimated || more.estimated ? { estimated: true as const } : {}),
    ...(cost === undefined ? {} : { cost }),
  };
}

export function totalTokens(usage: Usage): number {
  return usage.input_tokens + usage.output_tokens;
}
