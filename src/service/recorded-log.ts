import { type Entry, EntryBody } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";

/** A longer line is no entry of a store of ours, which refuses larger ones. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;
const ENTRIES_MAX = 1_000_000;

/** A log as a file: one entry a line, in JSON. Reading it back gives the same. */
export function writeRecordedLog(entries: readonly Entry[]): string {
  return entries
    .map(({ seq, span, timestamp_ms, body }) => `${JSON.stringify({ seq, span, timestamp_ms, body })}\n`)
    .join("");
}

/** Reads a log from a file's text; throws INVALID_PARAMS, naming the file and the line, for what is no log. */
export function readRecordedLog(text: string, name: string): readonly Entry[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const refuse = (line: number, why: string): RuntimeError =>
    new RuntimeError("INVALID_PARAMS", `${name}: line ${line} ${why}; give a session's log, one entry a line`);
  if (lines.length === 0) throw refuse(1, "is missing: the file is empty");
  if (lines.length > ENTRIES_MAX) throw refuse(ENTRIES_MAX + 1, `is one too many: a log has at most ${ENTRIES_MAX}`);
  const entries: Entry[] = [];
  let seq = 1;
  for (const [index, line] of lines.entries()) {
    const number = index + 1;
    if (line.length > LINE_CHARS_MAX) throw refuse(number, "is too long for an entry");
    const entry = entryOf(line);
    if (entry === undefined) {
      throw refuse(number, number === lines.length ? "is cut off, or no entry of a log" : "is no entry of a log");
    }
    if (number === 1 && entry.body.kind !== "session_created") throw refuse(1, "does not create a session");
    if (entry.seq !== seq) throw refuse(number, `has seq ${entry.seq} where ${seq} follows`);
    seq += entry.span;
    entries.push(entry);
  }
  return entries;
}

function entryOf(line: string): Entry | undefined {
  const given = parsed(line);
  if (typeof given !== "object" || given === null || !("body" in given)) return undefined;
  // Every field of an object may be looked for; what is found is unknown.
  const { seq, span, timestamp_ms, body } = given as { readonly [K in keyof Entry]?: unknown };
  if (!isWhole(seq, 1) || !isWhole(span, 1) || !isWhole(timestamp_ms, 0)) return undefined;
  const read = EntryBody.safeParse(body);
  return read.success ? { seq, span, timestamp_ms, body: read.data } : undefined;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function isWhole(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= TIME_MS_MAX;
}

/** The last moment that has a date. */
const TIME_MS_MAX = 8_640_000_000_000_000;
