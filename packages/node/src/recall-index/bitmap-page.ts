import { crc32 } from "node:zlib";

/** Ids whose vectors are told to be there, or not, in one value. */
export const PAGE_IDS = 4_096;
// revision u32 · checksum of the signatures u32 · a bit an id.
const HEAD_BYTES = 8;
const PAGE_BYTES = HEAD_BYTES + PAGE_IDS / 8;

/** Which chunks of a page of ids have a vector, and a checksum of the signatures of those. */
export interface BitmapPage {
  readonly revision: number;
  readonly checksum: number;
  readonly bits: Uint8Array;
}

export function decodeBitmap(value: Buffer | undefined): BitmapPage {
  if (value === undefined) return { revision: 0, checksum: 0, bits: new Uint8Array(PAGE_IDS / 8) };
  return {
    revision: value.readUInt32LE(0),
    checksum: value.readUInt32LE(4),
    bits: new Uint8Array(value.subarray(HEAD_BYTES)),
  };
}

export function encodeBitmap({ revision, checksum, bits }: BitmapPage): Buffer {
  const value = Buffer.alloc(PAGE_BYTES);
  value.writeUInt32LE(revision, 0);
  value.writeUInt32LE(checksum, 4);
  value.set(bits, HEAD_BYTES);
  return value;
}

export function isPresent(bits: Uint8Array, place: number): boolean {
  return ((bits[place >> 3] ?? 0) & (1 << (place & 7))) !== 0;
}

export function setPresent(bits: Uint8Array, place: number, present: boolean): void {
  const byte = bits[place >> 3] ?? 0;
  const bit = 1 << (place & 7);
  bits[place >> 3] = present ? byte | bit : byte & ~bit;
}

/**
 * A checksum of the signatures that are there, in the order of their ids. The others are left out: a process that
 * writes them may be half-way while another reads.
 */
export function checksumOf(bits: Uint8Array, signatures: Uint8Array, signatureBytes: number): number {
  let checksum = 0;
  for (let place = 0; place < PAGE_IDS; place += 1) {
    if (!isPresent(bits, place)) continue;
    const first = place;
    while (place + 1 < PAGE_IDS && isPresent(bits, place + 1)) place += 1;
    checksum = crc32(signatures.subarray(first * signatureBytes, (place + 1) * signatureBytes), checksum);
  }
  return checksum;
}
