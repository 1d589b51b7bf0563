import type { AgentEvent } from "../../contract/event.ts";
import { createEventQueue, type Delivery, type Listener } from "../../service/event-queue.ts";
import { toEnvelope } from "../wire/events.ts";

/** What a client is told while its turn runs. */
type Notice =
  | {
      readonly method: "notifications/progress";
      readonly params: {
        readonly progressToken: string | number;
        readonly progress: number;
        readonly message: string;
      };
    }
  | {
      readonly method: "notifications/message";
      readonly params: { readonly level: "info"; readonly data: unknown };
    };

export interface NoticeParts {
  /** Resolves when the client has room for more; rejects when it has gone. */
  readonly send: (notice: Notice) => Promise<void>;
  readonly newId: () => string;
  /** The token of a client that wants to hear of progress. */
  readonly progressToken: string | number | undefined;
  /** Whether every event is wanted, too. */
  readonly wantsEvents: () => boolean;
}

/** The way of a turn's events to the client that asked for it. */
export interface TurnNotices {
  readonly listener: Listener;
  /** Resolves when everything that was heard has been sent. It does not reject. */
  finish(): Promise<void>;
}

/** Tells of a turn: a step of progress for each call of the model or a tool, and every event when that is wanted. */
export function createTurnNotices(parts: NoticeParts, knownSessionId: string | undefined): TurnNotices {
  const queue = createEventQueue();
  // A client that has gone needs no notices; its turn ends by the signal of its request.
  const sending = send().catch(() => {});

  async function send(): Promise<void> {
    let sessionId = knownSessionId;
    let progress = 0;
    for await (const delivery of queue) {
      sessionId ??= "session_id" in delivery.event ? delivery.event.session_id : undefined;
      const message = stepOf(delivery.event);
      if (message !== undefined && parts.progressToken !== undefined) {
        progress += 1;
        const params = { progressToken: parts.progressToken, progress, message };
        await parts.send({ method: "notifications/progress", params });
      }
      // A new session is first heard of by `run_started`, which names it.
      if (sessionId !== undefined && parts.wantsEvents()) await parts.send(eventNotice(sessionId, delivery));
    }
  }
  const eventNotice = (session_id: string, delivery: Delivery): Notice => {
    const data = { source: "meerkat", session_id, event: toEnvelope(session_id, delivery, parts.newId) };
    return { method: "notifications/message", params: { level: "info", data } };
  };
  return {
    listener: queue.listener,
    finish: () => {
      queue.end();
      return sending;
    },
  };
}

function stepOf(event: AgentEvent): string | undefined {
  if (event.type === "turn_started") return `model call ${event.turn_number + 1}`;
  if (event.type === "tool_execution_started") return `tool ${event.name}`;
  if (event.type === "compaction_started") return "compaction";
  return undefined;
}
