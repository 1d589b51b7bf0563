import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Clock } from "../../ports/clock.ts";
import { createEventQueue, type Listener } from "../../service/event-queue.ts";
import { type Answer, errorAnswer } from "../wire/http-answer.ts";
import { sessionIdIn } from "../wire/session-refs.ts";
import { createEventWriter, writeDelivery } from "./event-writer.ts";

interface TurnStream {
  readonly response: ServerResponse;
  readonly clock: Clock;
  /** Undefined for a session that is not there yet: its first event names it. */
  readonly sessionId: string | undefined;
}

type Work = (listener: Listener) => Answer | Promise<Answer>;

/** Whether a client wants to hear a turn rather than only how it ended. */
export function wantsEvents({ accept = "" }: IncomingHttpHeaders): boolean {
  return accept.split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === "text/event-stream" && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}

/**
 * Answers with the events of what `work` runs as they happen, and its answer as the last: `result`, or `error`. What
 * is refused before it begins has no events and is answered as it always is.
 */
export async function streamTurn({ response, clock, sessionId }: TurnStream, work: Work): Promise<Answer | undefined> {
  const queue = createEventQueue();
  const answered = answerOf(work, queue.listener).finally(queue.end);
  const deliveries = queue[Symbol.asyncIterator]();
  const first = await deliveries.next();
  if (first.done === true) {
    const answer = await answered;
    if (answer.status !== OK) return answer;
  }
  // A client that leaves is not waited for, and its turn goes on.
  const writer = createEventWriter({ response, clock, giveUp: () => {} });
  let session_id = sessionId;
  for (let next = first; next.done !== true; next = await deliveries.next()) {
    session_id ??= sessionIdIn(next.value.event);
    await writeDelivery(writer, next.value, { session_id: session_id ?? "", newId: clock.newId });
  }
  const { status, text } = await answered;
  writer.end({ type: status === OK ? "result" : "error", data: JSON.parse(text) });
  return undefined;
}

const OK = 200;

async function answerOf(work: Work, listener: Listener): Promise<Answer> {
  try {
    return await work(listener);
  } catch (thrown) {
    return errorAnswer(thrown);
  }
}
