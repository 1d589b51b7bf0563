import { setTimeout as sleep } from "node:timers/promises";
import type { AgentEvent } from "../../../contract/event.ts";
import type { EventPage } from "../../../contract/event-page.ts";
import type { Runtime } from "../../../runtime.ts";
import { type Io, jsonText } from "../io.ts";
import { createPaint } from "../paint.ts";
import { oneLine } from "../plain-text.ts";
import { toolName, verboseLineOf } from "../run/event-line.ts";

const TEXT_CHARS_MAX = 160;
/** Another process tells nobody when it appends, so a follower looks again this often. */
const LOOK_AGAIN_MS = 200;

interface EventsOptions {
  readonly after: number;
  readonly isFollowing: boolean;
  readonly isJson: boolean;
}

/** Prints a session's durable events, a line each; following, it goes on until it is interrupted. */
export async function printEvents(
  io: Io,
  runtime: Runtime,
  { session_id, after, isFollowing, isJson }: EventsOptions & { readonly session_id: string },
): Promise<void> {
  const scope = { type: "session" as const, session_id };
  const format = isJson ? (event: EventPage["events"][number]) => jsonText(event) : textLines(io);
  let sequence = after;
  while (!io.interrupt.aborted) {
    const page = await runtime.dispatch("listEvents", { scope, cursor: { scope, sequence } });
    for (const event of page.events) io.stdout.write(`${format(event)}\n`);
    sequence = page.events.at(-1)?.cursor.sequence ?? sequence;
    if (page.has_more) continue;
    if (!isFollowing) return;
    await sleep(LOOK_AGAIN_MS, undefined, { signal: io.interrupt }).catch(() => {}); // Interrupted: the loop ends.
  }
}

function textLines(io: Io): (event: EventPage["events"][number]) => string {
  const { dim } = createPaint(io.stdout, io.env);
  return ({ cursor, timestamp_ms, payload }) => {
    const time = new Date(timestamp_ms).toISOString().slice(11, 19);
    return `${dim(`${String(cursor.sequence).padStart(5)}  ${time}`)}  ${lineOf(payload)}`;
  };
}

/** As it is told while it happens, and what the deltas told then. */
function lineOf(event: AgentEvent): string {
  switch (event.type) {
    case "run_started":
      return `asked: ${oneLine(typeof event.prompt === "string" ? event.prompt : JSON.stringify(event.prompt), TEXT_CHARS_MAX)}`;
    case "text_complete":
      return `said: ${oneLine(event.content, TEXT_CHARS_MAX)}`;
    case "tool_result_received":
      return `the result of ${toolName(event)} was shown to the model`;
    default:
      return verboseLineOf(event) ?? event.type;
  }
}
