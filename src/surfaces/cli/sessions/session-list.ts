import type { Content } from "../../../contract/message.ts";
import type { SessionSummary } from "../../../contract/session.ts";
import type { Runtime } from "../../../runtime.ts";
import type { Io } from "../io.ts";
import { createPaint, type Paint } from "../paint.ts";
import { alignColumns, grouped, oneLine } from "../plain-text.ts";
import { ageOf } from "./age.ts";
import { shortId } from "./selector.ts";

const COLUMNS_DEFAULT = 120;
const TITLE_CHARS_MIN = 20;

/** Prints sessions, a line each, newest first. */
export async function printSessions(io: Io, runtime: Runtime, sessions: readonly SessionSummary[]): Promise<void> {
  if (sessions.length === 0) return io.stdout.write("No sessions found.\n");
  const now = Date.now();
  const rows = [["ID", "CHANGED", "MESSAGES", "TOKENS", "STATE", "MODEL", "BEGINS WITH"]];
  // One after another: a list may be long, and each row is read from disk.
  for (const session of sessions) {
    rows.push([
      shortId(session.session_id),
      ageOf(session.updated_at, now),
      grouped(session.message_count).padStart("MESSAGES".length),
      grouped(session.total_tokens).padStart("TOKENS".length),
      session.state,
      (await runtime.readSession(session.session_id)).model,
      await firstWords(runtime, session.session_id),
    ]);
  }
  const paint = createPaint(io.stdout, io.env);
  for (const [index, line] of alignColumns(fitting(rows, io.stdout.columns ?? COLUMNS_DEFAULT)).entries()) {
    io.stdout.write(`${paintRow(paint, line, sessions[index - 1]?.state)}\n`);
  }
}

function paintRow({ dim, yellow, green }: Paint, line: string, state: SessionSummary["state"] | undefined): string {
  if (state === undefined) return dim(line);
  if (state === "interrupted") return yellow(line);
  return state === "running" ? green(line) : line;
}

/** What a session was first asked; a fork that has not run was asked nothing yet. */
async function firstWords(runtime: Runtime, session_id: string): Promise<string> {
  const scope = { type: "session", session_id };
  const { events } = await runtime.dispatch("listEvents", { scope, limit: 1 });
  const first = events[0]?.payload;
  return first?.type === "run_started" ? textOf(first.prompt) : "";
}

function textOf(content: Content): string {
  if (typeof content === "string") return content;
  const text = content.find((block) => block.type === "text");
  return text?.type === "text" ? text.text : "";
}

/** The last column takes what the others leave of the line. */
function fitting(rows: readonly (readonly string[])[], columns: number): readonly (readonly string[])[] {
  const others = Math.max(
    ...alignColumns(rows.map((row) => [...row.slice(0, -1), "|"])).map((line) => line.length - 1),
  );
  const room = Math.max(TITLE_CHARS_MIN, columns - others - 1);
  return rows.map((row) => [...row.slice(0, -1), oneLine(row.at(-1) ?? "", room)]);
}
