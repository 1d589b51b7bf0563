import type { Entry, TurnSetup } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { Content } from "../contract/message.ts";
import type { SessionRow } from "../ports/store.ts";
import { addSpending, addUsage, NO_USAGE, totalTokens } from "../turn/cost.ts";
import { assistantText, contentText } from "../turn/tokens.ts";
import { advanceCadence, NO_CADENCE } from "./context.ts";

/** Folds an entry into the row of a session list, so that listing reads no logs. */
export function foldRow(row: SessionRow | undefined, sessionId: string, entry: Entry): SessionRow {
  // Every append folds a row: one copy that is modified in place costs half of a copy per change.
  const next: Changing<SessionRow> = row === undefined ? newRow(sessionId, entry.timestamp_ms) : { ...row };
  next.updated_at_ms = entry.timestamp_ms;
  next.last_seq = entry.seq + entry.span - 1;
  next.cadence = advanceCadence(next.cadence, entry.body);
  applyBody(next, entry);
  return next;
}

type Changing<T> = { -readonly [K in keyof T]: T[K] };

function applyBody(row: Changing<SessionRow>, { body, seq, timestamp_ms }: Entry): void {
  switch (body.kind) {
    case "session_created":
    case "settings_changed": {
      const { model, provider, labels = {}, system_prompt, comms } = body.settings;
      const hasSystem = system_prompt !== undefined && system_prompt !== "";
      row.message_count += Number(hasSystem) - Number(row.has_system);
      row.has_system = hasSystem;
      row.model = model;
      row.provider = provider;
      row.labels = comms === undefined ? labels : { ...labels, ...peerLabels(comms.name) };
      if (row.budget !== undefined) row.budget = { ...row.budget, limits: body.settings.budget_limits };
      return;
    }
    case "turn_opened":
      row.message_count += 1;
      row.has_open_turn = true;
      delete row.has_failed;
      if (row.title === "") row.title = titleOf(body.message.content);
      if (body.setup?.inbox_id !== undefined) countQueued(row, -1);
      beginGoal(row, body.setup);
      return;
    case "message_queued":
      countQueued(row, 1);
      return;
    case "message_delivered":
      row.message_count += 1;
      // A message of a goal did not wait.
      if (body.source.type !== "goal") countQueued(row, -1);
      return;
    case "goal_judged":
      addTo(row, body, timestamp_ms);
      return;
    case "goal_ended":
      row.goal_phase = body.phase;
      countQueued(row, -1);
      return;
    case "message_removed":
      countQueued(row, -1);
      return;
    case "turn_continued":
      row.has_open_turn = true;
      delete row.has_failed;
      beginGoal(row, body.setup);
      return;
    case "imported":
      row.message_count += 1;
      if (row.title === "" && body.message.role === "user") row.title = titleOf(body.message.content);
      if (body.message.role === "block_assistant" && assistantText(body.message) !== "") row.text_seq = seq;
      return;
    case "notice":
      row.message_count += 1;
      return;
    case "results_held":
    case "tool_results": {
      if (body.kind === "tool_results") row.message_count += 1;
      const counted = body.calls.filter((call) => call.counted).length;
      if (row.budget !== undefined) row.budget = { ...row.budget, tool_calls: row.budget.tool_calls + counted };
      return;
    }
    case "assistant":
      row.message_count += 1;
      addTo(row, body, timestamp_ms);
      if (assistantText(body.message) !== "") row.text_seq = seq;
      return;
    case "call_failed":
    case "extraction_attempt":
      addTo(row, body, timestamp_ms);
      return;
    case "turn_closed":
      row.has_open_turn = body.end.status === "completed" && body.end.extraction_required;
      row.waiting_calls = 0;
      if (body.end.status === "failed" && body.end.error_class !== "cancelled") row.has_failed = true;
      return;
    case "approval_asked":
      row.waiting_calls = body.calls.length;
      return;
    case "approval_answered":
      row.waiting_calls = (row.waiting_calls ?? 0) - body.calls.length;
      return;
    case "rewritten":
      row.message_count = body.commit.messages_after;
      row.has_system = body.row.has_system;
      row.title = body.row.title;
      row.text_seq = body.row.text_seq;
      return;
    case "archived":
      row.archived = true;
      return;
    case "forgotten":
      // Also for a fold that continues from an existing row.
      row.title = body.row.title;
      row.labels = body.row.labels;
      row.forgotten = true;
      if (body.whole === true) row.forgotten_whole = true;
      return;
    case "compacted":
      // The usage of a prepared compaction was counted when it was prepared.
      if (body.prepared === undefined) addTo(row, body, timestamp_ms);
      return;
    case "compaction_failed":
      addTo(row, body, timestamp_ms);
      return;
    case "compaction_prepared":
      addTo(row, { usage: body.compaction.usage, by: body.by }, timestamp_ms);
      return;
    case "compaction_dropped":
      if (body.compaction_id === undefined) addTo(row, body, timestamp_ms);
      return;
    case "child_closed": {
      const { usage = NO_USAGE, tool_calls = 0 } = row.delegated ?? {};
      row.delegated = { usage: addUsage(usage, body.usage), tool_calls: tool_calls + body.tool_calls };
      return;
    }
    case "event":
      if (body.event.type === "extraction_succeeded" || body.event.type === "extraction_failed")
        row.has_open_turn = false;
      return;
    case "child_opened":
    case "model_called":
    case "attempt_failed":
    case "step_ended":
    case "job_started":
    case "job_ended":
    case "seqs_skipped":
    case "turn_released":
    case "turn_adopted":
    case "compaction_undone":
    case "expanded":
    case "pinned":
      return;
  }
}

function beginGoal(row: Changing<SessionRow>, setup: TurnSetup | undefined): void {
  if (setup?.goal === undefined) return;
  row.goal_phase = "active";
  countQueued(row, 1);
}

/** Labels by which a store finds the sessions that have a name, and that of a name; a request cannot set them. */
export function peerLabels(name?: string): Readonly<Record<string, string>> {
  return { "meerkat.comms": "yes", ...(name === undefined ? {} : { [PEER_NAME]: name }) };
}

export const PEER_NAME = "meerkat.comms_name";

function countQueued(row: Changing<SessionRow>, change: 1 | -1): void {
  row.queued = Math.max(0, (row.queued ?? 0) + change);
}

interface Spending {
  readonly usage?: Usage | undefined;
  readonly by?: string | undefined;
}

function addTo(row: Changing<SessionRow>, { usage, by }: Spending, timestamp_ms: number): void {
  if (usage === undefined) return;
  row.total_tokens += totalTokens(usage);
  if (row.usage !== undefined) row.usage = addUsage(row.usage, usage);
  if (row.spent === undefined || totalTokens(usage) === 0) return;
  row.spent = addSpending(row.spent, { model: row.model, by, usage, timestamp_ms });
}

const TITLE_CHARS_MAX = 200;

/** The title of a session that starts with this message. */
export function titleOf(content: Content): string {
  return contentText(content).slice(0, TITLE_CHARS_MAX).replace(/\s+/g, " ").trim();
}

function newRow(session_id: string, created_at_ms: number): SessionRow {
  return {
    session_id,
    created_at_ms,
    updated_at_ms: created_at_ms,
    last_seq: 0,
    message_count: 0,
    has_system: false,
    total_tokens: 0,
    usage: NO_USAGE,
    spent: [],
    budget: { limits: {}, tool_calls: 0 },
    model: "",
    provider: "",
    title: "",
    labels: {},
    text_seq: 0,
    has_open_turn: false,
    cadence: NO_CADENCE,
    archived: false,
  };
}
