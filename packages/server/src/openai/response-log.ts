import { hasCode, type RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { SessionHistory, SessionInfo } from "@rkat/core/contract/session-info";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import type { CallerRuntime } from "../http/calls.ts";
import { notThere, type ResponsePlace, responseId } from "./ids.ts";

export type SeqMessage = SessionHistory["messages"][number];

interface LoggedTurn {
  readonly deliveries: readonly Delivery[];
  /** The seq of its last event; undefined while it runs. */
  readonly endSeq: number | undefined;
  readonly isNewest: boolean;
}

const PAGE_EVENTS = 1_000;
/** The most events of a turn that are read. */
const PAGES_MAX = 100;

/** The events of a response's turn; throws SESSION_NOT_FOUND where there is none. */
export async function readTurn({ dispatch }: CallerRuntime, place: ResponsePlace): Promise<LoggedTurn> {
  const scope = { type: "session", session_id: place.session_id };
  const deliveries: Delivery[] = [];
  let endSeq: number | undefined;
  let sequence = place.seq - 1;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const cursor = { scope, sequence: Math.max(0, sequence) };
    const { events, has_more } = await dispatch("listEvents", { scope, cursor, limit: PAGE_EVENTS });
    for (const { payload, cursor: at, timestamp_ms } of events) {
      if (deliveries.length > 0 && payload.type === "run_started") return { deliveries, endSeq, isNewest: false };
      if (deliveries.length === 0 && (payload.type !== "run_started" || at.sequence !== place.seq)) {
        throw notThere("response", responseId(place));
      }
      deliveries.push({ seq: at.sequence, timestamp_ms, event: payload });
      if (endOf(payload) !== undefined) endSeq = at.sequence;
    }
    if (!has_more) break;
    sequence = events.at(-1)?.cursor.sequence ?? sequence;
  }
  if (deliveries.length === 0) throw notThere("response", responseId(place));
  return { deliveries, endSeq, isNewest: true };
}

/** Which end of a turn an event is: its last event, or one that the extraction of a result follows. */
function endOf(event: AgentEvent): "last" | "before extraction" | undefined {
  switch (event.type) {
    case "run_completed":
      return event.extraction_required ? "before extraction" : "last";
    case "run_failed":
    case "extraction_succeeded":
      return "last";
    default:
      return undefined;
  }
}

/** Resolves when a response's turn is over, or the signal aborts. */
export async function turnEnd({ subscribe }: CallerRuntime, place: ResponsePlace, signal: AbortSignal): Promise<void> {
  for await (const { event } of subscribe(place.session_id, { after: place.seq, signal })) {
    if (event.type === "extraction_failed" || endOf(event) === "last") return;
  }
}

/** The session of a response; archived sessions are not found. */
export async function readOpen(
  { dispatch }: CallerRuntime,
  session_id: string,
  missing: RuntimeError,
): Promise<SessionInfo> {
  try {
    const session = await dispatch("readSession", { session_id });
    if (session.state !== "archived") return session;
  } catch (thrown) {
    if (!hasCode(thrown, "SESSION_NOT_FOUND")) throw thrown;
  }
  throw missing;
}

/** A session's messages up to a seq, the system message among them. */
export async function messagesUpTo(
  { dispatch }: CallerRuntime,
  session_id: string,
  seq: number,
): Promise<readonly SeqMessage[]> {
  const { messages } = await dispatch("readHistory", { session_id });
  return messages.filter((message, index) => message.seq <= seq || (index === 0 && message.role === "system"));
}
