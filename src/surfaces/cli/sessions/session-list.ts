import type { SessionSummary } from "../../../contract/session.ts";
import type { Io } from "../io.ts";
import { createPaint, type Paint } from "../paint.ts";
import { alignColumns, grouped, oneLine } from "../plain-text.ts";
import { ageOf } from "./age.ts";
import { shortId } from "./selector.ts";

const COLUMNS_DEFAULT = 120;
const TITLE_CHARS_MIN = 20;

/** Prints sessions, a line each, newest first. */
export function printSessions(io: Io, sessions: readonly SessionSummary[]): void {
  if (sessions.length === 0) {
    io.stdout.write("No sessions found.\n");
    return;
  }
  const now = Date.now();
  const rows = [["ID", "CHANGED", "MESSAGES", "TOKENS", "STATE", "MODEL", "BEGINS WITH"]];
  for (const session of sessions) {
    rows.push([
      shortId(session.session_id),
      ageOf(session.updated_at, now),
      grouped(session.message_count).padStart("MESSAGES".length),
      grouped(session.total_tokens).padStart("TOKENS".length),
      session.state,
      session.model,
      session.title,
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

/** The last column takes what the others leave of the line. */
function fitting(rows: readonly (readonly string[])[], columns: number): readonly (readonly string[])[] {
  const others = Math.max(
    ...alignColumns(rows.map((row) => [...row.slice(0, -1), "|"])).map((line) => line.length - 1),
  );
  const room = Math.max(TITLE_CHARS_MIN, columns - others - 1);
  return rows.map((row) => [...row.slice(0, -1), oneLine(row.at(-1) ?? "", room)]);
}
