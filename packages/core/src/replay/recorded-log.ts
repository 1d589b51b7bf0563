import { type Entry, EntryBody } from "../contract/entry.ts";
import { invalid, type RuntimeError } from "../contract/error.ts";
import { PortableEntry } from "../contract/portable.ts";
import { entryLine } from "../transfer/portable-log.ts";

/** A longer line is no entry: stores reject larger ones. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;
const ENTRIES_MAX = 1_000_000;

/** A log as a file of entries, as in an exported session. Reading restores it exactly. */
export function writeRecordedLog(entries: readonly Entry[]): string {
  return entries.map(entryLine).join("");
}

/** Reads a log from a file's text; throws INVALID_PARAMS with the file and line. */
export function readRecordedLog(text: string, name: string): readonly Entry[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const refuse = (line: number, why: string): RuntimeError =>
    invalid(`${name}: line ${line} ${why}; give a session's log, one entry a line`);
  if (lines.length === 0) throw refuse(1, "is missing: the file is empty");
  if (lines.length > ENTRIES_MAX) throw refuse(ENTRIES_MAX + 1, `is one too many: a log has at most ${ENTRIES_MAX}`);
  const entries: Entry[] = [];
  let seq = 1;
  for (const [index, line] of lines.entries()) {
    const number = index + 1;
    if (line.length > LINE_CHARS_MAX) throw refuse(number, "is too long for an entry");
    const given = PortableEntry.safeParse(parsed(line)).data;
    const body = EntryBody.safeParse(given?.body).data;
    if (given === undefined || body === undefined) {
      throw refuse(number, number === lines.length ? "is cut off, or no entry of a log" : "is no entry of a log");
    }
    const entry = { ...given, body };
    if (number === 1 && entry.body.kind !== "session_created") throw refuse(1, "does not create a session");
    if (entry.seq !== seq) throw refuse(number, `has seq ${entry.seq} where ${seq} follows`);
    seq += entry.span;
    entries.push(entry);
  }
  return entries;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
