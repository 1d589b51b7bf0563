import type { Entry } from "../../contract/entry.ts";
import type { BudgetType, Usage } from "../../contract/event.ts";
import type { Content, Message, ToolUseBlock } from "../../contract/message.ts";
import type { SessionSettings } from "../../contract/session.ts";
import { textOf } from "./entry-events.ts";

interface Placed {
  readonly seq: number;
  readonly message: Message;
}

/** What a session is now: the fold of its log. Whoever holds it applies each entry once, in order. */
export interface SessionState {
  readonly sessionId: string;
  settings: SessionSettings;
  /** The full transcript, the system message first. */
  readonly transcript: Placed[];
  /** Seq of the last event; the next append names it. */
  lastSeq: number;
  createdAtMs: number;
  updatedAtMs: number;
  usage: Usage;
  /** Input tokens of the newest model answer. */
  lastInputTokens: number;
  toolCallsUsed: number;
  readonly warned: Set<BudgetType>;
  turnsOpened: number;
  pendingPrompt: Content | undefined;
  /** Tool calls of the newest answer that have no result yet. */
  openCalls: readonly ToolUseBlock[];
  lastText: { readonly seq: number; readonly text: string } | undefined;
  archived: boolean;
}

/** Folds a log from its first entry. */
export function foldSession(sessionId: string, entries: readonly Entry[]): SessionState {
  const [first] = entries;
  if (first?.body.kind !== "session_created") throw new Error(`log of session ${sessionId} has no beginning`);
  const state: SessionState = {
    sessionId,
    settings: first.body.settings,
    transcript: [],
    lastSeq: 0,
    createdAtMs: first.timestamp_ms,
    updatedAtMs: first.timestamp_ms,
    usage: { input_tokens: 0, output_tokens: 0 },
    lastInputTokens: 0,
    toolCallsUsed: 0,
    warned: new Set(),
    turnsOpened: 0,
    pendingPrompt: undefined,
    openCalls: [],
    lastText: undefined,
    archived: false,
  };
  for (const entry of entries) applyEntry(state, entry);
  return state;
}

/** Advances the state by one entry. */
export function applyEntry(state: SessionState, entry: Entry): void {
  const { body, seq } = entry;
  state.lastSeq = seq + entry.span - 1;
  state.updatedAtMs = entry.timestamp_ms;
  switch (body.kind) {
    case "session_created":
      state.pendingPrompt = body.pending_prompt;
      applySettings(state, body.settings, entry);
      return;
    case "settings_changed":
      applySettings(state, body.settings, entry);
      return;
    case "notice":
      state.transcript.push({ seq, message: body.message });
      return;
    case "turn_opened":
      state.transcript.push({ seq, message: body.message });
      state.turnsOpened += 1;
      state.pendingPrompt = undefined;
      // The clock runs per turn, so its warning is due again.
      state.warned.delete("time");
      return;
    case "assistant":
      state.transcript.push({ seq, message: body.message });
      if (body.usage !== undefined) countUsage(state, body.usage);
      if (textOf(body.message) !== "") state.lastText = { seq, text: textOf(body.message) };
      state.openCalls = body.message.blocks.filter((block) => block.block_type === "tool_use");
      return;
    case "tool_results":
      state.transcript.push({ seq, message: body.message });
      state.toolCallsUsed += body.calls.filter((call) => call.counted).length;
      state.openCalls = [];
      return;
    case "extraction_attempt":
      countUsage(state, body.usage);
      return;
    case "event":
      if (body.event.type === "budget_warning") state.warned.add(body.event.budget_type);
      return;
    case "archived":
      state.archived = true;
      return;
    case "model_called":
    case "attempt_failed":
    case "turn_closed":
      return;
  }
}

function applySettings(state: SessionState, settings: SessionSettings, entry: Entry): void {
  state.settings = settings;
  const [first] = state.transcript;
  const hasSystem = first?.message.role === "system";
  const prompt = settings.system_prompt;
  if (hasSystem && first.message.content === prompt) return;
  if (hasSystem) state.transcript.shift();
  if (prompt === undefined || prompt === "") return;
  const created_at = new Date(entry.timestamp_ms).toISOString();
  state.transcript.unshift({ seq: entry.seq, message: { role: "system", content: prompt, created_at } });
}

function countUsage(state: SessionState, usage: Usage): void {
  state.usage = addUsage(state.usage, usage);
  state.lastInputTokens = usage.input_tokens;
}

export function addUsage(total: Usage, more: Usage): Usage {
  const created = (total.cache_creation_tokens ?? 0) + (more.cache_creation_tokens ?? 0);
  const read = (total.cache_read_tokens ?? 0) + (more.cache_read_tokens ?? 0);
  return {
    input_tokens: total.input_tokens + more.input_tokens,
    output_tokens: total.output_tokens + more.output_tokens,
    ...(created > 0 ? { cache_creation_tokens: created } : {}),
    ...(read > 0 ? { cache_read_tokens: read } : {}),
  };
}

export function totalTokens(usage: Usage): number {
  return usage.input_tokens + usage.output_tokens;
}
