import type { AgentEvent } from "../contract/event.ts";
import type { OpenFile } from "./file-calls.ts";

/** A durable event as the log tells it. */
export interface ProjectedEvent {
  readonly seq: number;
  readonly timestamp_ms: number;
  readonly event: AgentEvent;
}

/** The line of events.jsonl that lines to come follow, as a range of bytes; seq 0 is the beginning of the file. */
export interface Seam {
  readonly seq: number;
  readonly start: number;
  readonly end: number;
}

export const FILE_START: Seam = { seq: 0, start: 0, end: 0 };

const SCHEMA_VERSION = 1;

/** An event as a line: the same event is always the same bytes, or incremental files would differ from replayed ones. */
export function toLine({ seq, timestamp_ms, event }: ProjectedEvent): string {
  const timestamp = {
    secs_since_epoch: Math.floor(timestamp_ms / 1_000),
    nanos_since_epoch: (timestamp_ms % 1_000) * 1_000_000,
  };
  return `${JSON.stringify({ seq, schema_version: SCHEMA_VERSION, timestamp, event })}\n`;
}

/** The last finished line whose seq is at most `seqMax`: what a crash left beyond it is skipped, not believed. */
export async function findSeam(file: OpenFile, seqMax: number): Promise<Seam> {
  let end: number | undefined;
  for await (const newline of newlinesBackwards(file)) {
    const start = newline + 1;
    const seq = end === undefined ? undefined : await seqAt(file, start);
    if (end !== undefined && seq !== undefined && seq <= seqMax) return { seq, start, end };
    end = start;
  }
  return FILE_START;
}

/** Whether the bytes of a seam are those of the event the log has there. */
export async function isSound(file: OpenFile, seam: Seam, told: ProjectedEvent | undefined): Promise<boolean> {
  if (told === undefined) return false;
  const line = Buffer.from(toLine(told));
  if (line.length !== seam.end - seam.start) return false;
  const found = Buffer.alloc(line.length);
  return (await file.read(found, seam.start)) === line.length && found.equals(line);
}

/** Writes lines at a position and resolves with where they end. */
export async function writeLines(file: OpenFile, lines: string, position: number): Promise<number> {
  const bytes = Buffer.from(lines);
  for (let written = 0; written < bytes.length; ) {
    written += await file.write(bytes.subarray(written), position + written);
  }
  return position + bytes.length;
}

const CHUNK_BYTES = 64 * 1_024;
const NEWLINE = 0x0a;

/** Positions of newlines, last first, then -1 for the one that would stand before the file. */
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
