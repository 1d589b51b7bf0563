import { crc32 } from "node:zlib";
import type { ScanLayout } from "./scan/layout.ts";

/** A vector as it is kept: a row of 8-bit numbers, and a bit for each: whether it is above zero. */
export interface VectorRow {
  readonly id: number;
  readonly row: Buffer;
  readonly signature: Uint8Array;
}

type RowSizes = Pick<ScanLayout, "rowBytes" | "stride" | "signatureBytes">;

const NUMBER_MAX = 127;

export function encodeVector(id: number, vector: Float32Array, sizes: RowSizes): VectorRow {
  const row = Buffer.alloc(sizes.stride);
  let largest = 0;
  for (const value of vector) largest = Math.max(largest, Math.abs(value));
  let squares = 0;
  const numbers = new Int8Array(row.buffer, row.byteOffset, vector.length);
  const scale = largest > 0 ? NUMBER_MAX / largest : 0;
  for (let index = 0; index < vector.length; index += 1) {
    const number = Math.round((vector[index] ?? 0) * scale);
    numbers[index] = number;
    squares += number * number;
  }
  row.writeFloatLE(squares > 0 ? 1 / Math.sqrt(squares) : 0, sizes.rowBytes);
  row.writeUInt32LE(id, sizes.rowBytes + 4);
  row.writeUInt32LE(crc32(row.subarray(0, sizes.rowBytes + 8)), sizes.rowBytes + 8);
  return { id, row, signature: signatureOf(row, sizes) };
}

/** Whether a row is the one that was written for this id. */
export function isSoundRow(row: Buffer, id: number, { rowBytes }: RowSizes): boolean {
  const told = row.readUInt32LE(rowBytes + 8);
  return row.readUInt32LE(rowBytes + 4) === id && crc32(row.subarray(0, rowBytes + 8)) === told;
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
