import { join } from "node:path";
import { RuntimeError } from "../contract/error.ts";
import { SessionId } from "../contract/session.ts";
import type { SessionRow } from "../ports/store.ts";
import { FILE_START, findSeam, isSound, type ProjectedEvent, type Seam, toLine, writeLines } from "./events-file.ts";
import { type FileCalls, type OpenFile, refuseLinks } from "./file-calls.ts";

/** Where a projection reads and where it writes. */
export interface ProjectionParts {
  /** The state folder; files go to `.rkat/sessions/<session id>/` in it. */
  readonly folder: string;
  /** Durable events after a seq, oldest first; fewer than `max` only at the log's end. */
  readonly readEvents: (sessionId: string, after: number, max: number) => Promise<readonly ProjectedEvent[]>;
  readonly row: (sessionId: string) => Promise<SessionRow | undefined>;
  readonly io: FileCalls;
}

/** Events held at a time, so that a long log is never in memory whole. */
const PAGE_EVENTS_MAX = 256;

/**
 * Brings a session's files up to its log. What they say is a function of the log up to the row's last seq, and the
 * checkpoint is written last: whenever this stops, doing it again ends with the same bytes as doing it from zero.
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
  if (checkpoint === row.last_seq) return;
  if (checkpoint === undefined) await io.makeFolder(paths.folder);
  const file = await io.open(paths.events);
  let text: string | undefined;
  try {
    const isBehind = checkpoint !== undefined && checkpoint < row.last_seq;
    const seam = isBehind ? await soundSeam(parts, file, { sessionId, checkpoint }) : undefined;
    if (seam === undefined) await forget(io, file, paths);
    text = await writeEvents(parts, file, { row, seam: seam ?? FILE_START, signal: options.signal });
  } finally {
    await file.close();
  }
  // The tail alone decides: without a text in it, the file still holds the last one.
  if (text === "") await io.remove(paths.summary);
  else if (text !== undefined) await replace(io, paths.summary, text);
  await replace(io, paths.session, `${JSON.stringify(toView(row), undefined, 2)}\n`);
  await replace(io, paths.checkpoint, String(row.last_seq));
}

type Paths = ReturnType<typeof pathsOf>;

function pathsOf(stateFolder: string, sessionId: string) {
  if (!SessionId.safeParse(sessionId).success) {
    throw new RuntimeError("INVALID_PARAMS", `session_id: expected a session id (a UUID), got ${sessionId}`);
  }
  const folder = join(stateFolder, ".rkat", "sessions", sessionId);
  return {
    folder,
    events: join(folder, "events.jsonl"),
    summary: join(folder, "summary.txt"),
    session: join(folder, "session.json"),
    checkpoint: join(folder, "checkpoint"),
  };
}

/** Undefined for what is absent or is not a seq: either way the files are made anew. */
function toSeq(text: string | undefined): number | undefined {
  const seq = text !== undefined && /^\d{1,16}\n?$/.test(text) ? Number(text) : undefined;
  return Number.isSafeInteger(seq) ? seq : undefined;
}

/** Undefined when the last line up to the checkpoint is not what the log says: then no line can be relied on. */
async function soundSeam(
  parts: ProjectionParts,
  file: OpenFile,
  at: { readonly sessionId: string; readonly checkpoint: number },
): Promise<Seam | undefined> {
  const seam = await findSeam(file, at.checkpoint);
  if (seam.seq === 0) return seam;
  const [told] = await parts.readEvents(at.sessionId, seam.seq - 1, 1);
  return (await isSound(file, seam, told)) ? seam : undefined;
}

/** The checkpoint goes first: if this is cut short, its absence says that the rest is not to be relied on. */
async function forget(io: FileCalls, events: OpenFile, paths: Paths): Promise<void> {
  await io.remove(paths.checkpoint);
  await events.truncate(0);
  await io.remove(paths.summary);
  await io.remove(paths.session);
}

/** The last text once an event has happened, empty when a rewrite left none; undefined when it is what it was. */
function textAfter(event: ProjectedEvent["event"]): string | undefined {
  if (event.type === "transcript_rewrite_committed") return event.record.revision_body.last_assistant_text ?? "";
  return event.type === "text_complete" && event.content !== "" ? event.content : undefined;
}

/**
 * Writes the lines after the seam and cuts off what stood beyond them; resolves with the last text they leave.
 * Lines are written at their positions, not appended: two processes that project one session write the same bytes.
 */
async function writeEvents(
  parts: ProjectionParts,
  file: OpenFile,
  tail: { readonly row: SessionRow; readonly seam: Seam; readonly signal: AbortSignal },
): Promise<string | undefined> {
  const { session_id, last_seq } = tail.row;
  let { seq: after, end } = tail.seam;
  let text: string | undefined;
  let isMore = true;
  while (isMore && after < last_seq) {
    tail.signal.throwIfAborted();
    const page = await parts.readEvents(session_id, after, PAGE_EVENTS_MAX);
    // What was appended since the row was read belongs to the next projection.
    const events = page.filter(({ seq }) => seq <= last_seq);
    for (const { event } of events) text = textAfter(event) ?? text;
    end = await writeLines(file, events.map(toLine).join(""), end);
    after = page.at(-1)?.seq ?? after;
    isMore = page.length === PAGE_EVENTS_MAX;
  }
  if ((await file.size()) > end) await file.truncate(end);
  return text;
}

/** Nobody reads half a file. It is not synced: what a power cut takes is derived, and the log still has it. */
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
