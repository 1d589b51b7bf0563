import { createHash } from "node:crypto";
import { RuntimeError } from "../contract/error.ts";
import { invalidInput } from "../contract/input.ts";
import type { OperationOutput } from "../contract/operations.ts";
import { PortableBlob, PortableEnd, PortableEntry, PortableHeader, portableHeader } from "../contract/portable.ts";
import type { Clock } from "../ports/clock.ts";
import type { Dispatch } from "./dispatch.ts";
import { createLogCheck, entryLine, readEntry, readJson, refused } from "./portable-log.ts";

interface Reading {
  readonly dispatch: Dispatch;
  readonly session_id: string;
  readonly signal: AbortSignal;
}

const ENTRIES_A_PAGE = 200;

/**
 * A session as the lines of a file: what it is, every entry of its log with the blobs it names in front of it, and at the
 * end a hash of all that. What is said while it is read is not in it.
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

/** A log from its beginning to where it ended when it was first asked for. */
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

/** Undefined for what is kept no longer, and for an id that somebody only wrote. */
async function blobOf({ dispatch, session_id: blob_id, signal }: Reading): Promise<PortableBlob | undefined> {
  try {
    const { media_type, data } = await dispatch("readBlob", { blob_id }, { signal });
    return { blob_id, media_type, data };
  } catch (thrown) {
    if (thrown instanceof RuntimeError && thrown.code === "INVALID_PARAMS") return undefined;
    throw thrown;
  }
}

/** A longer line is nothing that was exported: stores refuse larger entries, and blobs are what a request can bring. */
const LINE_BYTES_MAX = 96 * 1_024 * 1_024;

interface Line {
  readonly bytes: Buffer;
  readonly place: string;
}

/** The lines of a file by their bytes, with the sign that ends each but perhaps the last. */
async function* linesIn(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Line> {
  let number = 1;
  let rest: Buffer[] = [];
  let held = 0;
  const taken = (): Line => {
    const line = { bytes: Buffer.concat(rest), place: `${name}: line ${number}` };
    [rest, held] = [[], 0];
    number += 1;
    return line;
  };
  for await (const chunk of chunks) {
    let bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let at = bytes.indexOf(LINE_END); at >= 0; at = bytes.indexOf(LINE_END)) {
      rest.push(bytes.subarray(0, at + 1));
      yield taken();
      bytes = bytes.subarray(at + 1);
    }
    if (bytes.length > 0) rest.push(bytes);
    held += bytes.length;
    if (held > LINE_BYTES_MAX) throw refused(`${name}: line ${number}`, "it is too long for a line of a session");
  }
  if (rest.length > 0) yield taken();
}

const LINE_END = 0x0a;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The text of a line without its end; throws INVALID_PARAMS for what is no text. */
function textOfLine({ bytes, place }: Line): string {
  try {
    return utf8.decode(bytes.at(-1) === LINE_END ? bytes.subarray(0, -1) : bytes);
  } catch {
    throw refused(place, "it is not UTF-8 text");
  }
}

/** What a line of a session's file says, and where it stands. */
type Said =
  | { readonly kind: "header"; readonly header: PortableHeader; readonly place: string }
  | { readonly kind: "blob"; readonly blob: PortableBlob; readonly place: string }
  | { readonly kind: "entry"; readonly entry: unknown; readonly place: string }
  | { readonly kind: "end"; readonly end: PortableEnd; readonly place: string };

/** What a file says, line by line; it ends with `end`, or throws INVALID_PARAMS for one that is cut off or changed. */
async function* readSessionFile(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Said> {
  const digest = createHash("sha256");
  let counts = { entries: 0, blobs: 0 };
  let hasHeader = false;
  let isOver = false;
  for await (const line of linesIn(chunks, name)) {
    const { place, bytes } = line;
    if (isOver) throw refused(place, "something stands after the end of the session; export it again");
    const value = readJson(textOfLine(line), place);
    if (!hasHeader) {
      hasHeader = true;
      yield { kind: "header", header: parsed(PortableHeader.safeParse(value), place), place };
    } else if ("end" in value) {
      const end = parsed(PortableEnd.safeParse(value), place);
      if (end.entries !== counts.entries || end.blobs !== counts.blobs || end.sha256 !== digest.digest("hex")) {
        throw refused(place, "sha256: the file is not what was exported; export the session again");
      }
      isOver = true;
      yield { kind: "end", end, place };
      continue;
    } else if ("blob_id" in value) {
      counts = { ...counts, blobs: counts.blobs + 1 };
      yield { kind: "blob", blob: parsed(PortableBlob.safeParse(value), place), place };
    } else {
      counts = { ...counts, entries: counts.entries + 1 };
      yield { kind: "entry", entry: value, place };
    }
    digest.update(bytes);
  }
  if (!isOver) throw refused(name, "the file is cut off: its last line is missing; export the session again");
}

type Read<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly error: Parameters<typeof invalidInput>[0] };

function parsed<T>(read: Read<T>, place: string): T {
  if (read.success) return read.data;
  throw refused(place, invalidInput(read.error).message);
}

/** What a session's file was found to hold, from its first line to its last. */
interface CheckedFile {
  readonly session_id: string;
  readonly last_seq: number;
  readonly entries: number;
  readonly blobs: number;
  /** Of its entries. */
  readonly sha256: string;
}

/** Reads a file to its end and throws INVALID_PARAMS, naming line and field, unless it holds one session, whole. */
async function checkSessionFile(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  { breathe }: Pick<Clock, "breathe">,
): Promise<CheckedFile> {
  let header: PortableHeader | undefined;
  let check: ReturnType<typeof createLogCheck> | undefined;
  let seq = 1;
  for await (const said of readSessionFile(chunks, name)) {
    const { place } = said;
    await breathe();
    if (said.kind === "header") {
      header = said.header;
      check = createLogCheck(header.session_id);
    } else if (said.kind === "entry") {
      const entry = readEntry(said.entry, { place, seq });
      check?.add(entry, place);
      seq += entry.span;
    } else if (said.kind === "end" && header !== undefined && check !== undefined) {
      const { session_id, last_seq } = header;
      if (seq - 1 !== last_seq) throw refused(place, `the log ends at ${seq - 1}, and its first line says ${last_seq}`);
      const { entries, blobs } = said.end;
      return { session_id, last_seq, entries, blobs, sha256: check.end(place) };
    }
  }
  throw refused(name, "the file is empty");
}

const PAGE_CHARS_MAX = 4 * 1_024 * 1_024;
/** As many as one call takes. */
const PAGE_ENTRIES_MAX = 500;
const PAGE_BLOBS_MAX = 50;

/** What one call brings in. */
interface ImportPage {
  readonly after: number;
  readonly entries: readonly PortableEntry[];
  readonly blobs: readonly PortableBlob[];
}

/** A file that was checked, as the calls that bring it in. */
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

interface Bringing {
  readonly dispatch: Dispatch;
  readonly name: string;
  readonly signal: AbortSignal;
  readonly clock: Pick<Clock, "breathe">;
  /** The file from its beginning, as often as it is asked for. */
  open(): AsyncIterable<Uint8Array>;
  progress(entries: number, total: number): void;
}

/** What became of a file. */
export interface BroughtIn extends CheckedFile {
  /** The id that the session has here. */
  readonly id: string;
}

/** Brings a session in from a file: checked to its end before anything is kept, under another id where its own is taken. */
export async function bringIn(bringing: Bringing): Promise<BroughtIn> {
  const { dispatch, name, signal, clock } = bringing;
  const checked = await checkSessionFile(bringing.open(), name, clock);
  const beside = await isTaken(bringing, checked);
  const { session_id: source_session_id, last_seq, sha256 } = checked;
  let into: string | undefined;
  let done = 0;
  for await (const page of importPages(bringing.open(), name)) {
    const where = into === undefined ? { beside } : { into };
    const input = { source_session_id, last_seq, sha256, ...where, ...page };
    into = (await dispatch("importSession", input, { signal })).session_id;
    done += page.entries.length;
    bringing.progress(done, checked.entries);
  }
  if (into === undefined) throw refused(name, "the file changed while it was read; import it again");
  return { ...checked, id: into };
}

/** Whether the session of this id is another, or has all of this already: where it is the beginning of it, it is gone on with. */
async function isTaken({ dispatch, signal, open, name }: Bringing, checked: CheckedFile): Promise<boolean> {
  const { session_id } = checked;
  const kept = logPages({ dispatch, session_id, signal });
  const first = await kept.next().catch((thrown: unknown) => {
    if (thrown instanceof RuntimeError && thrown.code === "SESSION_NOT_FOUND") return undefined;
    throw thrown;
  });
  if (first === undefined || first.done === true) return false;
  if (first.value.last_seq >= checked.last_seq) return true;
  const there = entriesOf(first.value, kept);
  for await (const said of readSessionFile(open(), name)) {
    if (said.kind !== "entry") continue;
    const next = await there.next();
    if (next.done === true) return false;
    const given = parsed(PortableEntry.safeParse(said.entry), said.place);
    if (entryLine(next.value) !== entryLine(given)) return true;
  }
  return false;
}

async function* entriesOf(
  first: OperationOutput<"exportSession">,
  rest: AsyncIterable<OperationOutput<"exportSession">>,
): AsyncGenerator<PortableEntry> {
  yield* first.entries;
  for await (const page of rest) yield* page.entries;
}
