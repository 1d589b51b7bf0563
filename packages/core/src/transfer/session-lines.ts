import { createHash } from "node:crypto";
import { hasCode, type RuntimeError } from "../contract/error.ts";
import { invalidInput } from "../contract/input.ts";
import type { OperationOutput } from "../contract/operations.ts";
import { PortableBlob, PortableEnd, PortableEntry, PortableHeader, portableHeader } from "../contract/portable.ts";
import type { Clock } from "../ports/clock.ts";
import type { Dispatch } from "../runtime/dispatch.ts";
import { createLogCheck, entryLine, readEntry, readJson, refused } from "./portable-log.ts";

interface Reading {
  readonly dispatch: Dispatch;
  readonly session_id: string;
  readonly signal: AbortSignal;
}

const ENTRIES_A_PAGE = 200;

/**
 * A session as lines of a file: a header, every log entry after the blobs it names, and a hash of all lines. Entries
 * appended meanwhile are not included.
 */
export async function* sessionLines({ dispatch, session_id, signal }: Reading): AsyncGenerator<string> {
  const digest = createHash("sha256");
  const hashed = (line: string): string => {
    digest.update(line);
    return line;
  };
  const known = new Set<string>();
  let lastSeq: number | undefined;
  let entries = 0;
  let blobs = 0;
  for await (const page of logPages({ dispatch, session_id, signal })) {
    if (lastSeq === undefined) {
      lastSeq = page.last_seq;
      yield hashed(`${JSON.stringify(portableHeader(session_id, lastSeq))}\n`);
    }
    for (const id of page.blob_ids) {
      if (known.has(id)) continue;
      known.add(id);
      const blob = await blobOf({ dispatch, session_id: id, signal });
      if (blob === undefined) continue;
      blobs += 1;
      yield hashed(`${JSON.stringify(blob)}\n`);
    }
    for (const entry of page.entries) {
      if (entry.seq > lastSeq) break;
      entries += 1;
      yield hashed(entryLine(entry));
    }
  }
  const end: PortableEnd = { end: true, entries, blobs, sha256: digest.digest("hex") };
  yield `${JSON.stringify(end)}\n`;
}

/** A log up to its end at the time of the first read. */
export async function* logPages({
  dispatch,
  session_id,
  signal,
}: Reading): AsyncGenerator<OperationOutput<"exportSession">> {
  let after = 0;
  let lastSeq = Number.POSITIVE_INFINITY;
  while (after < lastSeq) {
    const page = await dispatch("exportSession", { session_id, after, limit: ENTRIES_A_PAGE }, { signal });
    lastSeq = Math.min(lastSeq, page.last_seq);
    yield page;
    if (page.next_after === undefined) return;
    after = page.next_after;
  }
}

/** Undefined for a deleted blob, and for an id that only occurs in text. */
async function blobOf({ dispatch, session_id: blob_id, signal }: Reading): Promise<PortableBlob | undefined> {
  try {
    const { media_type, data } = await dispatch("readBlob", { blob_id }, { signal });
    return { blob_id, media_type, data };
  } catch (thrown) {
    if (hasCode(thrown, "INVALID_PARAMS")) return undefined;
    throw thrown;
  }
}

export async function* agentPages({
  dispatch,
  agent,
  signal,
}: Omit<Reading, "session_id"> & { readonly agent: string }): AsyncGenerator<OperationOutput<"exportAgent">> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const page: OperationOutput<"exportAgent"> = await dispatch("exportAgent", { agent, after }, { signal });
    yield page;
    after = page.next_after;
  }
}

/** The longest exported line: stores reject larger entries, and requests larger blobs. */
const LINE_CHARS_MAX = 96 * 1_024 * 1_024;

/** The numbered lines of a file; throws INVALID_PARAMS if it is no text. */
async function* linesIn(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<{ readonly text: string; readonly place: string }> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let [number, parts, chars]: [number, string[], number] = [1, [], 0];
  const line = () => ({ text: parts.join(""), place: `${name}: line ${number}` });
  const decoded = (chunk?: Uint8Array): string => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw refused(line().place, "it is not UTF-8 text");
    }
  };
  for await (const chunk of chunks) {
    for (const [at, part] of decoded(chunk).split("\n").entries()) {
      if (at > 0) {
        yield line();
        [number, parts, chars] = [number + 1, [], 0];
      }
      parts.push(part);
      chars += part.length;
      if (chars > LINE_CHARS_MAX) throw refused(line().place, "it is too long for a line of a session");
    }
  }
  decoded();
  if (chars > 0) yield line();
}

/** A parsed line of a session file with its line number. */
type Said =
  | { readonly kind: "header"; readonly header: PortableHeader; readonly place: string }
  | { readonly kind: "blob"; readonly blob: PortableBlob; readonly place: string }
  | { readonly kind: "entry"; readonly entry: unknown; readonly place: string }
  | { readonly kind: "end"; readonly end: PortableEnd; readonly place: string };

/** The parsed lines of a file up to `end`; throws INVALID_PARAMS if it is truncated or changed. */
async function* readSessionFile(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Said, undefined> {
  const digest = createHash("sha256");
  const counts = { entries: 0, blobs: 0 };
  let last: Said["kind"] | undefined;
  for await (const { text, place } of linesIn(chunks, name)) {
    if (last === "end") throw refused(place, "something stands after the end of the session; export it again");
    const said = saidBy(readJson(text, place), place, last === undefined);
    if (said.kind === "entry") counts.entries += 1;
    if (said.kind === "blob") counts.blobs += 1;
    if (said.kind === "end") {
      const { entries, blobs, sha256 } = said.end;
      if (entries !== counts.entries || blobs !== counts.blobs || sha256 !== digest.digest("hex"))
        throw refused(place, "sha256: the file is not what was exported; export the session again");
    } else digest.update(`${text}\n`);
    last = said.kind;
    yield said;
  }
  if (last !== "end") throw cutOff(name);
}

function cutOff(name: string): RuntimeError {
  return refused(name, "the file is cut off: its last line is missing; export the session again");
}

function saidBy(value: Readonly<Record<string, unknown>>, place: string, isFirst: boolean): Said {
  if (isFirst) return { kind: "header", header: parsed(PortableHeader.safeParse(value), place), place };
  if ("end" in value) return { kind: "end", end: parsed(PortableEnd.safeParse(value), place), place };
  if ("blob_id" in value) return { kind: "blob", blob: parsed(PortableBlob.safeParse(value), place), place };
  return { kind: "entry", entry: value, place };
}

type Read<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly error: Parameters<typeof invalidInput>[0] };

function parsed<T>(read: Read<T>, place: string): T {
  if (read.success) return read.data;
  throw refused(place, invalidInput(read.error).message);
}

interface CheckedFile {
  readonly session_id: string;
  readonly last_seq: number;
  readonly entries: number;
  readonly blobs: number;
  readonly sha256: string;
  /** Whether the id belongs to another session here, or to one that has all entries already; a prefix is continued. */
  readonly isTaken: boolean;
}

/** Reads a whole file; throws INVALID_PARAMS with line and field unless it holds one complete session. */
async function checkFile({ open, name, clock, dispatch, signal }: Importing): Promise<CheckedFile> {
  const lines = readSessionFile(open(), name);
  const first = (await lines.next()).value;
  if (first?.kind !== "header") throw cutOff(name);
  const { session_id, last_seq } = first.header;
  const check = createLogCheck(session_id);
  const kept = keptEntries({ dispatch, session_id, signal });
  let [seq, hasAll, isOther] = [1, true, false];
  for await (const said of lines) {
    const { place } = said;
    await clock.yieldToEventLoop();
    if (said.kind === "entry") {
      const entry = readEntry(said.entry, { place, seq });
      check.add(entry, place);
      seq += entry.span;
      const there = isOther ? undefined : (await kept.next()).value;
      isOther ||= there !== undefined && entryLine(there) !== entryLine(entry);
      hasAll &&= there !== undefined;
    } else if (said.kind === "end") {
      if (seq - 1 !== last_seq) throw refused(place, `the log ends at ${seq - 1}, and its first line says ${last_seq}`);
      const { entries, blobs } = said.end;
      return { session_id, last_seq, entries, blobs, sha256: check.end(place), isTaken: isOther || hasAll };
    }
  }
  throw cutOff(name);
}

/** The entries of a local session; none if there is no such session. */
async function* keptEntries(reading: Reading): AsyncGenerator<PortableEntry, undefined> {
  try {
    for await (const page of logPages(reading)) yield* page.entries;
  } catch (thrown) {
    if (!hasCode(thrown, "SESSION_NOT_FOUND")) throw thrown;
  }
}

const PAGE_CHARS_MAX = 4 * 1_024 * 1_024;
const PAGE_ENTRIES_MAX = 500;
const PAGE_BLOBS_MAX = 50;

interface ImportPage {
  readonly after: number;
  readonly entries: readonly PortableEntry[];
  readonly blobs: readonly PortableBlob[];
}

/** The import calls of a checked file. */
async function* importPages(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<ImportPage> {
  let after = 0;
  let [entries, blobs, chars]: [PortableEntry[], PortableBlob[], number] = [[], [], 0];
  for await (const said of readSessionFile(chunks, name)) {
    if (said.kind === "blob") {
      blobs.push(said.blob);
      chars += said.blob.data.length;
    } else if (said.kind === "entry") {
      const entry = parsed(PortableEntry.safeParse(said.entry), said.place);
      entries.push(entry);
      chars += JSON.stringify(entry.body).length;
      const isFull = chars > PAGE_CHARS_MAX || entries.length >= PAGE_ENTRIES_MAX || blobs.length >= PAGE_BLOBS_MAX;
      if (!isFull) continue;
      yield { after, entries, blobs };
      after = entry.seq + entry.span - 1;
      [entries, blobs, chars] = [[], [], 0];
    }
  }
  if (entries.length > 0) yield { after, entries, blobs };
}

interface Importing extends Pick<Reading, "dispatch" | "signal"> {
  readonly name: string;
  readonly clock: Pick<Clock, "yieldToEventLoop">;
  /** Opens the file at its beginning; called twice. */
  open(): AsyncIterable<Uint8Array>;
  progress(entries: number, total: number): void;
}

export interface ImportedFile extends CheckedFile {
  readonly id: string;
}

/** Imports a session from a file, which is checked completely first; another id is used if its own is taken. */
export async function importFile(importing: Importing): Promise<ImportedFile> {
  const { dispatch, name, signal } = importing;
  const checked = await checkFile(importing);
  const { session_id: source_session_id, last_seq, sha256, isTaken: beside } = checked;
  let into: string | undefined;
  let done = 0;
  for await (const page of importPages(importing.open(), name)) {
    const where = into === undefined ? { beside } : { into };
    const input = { source_session_id, last_seq, sha256, ...where, ...page };
    into = (await dispatch("importSession", input, { signal })).session_id;
    done += page.entries.length;
    importing.progress(done, checked.entries);
  }
  if (into === undefined) throw refused(name, "the file changed while it was read; import it again");
  return { ...checked, id: into };
}
