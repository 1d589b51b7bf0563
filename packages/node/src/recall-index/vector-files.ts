import { createCipheriv, createHash, createSecretKey, type KeyObject } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { type Seal, SHARED_OWNERS } from "@rkat/core/ports/store";
import type { ScanLayout } from "./simd.ts";

/**
 * Three files an embedder, in which a vector stands where its id says: what is written twice is the same, a hole is a vector
 * that is missing, and readers of other processes need no table of places.
 */
export interface VectorFiles {
  /** Rows from an id on; zeros where the file ends. */
  readRows(firstId: number, into: Uint8Array, rows: number): void;
  readSignatures(firstId: number, into: Uint8Array): void;
  /** A hash of the text that a vector was made of; 0 where that is not known. */
  readSums(firstId: number, count: number): Float64Array;
  write(vectors: readonly VectorRow[]): void;
  /** Leaves nothing of an id. */
  erase(id: number): void;
  bytes(): number;
  close(): void;
}

/** Those of a memory store that was made anew have names of their own: another process may still write to the old ones. */
export function vectorsPath(folder: string, generation: number, embedder: { readonly number: number }): string {
  return join(folder, `vectors-${generation === 0 ? "" : `${generation}-`}${embedder.number}`);
}

/** Hides what stands at a place of one of the files, and shows it again: the same call does both. */
type Mask = (kind: string, bytes: Uint8Array, position: number) => Uint8Array;

const plain: Mask = (_, bytes) => bytes;

/**
 * A stream of AES-256-CTR by the place in the file. It hides and does not vouch: that a vector is the one that was written
 * is detected by its checksum. `salt` is never used twice: two vectors under one stream would reveal each other.
 */
export function maskBy(seal: Seal, salt: string): Mask {
  // As objects: a key that is bytes costs more each time than what it masks.
  const keys = new Map<string, KeyObject>();
  return (kind, bytes, position) => {
    const key = keys.get(kind) ?? createSecretKey(seal.secret(SHARED_OWNERS.memory, `${salt} ${kind}`));
    keys.set(kind, key);
    const counter = Buffer.alloc(BLOCK_BYTES);
    counter.writeUIntBE(Math.floor(position / BLOCK_BYTES), BLOCK_BYTES - 6, 6);
    const stream = createCipheriv("aes-256-ctr", key, counter);
    stream.update(new Uint8Array(position % BLOCK_BYTES));
    return stream.update(bytes);
  };
}

const BLOCK_BYTES = 16;

export function openVectorFiles(
  path: string,
  { stride, signatureBytes }: Pick<ScanLayout, "stride" | "signatureBytes">,
  mask: Mask = plain,
): VectorFiles {
  const open = (kind: string): number => openSync(`${path}.${kind}`, constants.O_RDWR | constants.O_CREAT, 0o600);
  const rows = open("rows");
  const signatures = openOr(
    () => closeSync(rows),
    () => open("bits"),
  );
  const sums = openOr(
    () => {
      closeSync(rows);
      closeSync(signatures);
    },
    () => open("sums"),
  );
  const read = (kind: string, fd: number, into: Uint8Array, at: { position: number; length: number }): void => {
    const bytes = into.subarray(0, readFully(fd, into, at));
    if (mask !== plain) bytes.set(mask(kind, bytes, at.position));
  };
  const write = (kind: string, fd: number, from: Uint8Array, position: number): void =>
    writeFully(fd, mask(kind, from, position), position);
  return {
    readRows: (firstId, into, count) =>
      read("rows", rows, into, { position: firstId * stride, length: count * stride }),
    readSignatures: (firstId, into) =>
      read("bits", signatures, into, { position: firstId * signatureBytes, length: into.length }),
    readSums: (firstId, count) => {
      const into = new Float64Array(count);
      read("sums", sums, new Uint8Array(into.buffer), { position: firstId * SUM_BYTES, length: into.byteLength });
      return into;
    },
    write: (vectors) => {
      for (const run of runsOf(vectors)) {
        const firstId = run[0]?.id ?? 0;
        write("rows", rows, Buffer.concat(run.map(({ row }) => row)), firstId * stride);
        write("bits", signatures, Buffer.concat(run.map(({ signature }) => signature)), firstId * signatureBytes);
        const made = Float64Array.from(run, ({ sum }) => sum);
        write("sums", sums, new Uint8Array(made.buffer), firstId * SUM_BYTES);
      }
    },
    erase: (id) => {
      const kinds = [
        [rows, stride],
        [signatures, signatureBytes],
        [sums, SUM_BYTES],
      ] as const;
      const there = Buffer.alloc(stride);
      for (const [fd, bytes] of kinds) {
        readFully(fd, there, { position: id * bytes, length: bytes });
        // A file is hollow where it was never written, and stays so.
        if (there.subarray(0, bytes).some((byte) => byte !== 0)) writeFully(fd, Buffer.alloc(bytes), id * bytes);
      }
    },
    // Blocks, not lengths: where there is no vector the files are hollow.
    bytes: () => [rows, signatures, sums].reduce((sum, fd) => sum + fstatSync(fd).blocks * 512, 0),
    close: () => {
      closeSync(rows);
      closeSync(signatures);
      closeSync(sums);
    },
  };
}

const SUM_BYTES = 8;
const SUM_HASH_BYTES = 6;

/** Tells texts apart, never 0. Of 65,536 of them, two are taken for one in one memory of a hundred thousand. */
export function sumOfPassage(text: string): number {
  return createHash("sha256").update(text).digest().readUIntLE(0, SUM_HASH_BYTES) + 1;
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

/** Returns how much was there; the rest is zeros. */
function readFully(fd: number, into: Uint8Array, { position, length }: { position: number; length: number }): number {
  let read = 0;
  while (read < length) {
    const bytes = readSync(fd, into, read, length - read, position + read);
    if (bytes === 0) break;
    read += bytes;
  }
  if (read < length) into.fill(0, read, length);
  return read;
}

function writeFully(fd: number, from: Uint8Array, position: number): void {
  let written = 0;
  while (written < from.length) {
    written += writeSync(fd, from, written, from.length - written, position + written);
  }
}

/** A vector as it is kept: a row of 8-bit numbers, and a bit for each: whether it is above zero. */
export interface VectorRow {
  readonly id: number;
  readonly row: Buffer;
  readonly signature: Uint8Array;
  /** Of the text it was made of; 0 where that is not known. */
  readonly sum: number;
}

type RowSizes = Pick<ScanLayout, "rowBytes" | "stride" | "signatureBytes">;

const NUMBER_MAX = 127;

export function encodeVector(id: number, vector: Float32Array, sizes: RowSizes, passage?: string): VectorRow {
  const row = Buffer.alloc(sizes.stride);
  const squares = quantise(vector, new Int8Array(row.buffer, row.byteOffset, vector.length));
  row.writeFloatLE(squares > 0 ? 1 / Math.sqrt(squares) : 0, sizes.rowBytes);
  row.writeUInt32LE(id, sizes.rowBytes + 4);
  row.writeUInt32LE(crc32(row.subarray(0, sizes.rowBytes + 8)), sizes.rowBytes + 8);
  return { id, row, signature: signatureOf(row, sizes), sum: passage === undefined ? 0 : sumOfPassage(passage) };
}

/**
 * Writes a vector as 8-bit numbers, of which the largest is as large as they get, and returns the sum of their squares. The
 * numbers of a vector of such numbers are themselves.
 */
export function quantise(vector: Float32Array, numbers: Int8Array): number {
  let largest = 0;
  for (const value of vector) largest = Math.max(largest, Math.abs(value));
  const scale = largest > 0 ? NUMBER_MAX / largest : 0;
  let squares = 0;
  for (let index = 0; index < vector.length; index += 1) {
    const number = Math.round((vector[index] ?? 0) * scale);
    numbers[index] = number;
    squares += number * number;
  }
  return squares;
}

/** Whether a row is the one that was written for this id. */
export function isSoundRow(row: Buffer, id: number, { rowBytes }: RowSizes): boolean {
  const onProgress = row.readUInt32LE(rowBytes + 8);
  return row.readUInt32LE(rowBytes + 4) === id && crc32(row.subarray(0, rowBytes + 8)) === onProgress;
}

/** Of the row and not of the vector, so that a signature that was lost can be made again. */
export function signatureOf(row: Buffer, { rowBytes, signatureBytes }: RowSizes): Uint8Array {
  const signature = new Uint8Array(signatureBytes);
  const numbers = new Int8Array(row.buffer, row.byteOffset, rowBytes);
  for (let index = 0; index < rowBytes; index += 1) {
    if ((numbers[index] ?? 0) > 0) signature[index >> 3] = (signature[index >> 3] ?? 0) | (1 << (index & 7));
  }
  return signature;
}

/** Twelve bits: products of up to 8,000 dimensions add up in 32 bits, and the error is far below that of the rows. */
const QUERY_MAX = 2_047;

/** A query as the scans want it, and what turns a product with a row, times the row's scale, into a cosine. */
export interface EncodedQuery {
  readonly numbers: Int16Array;
  readonly signature: Uint8Array;
  readonly scale: number;
}

export function encodeQuery(vector: Float32Array, { rowBytes, signatureBytes }: RowSizes): EncodedQuery {
  const numbers = new Int16Array(rowBytes);
  const signature = new Uint8Array(signatureBytes);
  const largest = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  let squares = 0;
  for (const [index, value] of vector.entries()) {
    const number = largest > 0 ? Math.round((value / largest) * QUERY_MAX) : 0;
    numbers[index] = number;
    squares += number * number;
    if (number > 0) signature[index >> 3] = (signature[index >> 3] ?? 0) | (1 << (index & 7));
  }
  return { numbers, signature, scale: squares > 0 ? 1 / Math.sqrt(squares) : 0 };
}
