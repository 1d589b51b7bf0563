import type { Database, RootDatabase } from "lmdb";
import type { MemoryBatch } from "../../../ports/memory.ts";
import { openPrivateDb } from "../../embedded/private-db.ts";

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

/** The LMDB file of a memory: one commit is a batch, whole. */
export interface Tables {
  readonly root: RootDatabase<unknown, string>;
  readonly manifest: Database<Manifest, string>;
  readonly sessions: Database<SessionState, string>;
  /** Ids of sessions by their numbers. */
  readonly names: Database<string, number>;
  readonly marks: Database<Mark, number>;
  /** Chunks by id. */
  readonly rows: Database<Buffer, number>;
  /** Of a segment: session, seq and length of its chunks. */
  readonly columns: Database<Buffer, number>;
  /** Of a segment: the first term of each of its pages. */
  readonly fences: Database<Buffer, number>;
  /** Of a segment: its postings, by its number and that of a page. */
  readonly pages: Database<Buffer, [number, number]>;
  readonly embedders: Database<EmbedderState, string>;
  /** Of an embedder: which chunks of a page of ids have a vector, by its number and that of a page. */
  readonly presence: Database<Buffer, [number, number]>;
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
  // One sync a commit instead of two: a power cut may take the last commit back, which is then taken in from the log again.
  const options = { maxDbs: 12, encoding: "json", noMetaSync: true } as const;
  const root = openPrivateDb<unknown, string>(path, options, warn);
  const json = { encoding: "json" } as const;
  const binary = { encoding: "binary" } as const;
  return {
    root,
    manifest: root.openDB("manifest", json),
    sessions: root.openDB("sessions", json),
    names: root.openDB("names", json),
    marks: root.openDB("marks", json),
    rows: root.openDB("rows", binary),
    columns: root.openDB("columns", binary),
    fences: root.openDB("fences", binary),
    pages: root.openDB("pages", binary),
    embedders: root.openDB("embedders", json),
    presence: root.openDB("presence", binary),
  };
}

export function readManifest({ manifest }: Tables): Manifest {
  return manifest.get("manifest") ?? EMPTY;
}

/** Inside a transaction. */
export function writeManifest({ manifest }: Tables, value: Manifest): void {
  void manifest.put("manifest", { ...value, revision: value.revision + 1 });
}

/** A value as the typed arrays of its reader want it: on an even address. */
export function aligned(value: Buffer): ArrayBuffer {
  const { buffer } = value;
  const isAlone = buffer instanceof ArrayBuffer && buffer.byteLength === value.byteLength;
  return isAlone ? buffer : new Uint8Array(value).buffer;
}
