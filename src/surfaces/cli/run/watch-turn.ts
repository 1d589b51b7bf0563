import { asRuntimeError, RuntimeError } from "../../../contract/error.ts";
import type { AgentEvent } from "../../../contract/event.ts";
import type { RunResult } from "../../../contract/session.ts";
import type { EventStream } from "../../../service/session-handle.ts";
import type { TurnView } from "./turn-view.ts";

/** A turn to be shown. */
export interface Watch {
  readonly stream: EventStream;
  readonly view: TurnView;
  /** Adds to the result what the runtime does not know of it. */
  complete(result: RunResult): RunResult;
  /** Hears every event besides the view. */
  hear?(event: AgentEvent): void;
}

/** Shows a turn to its end; a failure carries what was said before it. */
export async function watchTurn({ stream, view, complete, hear }: Watch): Promise<RunResult> {
  // What the newest model call has said; a retry begins anew.
  let said = "";
  try {
    for await (const event of stream) {
      if (event.type === "turn_started" || event.type === "retrying") said = "";
      if (event.type === "text_delta") said += event.delta;
      hear?.(event);
      view.show(event);
    }
    const result = complete(await stream.result);
    view.end(result);
    return result;
  } catch (thrown) {
    view.breakOff(said);
    throw withPartialText(asRuntimeError(thrown), said);
  }
}

/** The error with what was said before it, for whoever reads it as JSON. */
function withPartialText(error: RuntimeError, said: string): RuntimeError {
  if (said === "") return error;
  const details = { ...(error.details ?? {}), partial_text: said };
  return new RuntimeError(error.code, error.message, { cause: error, details });
}
