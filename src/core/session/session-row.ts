import type { Entry } from "../../contract/entry.ts";
import type { SessionRow } from "../../ports/store.ts";
import { textOf } from "../message-text.ts";
import { totalTokens } from "./session-state.ts";

/** The fold behind a list of sessions: what is shown of one without reading its log. */
export function foldRow(row: SessionRow | undefined, sessionId: string, entry: Entry): SessionRow {
  const before = row ?? newRow(sessionId, entry.timestamp_ms);
  const next = { ...before, updated_at_ms: entry.timestamp_ms, last_seq: entry.seq + entry.span - 1 };
  const { body } = entry;
  switch (body.kind) {
    case "session_created":
    case "settings_changed": {
      const { model, provider, labels = {}, system_prompt } = body.settings;
      const hasSystem = system_prompt !== undefined && system_prompt !== "";
      const message_count = before.message_count + Number(hasSystem) - Number(before.has_system);
      return { ...next, model, provider, labels, message_count, has_system: hasSystem };
    }
    case "turn_opened":
      return { ...next, message_count: before.message_count + 1, has_open_turn: true };
    case "imported":
    case "notice":
    case "tool_results":
      return { ...next, message_count: before.message_count + 1 };
    case "assistant": {
      const tokens = body.usage === undefined ? 0 : totalTokens(body.usage);
      const text_seq = textOf(body.message) === "" ? before.text_seq : entry.seq;
      const message_count = before.message_count + 1;
      return { ...next, message_count, total_tokens: before.total_tokens + tokens, text_seq };
    }
    case "extraction_attempt":
      return { ...next, total_tokens: before.total_tokens + totalTokens(body.usage) };
    case "turn_closed":
      return { ...next, has_open_turn: false };
    case "archived":
      return { ...next, archived: true };
    case "model_called":
    case "attempt_failed":
    case "event":
      return next;
  }
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
    model: "",
    provider: "",
    labels: {},
    text_seq: 0,
    has_open_turn: false,
    archived: false,
  };
}
