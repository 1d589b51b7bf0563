import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { ScanLayout } from "./scan/layout.ts";
import type { VectorRow } from "./vector-row.ts";

/**
 * Two files an embedder, in which a vector stands where its id says: what is written twice is the same, a hole is a vector
 * that is missing, and readers of other processes need no table of places.
 */
export interface VectorFiles {
  /** Rows from an id on; zeros where the file ends. */
  readRows(firstId: number, into: Uint8Array, rows: number): void;
  readSignatures(firstId: number, into: Uint8Array): void;
  write(vectors: readonly VectorRow[]): void;
  /** What they take on the disk. */
  bytes(): number;
  close(): void;
}

/** Those of a memory that was made anew have names of their own: another process may still write to the old ones. */
export function vectorsPath(folder: string, generation: number, embedder: { readonly number: number }): string {
  return join(folder, `vectors-${generation === 0 ? "" : `${generation}-`}${embedder.number}`);
}

export function openVectorFiles(
  path: string,
  { stride, signatureBytes }: Pick<ScanLayout, "stride" | "signatureBytes">,
): VectorFiles {
  const open = (kind: string): number => openSync(`${path}.${kind}`, constants.O_RDWR | constants.O_CREAT, 0o600);
  const rows = open("rows");
  const signatures = openOr(
    () => closeSync(rows),
    () => open("bits"),
  );
  return {
    readRows: (firstId, into, count) => readFully(rows, into, { position: firstId * stride, length: count * stride }),
    readSignatures: (firstId, into) =>
      readFully(signatures, into, { position: firstId * signatureBytes, length: into.length }),
    write: (vectors) => {
      for (const run of runsOf(vectors)) {
        const firstId = run[0]?.id ?? 0;
        writeFully(rows, Buffer.concat(run.map(({ row }) => row)), firstId * stride);
        writeFully(signatures, Buffer.concat(run.map(({ signature }) => signature)), firstId * signatureBytes);
      }
    },
    // Blocks, not lengths: where there is no vector the files are hollow.
    bytes: () => [rows, signatures].reduce((sum, fd) => sum + fstatSync(fd).blocks * 512, 0),
    close: () => {
      closeSync(rows);
      closeSync(signatures);
    },
  };
}

function openOr<T>(release: () => void, open: () => T): T {
  try {
    return open();
  } catch (error) {
    release();
    throw error;
  }
}

/** Vectors in ascending order of their ids, as runs without a gap. */
function runsOf(vectors: readonly VectorRow[]): readonly VectorRow[][] {
  const runs: VectorRow[][] = [];
  for (const vector of [...vectors].sort((a, b) => a.id - b.id)) {
    const run = runs.at(-1);
    if (run !== undefined && run.at(-1)?.id === vector.id - 1) run.push(vector);
    else runs.push([vector]);
  }
  return runs;
}

function readFully(fd: number, into: Uint8Array, { position, length }: { position: number; length: number }): void {
  let read = 0;
  while (read < length) {
    const bytes = readSync(fd, into, read, length - read, position + read);
    if (bytes === 0) break;
    read += bytes;
  }
  if (read < length) into.fill(0, read, length);
}

function writeFully(fd: number, from: Uint8Array, position: number): void {
  let written = 0;
  while (written < from.length) {
    written += writeSync(fd, from, written, from.length - written, position + written);
  }
}
