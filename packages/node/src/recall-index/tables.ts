import type { Chunk, ChunkSource, LogMark, MemoryBatch, NewChunk } from "@rkat/core/ports/memory";
import { type Seal, SHARED_OWNERS } from "@rkat/core/ports/store";
import { openPrivateDb, type PrivateDb, type Table } from "../tables/private-db.ts";
import { DamagedDb } from "../tables/table-file.ts";

export interface SessionState {
  /** Stands for the session in every other table. */
  readonly number: number;
  readonly cursor: number;
  readonly discarded: MemoryBatch["discarded"];
  /** Where its last mark stands; 0 when it has none. */
  readonly mark: number;
  readonly dropped: boolean;
  /** The version of what its chunks were made by; absent: the first. */
  readonly version?: number;
}

/** A change to chunks that are already there. A session's newest takes the place of its earlier ones. */
interface Mark {
  readonly session: number;
  readonly discarded: MemoryBatch["discarded"];
  readonly dropped: boolean;
}

/** Ids in a row, with everything they are found by; never changed, only merged into a larger one. */
export interface Segment {
  readonly number: number;
  readonly firstId: number;
  readonly chunks: number;
  readonly pages: number;
}

export interface Manifest {
  /** Counts up with every change to this table. */
  readonly revision: number;
  /** Chunks that are there, and the sum of their lengths in terms. */
  readonly entries: number;
  readonly termsTotal: number;
  readonly lastId: number;
  readonly lastSegment: number;
  readonly lastSession: number;
  readonly lastMark: number;
  /** By ascending ids, without a gap. */
  readonly segments: readonly Segment[];
  /** The last change of a memory kept elsewhere that was done here too; absent where none was. */
  readonly followed?: { readonly number: number; readonly mark: string };
  /** By the kind of logs, of chunks of this version; absent where none is kept, or a session was reset since. */
  readonly logMarks?: { readonly version: number; readonly byKind: Readonly<Record<string, LogMark>> };
}

export interface EmbedderState {
  readonly number: number;
  readonly dimensions: number;
  /** Counts up with every change to its pages. */
  readonly revision: number;
  /** What its vectors are masked by, beside the realm's key; absent where they are plain. */
  readonly salt?: string;
  /** How far the vectors of a memory kept elsewhere are here too. */
  readonly followed?: number;
}

/** The tables of a memory store: one commit is a batch, whole. */
export interface Tables {
  readonly root: PrivateDb<unknown, string>;
  readonly manifest: Table<Manifest, string>;
  readonly sessions: Table<SessionState, string>;
  readonly names: Table<string, number>;
  readonly marks: Table<Mark, number>;
  readonly rows: Table<Buffer, number>;
  /** Of a segment: session, seq and length of its chunks. */
  readonly columns: Table<Buffer, number>;
  /** Of a segment: the first term of each of its pages. */
  readonly fences: Table<Buffer, number>;
  /** Of a segment: its postings, by its number and that of a page. */
  readonly pages: Table<Buffer, [number, number]>;
  readonly embedders: Table<EmbedderState, string>;
  /** Of an embedder: which chunks of a page of ids have a vector, by its number and that of a page. */
  readonly bitmaps: Table<Buffer, [number, number]>;
}

const EMPTY: Manifest = {
  revision: 0,
  entries: 0,
  termsTotal: 0,
  lastId: 0,
  lastSegment: 0,
  lastSession: 0,
  lastMark: 0,
  segments: [],
};

export function openTables(path: string, warn: (sentence: string) => void, seal?: Seal): Tables {
  const sealed = seal === undefined ? undefined : { by: seal, owner: SHARED_OWNERS.memory };
  const root = openPrivateDb<unknown, string>(path, { sealed, isInPieces: true }, warn);
  return {
    root,
    manifest: root.openDB("manifest", "json"),
    sessions: root.openDB("sessions", "json"),
    names: root.openDB("names", "json"),
    marks: root.openDB("marks", "json"),
    rows: root.openDB("rows", "binary"),
    columns: root.openDB("columns", "binary"),
    fences: root.openDB("fences", "binary"),
    pages: root.openDB("pages", "binary"),
    embedders: root.openDB("embedders", "json"),
    bitmaps: root.openDB("presence", "binary"),
  };
}

export function readManifest({ manifest }: Tables): Manifest {
  return manifest.get("manifest") ?? EMPTY;
}

/** Inside a transaction. */
export function writeManifest({ manifest }: Tables, value: Manifest): void {
  manifest.put("manifest", { ...value, revision: value.revision + 1 });
}

/** A value as the typed arrays of its reader want it: on an even address. */
export function aligned(value: Buffer): ArrayBuffer {
  const { buffer } = value;
  const isAlone = buffer instanceof ArrayBuffer && buffer.byteLength === value.byteLength;
  return isAlone ? buffer : new Uint8Array(value).buffer;
}

/** A table lacks what another says is there. */
export function lacking(what: string): DamagedDb {
  return new DamagedDb("the memory", what);
}

const ROLES = ["user", "assistant", "tool", "notice"] as const;
// session u32 · seq u48 · turn u32 · part u32 · time f64 · role u8 · encoding u8 · bytes of the kind u16, then kind and text.
const HEAD_BYTES = 30;

/** A chunk as it is kept. The number of its session stands in it once the session has one. */
export function encodeRow(chunk: Omit<NewChunk, "terms">): Buffer {
  // Half of a pair, left where a text was cut, would not come back from UTF-8.
  const encoding = chunk.text.isWellFormed() ? "utf8" : "utf16le";
  const kind = Buffer.from(chunk.kind);
  const row = Buffer.allocUnsafe(HEAD_BYTES + kind.length + Buffer.byteLength(chunk.text, encoding));
  row.writeUInt32LE(0, 0);
  row.writeUIntLE(chunk.seq, 4, 6);
  row.writeUInt32LE(chunk.turn, 10);
  row.writeUInt32LE(chunk.part, 14);
  row.writeDoubleLE(chunk.created_at_ms, 18);
  row.writeUInt8(ROLES.indexOf(chunk.role), 26);
  row.writeUInt8(encoding === "utf8" ? 0 : 1, 27);
  row.writeUInt16LE(kind.length, 28);
  kind.copy(row, HEAD_BYTES);
  row.write(chunk.text, HEAD_BYTES + kind.length, encoding);
  return row;
}

export function assignSession(row: Buffer, session: number): void {
  row.writeUInt32LE(session, 0);
}

export function decodeRow(row: Buffer, nameOf: (session: number) => string): ChunkSource & Pick<Chunk, "text"> {
  const textAt = HEAD_BYTES + row.readUInt16LE(28);
  return {
    session_id: nameOf(row.readUInt32LE(0)),
    turn: row.readUInt32LE(10),
    seq: row.readUIntLE(4, 6),
    part: row.readUInt32LE(14),
    role: ROLES[row.readUInt8(26)] ?? "notice",
    kind: row.toString("utf8", HEAD_BYTES, textAt),
    created_at_ms: row.readDoubleLE(18),
    text: row.toString(row.readUInt8(27) === 0 ? "utf8" : "utf16le", textAt),
  };
}
