import type { Evicted, KeptNative } from "../contract/compaction.ts";
import type { Entry, EntryBody, EntryBodyOf, NewEntry, TurnEnd } from "../contract/entry.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { JobEnd } from "../contract/input.ts";
import { defined } from "../contract/json.ts";
import type { AssistantMessage } from "../contract/message.ts";
import { skillEvents } from "../turn/skills.ts";
import { asBlocks, assistantText, contentText } from "../turn/tokens.ts";

/** What an entry does not contain: its session, and the text of an earlier assistant entry. */
export interface EventSource {
  readonly sessionId: string;
  textAt(seq: number): string;
}

/** The durable events of an entry. Live listening and replay both use this function, so they cannot differ. */
export function eventsOf(body: EntryBody, source: EventSource): readonly AgentEvent[] {
  switch (body.kind) {
    case "session_created":
    case "settings_changed":
    case "imported":
    case "seqs_skipped":
    case "results_held":
    case "step_ended":
    case "job_started":
    case "turn_released":
    case "call_failed":
    case "extraction_attempt":
    case "compaction_undone":
    case "expanded":
    case "pinned":
    case "archived":
    case "forgotten":
      return [];
    case "notice":
      return skillEvents(body.message);
    case "turn_opened":
    case "turn_continued": {
      const { inbox_id: message_id, goal } = body.setup ?? {};
      const prompt = body.kind === "turn_opened" ? body.message.content : "";
      return [
        {
          type: "run_started",
          session_id: source.sessionId,
          prompt,
          ...defined({ message_id, goal }),
        },
      ];
    }
    case "message_queued": {
      const { id: message_id, when_busy, source: sender } = body;
      return [{ type: "message_queued", session_id: source.sessionId, message_id, when_busy, source: sender }];
    }
    case "message_delivered":
      return [{ type: "message_delivered", session_id: source.sessionId, message_id: body.id, source: body.source }];
    case "message_removed": {
      const { id: message_id, why } = body;
      const because = why === undefined ? {} : { why };
      return [{ type: "message_removed", session_id: source.sessionId, message_id, ...because }];
    }
    case "goal_judged": {
      const { kind: _kind, output: _output, stuck: _stuck, by: _by, ...judged } = body;
      return [{ type: "goal_judged", session_id: source.sessionId, ...judged }];
    }
    case "goal_ended": {
      const { kind: _kind, by: _by, ...ended } = body;
      return [{ type: "goal_ended", session_id: source.sessionId, ...ended }];
    }
    case "turn_adopted": {
      const { kind: _, ...adoption } = body;
      return [{ type: "turn_adopted", session_id: source.sessionId, ...adoption }];
    }
    case "model_called":
      return [{ type: "turn_started", turn_number: body.turn_number }];
    case "assistant":
      return assistantEvents(body.message);
    case "tool_results":
      return toolResultEvents(body);
    case "approval_asked": {
      const { approval_id, calls, expires_at_ms } = body;
      const expires_at = new Date(expires_at_ms).toISOString();
      return [{ type: "tool_approval_requested", session_id: source.sessionId, approval_id, calls, expires_at }];
    }
    case "approval_answered": {
      // What the user wrote is for the server that asked.
      const { kind: _, value: _value, ...answer } = body;
      return [{ type: "tool_approval_answered", session_id: source.sessionId, ...answer }];
    }
    case "job_ended": {
      const { job_id, display_name, status, report } = body;
      const detail = (report.stdout + report.stderr).slice(-JOB_DETAIL_CHARS_MAX);
      const terminal_status = JOB_ENDS[status];
      return [{ type: "background_job_completed", job_id, display_name, status, terminal_status, detail }];
    }
    case "attempt_failed":
    case "event":
      return [body.event];
    case "compacted": {
      if (body.evicted !== undefined) return [evictedEvent(body, body.evicted)];
      const { judged, native, prepared, waited_ms } = body;
      return [
        {
          type: "compaction_completed",
          ...summarisedIn(body),
          ...(judged === undefined ? {} : { judged }),
          ...(native === undefined ? {} : { native: nativeFacts(native) }),
          ...(waited_ms === undefined ? {} : { prepared: prepared !== undefined, waited_ms }),
        },
      ];
    }
    case "compaction_prepared": {
      const { compaction_id, usage } = body.compaction;
      return [{ type: "compaction_prepared", compaction_id, ...summarisedIn(body.compaction), usage }];
    }
    case "compaction_dropped": {
      const { reason, usage } = body;
      return [{ type: "compaction_dropped", reason, ...(usage === undefined ? {} : { usage }) }];
    }
    case "compaction_failed":
      return [{ type: "compaction_failed", error: body.error }];
    case "rewritten":
      return [rewriteEvent(body, source)];
    case "child_opened": {
      const { call_id, agent, child_id, task } = body;
      return [{ type: "sub_agent_started", call_id, agent, child_id, task }];
    }
    case "child_closed": {
      const { kind: _, ...closed } = body;
      return [{ type: "sub_agent_completed", ...closed }];
    }
    case "turn_closed":
      return turnEndEvents(body.end, source);
  }
}

const JOB_DETAIL_CHARS_MAX = 1_000;
const JOB_ENDS = {
  completed: "completed",
  failed: "failed",
  timed_out: "terminated",
  cancelled: "cancelled",
  unknown: "aborted",
} as const satisfies Record<JobEnd, string>;

/** The reported facts of a native compaction; its content stays between the log and the provider. */
export function nativeFacts({ provider, model, bytes, usage }: KeptNative) {
  return { provider, model, bytes, usage };
}

type Summarised = Pick<EntryBodyOf<"compacted">, "summary_tokens" | "messages_before" | "messages_after" | "economy">;

function summarisedIn({ summary_tokens, messages_before, messages_after, economy }: Summarised): Summarised {
  return { summary_tokens, messages_before, messages_after, ...(economy === undefined ? {} : { economy }) };
}

/** A body takes one seq for each of its events or messages, and at least one. */
export function toNewEntries(bodies: readonly EntryBody[]): readonly NewEntry[] {
  return bodies.map((body) => ({ body, span: spanOf(body) }));
}

/** The seq of the text that an entry refers to without containing it; 0 if none. */
export function spokenOf(body: EntryBody): number {
  if (body.kind === "rewritten") return body.row.text_seq;
  return body.kind === "turn_closed" && body.end.status === "completed" ? (body.end.text_seq ?? 0) : 0;
}

export function textOfEntry({ body, seq: first }: Entry, seq: number): string {
  if (body.kind === "assistant") return assistantText(body.message);
  // An answer copied by a fork, or written by a rewrite.
  if (body.kind === "imported") return body.message.role === "block_assistant" ? assistantText(body.message) : "";
  if (body.kind !== "rewritten" || !("messages" in body.to)) return "";
  const message = body.to.messages[seq - first];
  return message?.role === "block_assistant" ? assistantText(message) : "";
}

const NO_SOURCE: EventSource = { sessionId: "", textAt: () => "" };

export function spanOf(body: EntryBody): number {
  if (body.kind === "seqs_skipped") return body.count;
  const messages = body.kind === "rewritten" && "messages" in body.to ? body.to.messages.length : 0;
  return Math.max(1, eventsOf(body, NO_SOURCE).length, messages);
}

function evictedEvent(body: EntryBodyOf<"compacted">, evicted: Evicted): AgentEvent {
  const { compaction_id, tokens_before, tokens_after } = body;
  const { up_to_seq: _point, ...counts } = evicted;
  return { type: "context_evicted", compaction_id, ...counts, tokens_before, tokens_after };
}

function rewriteEvent({ commit, row }: EntryBodyOf<"rewritten">, source: EventSource): AgentEvent {
  const { parent_revision, revision, messages_before, messages_after } = commit;
  const text = row.text_seq === 0 ? "" : source.textAt(row.text_seq);
  return {
    type: "transcript_rewrite_committed",
    session_id: source.sessionId,
    record: {
      commit,
      parent_body: { revision: parent_revision, message_count: messages_before },
      revision_body: {
        revision,
        parent_revision,
        message_count: messages_after,
        ...(text === "" ? {} : { last_assistant_text: text }),
      },
    },
  };
}

function assistantEvents(message: AssistantMessage): readonly AgentEvent[] {
  const events: AgentEvent[] = [];
  const text = assistantText(message);
  const calls: AgentEvent[] = [];
  for (const block of message.blocks) {
    switch (block.block_type) {
      case "text":
        break;
      case "reasoning":
        if (block.data.text !== "") events.push({ type: "reasoning_complete", content: block.data.text });
        break;
      case "tool_use": {
        const { id, name, args } = block.data;
        calls.push({ type: "tool_call_requested", id, name, args });
        break;
      }
      case "server_tool_content": {
        const { id, name, content } = block.data;
        calls.push({ type: "server_tool_content", ...(id === undefined ? {} : { id }), name, content });
        break;
      }
      case "image":
        calls.push({ type: "assistant_image_appended", image: { media_type: block.data.media_type } });
        break;
    }
  }
  if (text !== "") events.push({ type: "text_complete", content: text });
  return [...events, ...calls];
}

function toolResultEvents(body: EntryBodyOf<"tool_results">): readonly AgentEvent[] {
  return body.message.results.flatMap((result, index): AgentEvent[] => {
    const { name, duration_ms } = body.calls[index] ?? { name: "unknown", duration_ms: 0 };
    const { tool_use_id: id, is_error } = result;
    const content = asBlocks(result.content);
    return [
      {
        type: "tool_execution_completed",
        id,
        name,
        result: contentText(result.content),
        content,
        is_error,
        duration_ms,
      },
      { type: "tool_result_received", id, name, content, is_error },
    ];
  });
}

function turnEndEvents(end: TurnEnd, source: EventSource): readonly AgentEvent[] {
  const session_id = source.sessionId;
  switch (end.status) {
    case "completed": {
      const completed: AgentEvent = {
        type: "run_completed",
        session_id,
        result: end.text_seq === undefined ? "" : source.textAt(end.text_seq),
        usage: end.usage,
        ...costOf(end),
        extraction_required: end.extraction_required,
        ...defined({ pending_calls: end.pending, terminal_cause_kind: end.cause }),
      };
      if (end.final_call === undefined) return [completed];
      return [{ type: "turn_completed", ...end.final_call }, completed];
    }
    case "failed": {
      const { error_class, error, cause, reason } = end;
      return [
        {
          type: "run_failed",
          session_id,
          error_class,
          error,
          ...(cause === undefined ? {} : { terminal_cause_kind: cause }),
          error_report: { class: error_class, message: error, ...(reason === undefined ? {} : { reason }) },
          ...costOf(end),
        },
      ];
    }
  }
}

function costOf({ turn_cost }: TurnEnd): Pick<TurnEnd, "turn_cost"> {
  return turn_cost === undefined ? {} : { turn_cost };
}
