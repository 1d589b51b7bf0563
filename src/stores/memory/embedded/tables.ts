import type { MemoryBatch } from "../../../ports/memory.ts";
import { openPrivateDb, type PrivateDb, type Table } from "../../embedded/private-db.ts";
import { DamagedDb } from "../../embedded/table-file.ts";

/** What is known of a session. */
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
}

export interface EmbedderState {
  readonly number: number;
  readonly dimensions: number;
  /** Counts up with every change to its pages. */
  readonly revision: number;
}

/** The tables of a memory: one commit is a batch, whole. */
export interface Tables {
  readonly root: PrivateDb<unknown, string>;
  readonly manifest: Table<Manifest, string>;
  readonly sessions: Table<SessionState, string>;
  /** Ids of sessions by their numbers. */
  readonly names: Table<string, number>;
  readonly marks: Table<Mark, number>;
  /** Chunks by id. */
  readonly rows: Table<Buffer, number>;
  /** Of a segment: session, seq and length of its chunks. */
  readonly columns: Table<Buffer, number>;
  /** Of a segment: the first term of each of its pages. */
  readonly fences: Table<Buffer, number>;
  /** Of a segment: its postings, by its number and that of a page. */
  readonly pages: Table<Buffer, [number, number]>;
  readonly embedders: Table<EmbedderState, string>;
  /** Of an embedder: which chunks of a page of ids have a vector, by its number and that of a page. */
  readonly presence: Table<Buffer, [number, number]>;
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

export function openTables(path: string, warn: (sentence: string) => void): Tables {
  const root = openPrivateDb<unknown, string>(path, {}, warn);
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
    presence: root.openDB("presence", "binary"),
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
