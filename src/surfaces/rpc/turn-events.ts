import type { AgentEvent } from "../../contract/event.ts";
import { createEventQueue, type Listener } from "../../service/event-queue.ts";
import { toEnvelope } from "../wire/events.ts";
import { turnEventFrame } from "../wire/frames.ts";
import type { RequestId } from "../wire/incoming.ts";
import type { Outbox } from "../wire/outbox.ts";

/** The way of a turn's events to the client that asked for it. */
export interface TurnEvents {
  readonly listener: Listener;
  /** Resolves when everything that was heard has been sent. */
  finish(): Promise<void>;
}

/**
 * Sends what a turn tells as `session/event`. A client that does not read loses live events and is told so; the
 * turn's durable events wait for it, and there are no more of those than the turn's limits allow.
 */
export function createTurnEvents(
  parts: { outbox: Outbox; newId: () => string },
  asked: { readonly requestId: RequestId; readonly sessionId: string | undefined },
): TurnEvents {
  const queue = createEventQueue();
  const sending = send();
  sending.catch(() => {}); // `finish` hands the failure on.

  async function send(): Promise<void> {
    let { sessionId } = asked;
    for await (const delivery of queue) {
      sessionId ??= sessionIdOf(delivery.event);
      // A new session is first heard of by `run_started`, which names it.
      if (sessionId === undefined) throw new Error(`no session is known for the event ${delivery.event.type}`);
      await parts.outbox.send(turnEventFrame(asked.requestId, toEnvelope(sessionId, delivery, parts.newId)));
    }
  }
  return {
    listener: queue.listener,
    finish: () => {
      queue.end();
      return sending;
    },
  };
}

function sessionIdOf(event: AgentEvent): string | undefined {
  return "session_id" in event ? event.session_id : undefined;
}
