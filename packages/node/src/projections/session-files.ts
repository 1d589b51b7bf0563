import { basename, join } from "node:path";
import { invalid } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import { SessionId } from "@rkat/core/contract/session";
import type { SessionRow } from "@rkat/core/ports/store";
import { AT_REST_MS } from "../log/at-rest.ts";
import { type FileCalls, type OpenFile, refuseLinks } from "./file-calls.ts";

export interface ProjectionParts {
  /** The state folder; files are in `.rkat/sessions/<session id>/`. */
  readonly folder: string;
  /** Durable events after a seq, oldest first; fewer than `max` only at the log's end. */
  readonly readEvents: (sessionId: string, after: number, max: number) => Promise<readonly ProjectedEvent[]>;
  readonly row: (sessionId: string) => Promise<SessionRow | undefined>;
  readonly io: FileCalls;
  /** The current time; without it no session is at rest. */
  readonly now?: () => number;
}

/** Bounds memory for long logs. */
const PAGE_EVENTS_MAX = 256;
/** Pages between checkpoints, so that an interrupted long projection does not restart. */
const PAGES_A_CHECKPOINT = 16;

/**
 * Updates a session's files from its log. Their content is a function of the log up to the row's last seq, and a
 * checkpoint is written after the content it covers: an interrupted projection can continue and ends with the same
 * bytes.
 */
export async function projectSession(
  parts: ProjectionParts,
  sessionId: string,
  options: { readonly isReplay: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const { io } = parts;
  const paths = pathsOf(parts.folder, sessionId);
  const row = await parts.row(sessionId);
  if (row === undefined) return;
  await refuseLinks(io, parts.folder, paths.folder);
  const checkpoint = options.isReplay ? undefined : toSeq(await io.read(paths.checkpoint));
  /** Compressed files are unpacked by the next projection. */
  const packAtRest = async (): Promise<void> => {
    if ((parts.now?.() ?? 0) - row.updated_at_ms >= AT_REST_MS) await packEvents(io, paths);
  };
  if (checkpoint === row.last_seq) return packAtRest();
  if (checkpoint === undefined) await io.makeFolder(paths.folder);
  else await unpackEvents(io, paths);
  const file = await io.open(paths.events);
  // Without a text in the tail, the file still holds the last one.
  const writeText = async (text: string | undefined): Promise<void> => {
    if (text === "") await io.remove(paths.summary);
    else if (text !== undefined) await replace(io, paths.summary, text);
  };
  try {
    const isBehind = checkpoint !== undefined && checkpoint < row.last_seq;
    const seam = isBehind ? await soundSeam(parts, file, { sessionId, checkpoint }) : undefined;
    if (seam === undefined) await forget(io, file, paths);
    const reached = async (seq: number, text: string | undefined): Promise<void> => {
      await writeText(text);
      await replace(io, paths.checkpoint, String(seq));
    };
    const tail = { row, seam: seam ?? FILE_START, signal: options.signal, reached };
    await writeText(await writeEvents(parts, file, tail));
  } finally {
    await file.close();
  }
  await replace(io, paths.session, `${JSON.stringify(toView(row), undefined, 2)}\n`);
  await replace(io, paths.checkpoint, String(row.last_seq));
  await packAtRest();
}

/** If this is interrupted both files are there: then the one that is not compressed is valid. */
async function packEvents(io: FileCalls, { events, packed }: Paths): Promise<void> {
  if (!(await io.convert("gzip", events, `${packed}.tmp`))) return;
  await io.rename(`${packed}.tmp`, packed);
  await io.remove(events);
}

async function unpackEvents(io: FileCalls, { folder, events, packed }: Paths): Promise<void> {
  const isThere = (await io.list(folder)).includes(basename(events));
  if (!isThere && (await io.convert("gunzip", packed, `${events}.tmp`))) await io.rename(`${events}.tmp`, events);
  await io.remove(packed);
}

type Paths = ReturnType<typeof pathsOf>;

function pathsOf(stateFolder: string, sessionId: string) {
  if (!SessionId.safeParse(sessionId).success) {
    throw invalid(`session_id: expected a session id (a UUID), got ${sessionId}`);
  }
  const folder = join(stateFolder, ".rkat", "sessions", sessionId);
  return {
    folder,
    events: join(folder, "events.jsonl"),
    packed: join(folder, "events.jsonl.gz"),
    summary: join(folder, "summary.txt"),
    session: join(folder, "session.json"),
    checkpoint: join(folder, "checkpoint"),
  };
}

/** Undefined if it is absent or no seq: then the files are rebuilt. */
function toSeq(text: string | undefined): number | undefined {
  const seq = text !== undefined && /^\d{1,16}\n?$/.test(text) ? Number(text) : undefined;
  return Number.isSafeInteger(seq) ? seq : undefined;
}

/** Undefined if the last line up to the checkpoint differs from the log: then no line is reliable. */
async function soundSeam(
  parts: ProjectionParts,
  file: OpenFile,
  at: { readonly sessionId: string; readonly checkpoint: number },
): Promise<Seam | undefined> {
  const seam = await findSeam(file, at.checkpoint);
  if (seam.seq === 0) return seam;
  const [logged] = await parts.readEvents(at.sessionId, seam.seq - 1, 1);
  return (await isSound(file, seam, logged)) ? seam : undefined;
}

/** The checkpoint goes first: if this is interrupted, its absence marks the rest as unreliable. */
async function forget(io: FileCalls, file: OpenFile, paths: Paths): Promise<void> {
  const { checkpoint, events, packed, summary, session } = paths;
  await io.remove(checkpoint);
  await file.truncate(0);
  for (const path of [`${events}.tmp`, `${packed}.tmp`, packed, summary, session]) await io.remove(path);
}

/** The last text after an event, empty if a rewrite left none; undefined if unchanged. */
function textAfter(event: ProjectedEvent["event"]): string | undefined {
  if (event.type === "transcript_rewrite_committed") return event.record.revision_body.last_assistant_text ?? "";
  return event.type === "text_complete" && event.content !== "" ? event.content : undefined;
}

/**
 * Writes the lines after the seam and truncates the rest; returns the last text. Lines are written at their positions,
 * so two processes that project one session write the same bytes.
 */
async function writeEvents(parts: ProjectionParts, file: OpenFile, tail: EventTail): Promise<string | undefined> {
  const { session_id, last_seq } = tail.row;
  let { seq: after, end } = tail.seam;
  let text: string | undefined;
  let isMore = true;
  const cut = async (): Promise<void> => {
    if ((await file.size()) > end) await file.truncate(end);
  };
  for (let pages = 0; isMore && after < last_seq; pages += 1) {
    if (pages > 0 && (tail.signal.aborted || pages % PAGES_A_CHECKPOINT === 0)) {
      await cut();
      await tail.reached(after, text);
      text = undefined;
    }
    tail.signal.throwIfAborted();
    const page = await parts.readEvents(session_id, after, PAGE_EVENTS_MAX);
    // Events since the row was read belong to the next projection.
    const events = page.filter(({ seq }) => seq <= last_seq);
    for (const { event } of events) text = textAfter(event) ?? text;
    end = await writeLines(file, events.map(toLine).join(""), end);
    after = page.at(-1)?.seq ?? after;
    isMore = page.length === PAGE_EVENTS_MAX;
  }
  await cut();
  return text;
}

interface EventTail {
  readonly row: SessionRow;
  readonly seam: Seam;
  readonly signal: AbortSignal;
  /** Called when everything up to a seq is written, with the last text since the previous call. */
  reached(seq: number, text: string | undefined): Promise<void>;
}

/** Replaces atomically, without a sync: the file is derived and the log remains. */
async function replace(io: FileCalls, path: string, text: string): Promise<void> {
  await io.write(`${path}.tmp`, text);
  await io.rename(`${path}.tmp`, path);
}

function toView(row: SessionRow) {
  const { session_id, model, provider, labels, message_count, total_tokens } = row;
  return {
    session_id,
    created_at: new Date(row.created_at_ms).toISOString(),
    updated_at: new Date(row.updated_at_ms).toISOString(),
    model,
    provider,
    labels,
    message_count,
    total_tokens,
    has_open_turn: row.has_open_turn,
    archived: row.archived,
    last_seq: row.last_seq,
  };
}

export interface ProjectedEvent {
  readonly seq: number;
  readonly timestamp_ms: number;
  readonly event: AgentEvent;
}

/** The byte range of the line that new lines follow; seq 0 is the start of the file. */
interface Seam {
  readonly seq: number;
  readonly start: number;
  readonly end: number;
}

const FILE_START: Seam = { seq: 0, start: 0, end: 0 };

const SCHEMA_VERSION = 1;

/** Deterministic: incremental and rebuilt files must be equal. */
function toLine({ seq, timestamp_ms, event }: ProjectedEvent): string {
  const timestamp = {
    secs_since_epoch: Math.floor(timestamp_ms / 1_000),
    nanos_since_epoch: (timestamp_ms % 1_000) * 1_000_000,
  };
  return `${JSON.stringify({ seq, schema_version: SCHEMA_VERSION, timestamp, event })}\n`;
}

/** The last complete line with a seq up to `seqMax`; anything after it may be left by a crash. */
async function findSeam(file: OpenFile, seqMax: number): Promise<Seam> {
  let end: number | undefined;
  for await (const newline of newlinesBackwards(file)) {
    const start = newline + 1;
    const seq = end === undefined ? undefined : await seqAt(file, start);
    if (end !== undefined && seq !== undefined && seq <= seqMax) return { seq, start, end };
    end = start;
  }
  return FILE_START;
}

/** Whether the bytes of a seam match the log's event. */
async function isSound(file: OpenFile, seam: Seam, logged: ProjectedEvent | undefined): Promise<boolean> {
  if (logged === undefined) return false;
  const line = Buffer.from(toLine(logged));
  if (line.length !== seam.end - seam.start) return false;
  const found = Buffer.alloc(line.length);
  return (await file.read(found, seam.start)) === line.length && found.equals(line);
}

/** Writes lines at a position; returns their end. */
async function writeLines(file: OpenFile, lines: string, position: number): Promise<number> {
  const bytes = Buffer.from(lines);
  for (let written = 0; written < bytes.length; ) {
    written += await file.write(bytes.subarray(written), position + written);
  }
  return position + bytes.length;
}

const CHUNK_BYTES = 64 * 1_024;
const NEWLINE = 0x0a;

/** Positions of newlines, last first, then -1 for the start of the file. */
async function* newlinesBackwards(file: OpenFile): AsyncGenerator<number> {
  const buffer = Buffer.alloc(CHUNK_BYTES);
  for (let end = await file.size(); end > 0; end -= CHUNK_BYTES) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const chunk = buffer.subarray(0, end - start);
    const read = await file.read(chunk, start);
    for (let at = chunk.lastIndexOf(NEWLINE, read - 1); at >= 0; ) {
      yield start + at;
      at = at === 0 ? -1 : chunk.lastIndexOf(NEWLINE, at - 1);
    }
  }
  yield -1;
}

const LINE_HEAD = /^\{"seq":([1-9]\d{0,15}),/;
const LINE_HEAD_BYTES = 32;

async function seqAt(file: OpenFile, position: number): Promise<number | undefined> {
  const head = Buffer.alloc(LINE_HEAD_BYTES);
  const read = await file.read(head, position);
  const digits = LINE_HEAD.exec(head.toString("latin1", 0, read))?.[1];
  return digits === undefined ? undefined : Number(digits);
}
