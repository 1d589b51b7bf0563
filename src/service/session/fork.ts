import type { EntryBody } from "../../contract/entry.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { SessionState } from "../../core/session/session-state.ts";

/** The beginning of a session that has the messages before an index; the system message counts as one. */
export function forkBodies(source: SessionState, messageIndex: number): readonly EntryBody[] {
  const { transcript, settings, sessionId: session_id } = source;
  if (messageIndex > transcript.length) {
    const message = `message_index: ${messageIndex} is beyond the ${transcript.length} messages of the session`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  const kept = transcript.slice(0, messageIndex).map((placed) => placed.message);
  const hasSystem = kept[0]?.role === "system";
  const { system_prompt: _dropped, ...withoutSystem } = settings;
  return [
    {
      kind: "session_created",
      settings: hasSystem ? settings : withoutSystem,
      forked_from: { session_id, message_count: kept.length },
    },
    ...kept.filter((message) => message.role !== "system").map((message): EntryBody => ({ kind: "imported", message })),
  ];
}
