import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { readBytes, type SegmentBytes } from "./segment-bytes.ts";

// Blocked gzip, as `bgzip` writes it and `zcat` reads it: members of one length, each with its stored length in its header. The
// time in a header is the block's number, by which it is found where headers before it are damaged.
const SIGN = Buffer.from([0x1f, 0x8b, 8, 4]);
const NUMBER_AT = 4;
const SECOND_SIGN = Buffer.from([0, 0xff, 6, 0, 0x42, 0x43, 2, 0]);
const SECOND_SIGN_AT = 8;
const LENGTH_AT = 16;
const HEAD_BYTES = 18;
/** A checksum and a length. Neither is needed to read: records have their own. */
const FOOT_BYTES = 8;
/** What a block holds; the last one may hold less. */
export const BLOCK_BYTES = 65_280;
/** The most a block is stored in, also of bytes that cannot be packed. */
const STORED_BYTES_MAX = 65_536;
/** The empty block after the last one. */
export const LAST_BLOCK = Buffer.from("1f8b08040000000000ff0600424302001b0003000000000000000000", "hex");

/** Whether the first bytes of a block are sound. */
export function isPackedHead(head: Buffer): boolean {
  const isSigned = head.length >= HEAD_BYTES && head.subarray(0, SIGN.length).equals(SIGN);
  return isSigned && head.subarray(SECOND_SIGN_AT, LENGTH_AT).equals(SECOND_SIGN);
}

/** The records of a segment, given its file as it is stored: those of a packed one, or the file itself. */
export function recordBytes(file: SegmentBytes): SegmentBytes {
  const blocks = findBlocks(file);
  if (blocks === undefined) return file;
  const stored = (at: number): Buffer => {
    const { start, bytes } = blocks[at] ?? { start: 0, bytes: 0 };
    return readBytes(file, start, bytes);
  };
  const last = unpackBlock(stored(blocks.length - 1));
  const size = (blocks.length - 1) * BLOCK_BYTES + last.length;
  let known = { at: blocks.length - 1, plain: last };
  const plainAt = (at: number): Buffer => {
    // Records that follow each other are read one by one. What cannot be unpacked is zeros, in which no record is found.
    const bytes = Math.min(BLOCK_BYTES, size - at * BLOCK_BYTES);
    if (known.at !== at) known = { at, plain: Buffer.concat([unpackBlock(stored(at))], bytes) };
    return known.plain;
  };
  return {
    size: () => size,
    read: (buffer, position) => {
      if (position >= size) return 0;
      return plainAt(Math.floor(position / BLOCK_BYTES)).copy(buffer, 0, position % BLOCK_BYTES);
    },
    packedAt: (offset) => stored(offset / BLOCK_BYTES),
  };
}

interface Block {
  readonly start: number;
  readonly bytes: number;
}

/** The blocks by their numbers; undefined for a plain segment. A packed one is known by either end, as the other may be damaged. */
function findBlocks(file: SegmentBytes): readonly (Block | undefined)[] | undefined {
  const size = file.size();
  const isEnded = readBytes(file, Math.max(0, size - LAST_BLOCK.length), LAST_BLOCK.length).equals(LAST_BLOCK);
  if (!isEnded && !isPackedHead(readBytes(file, 0, HEAD_BYTES))) return undefined;
  const blocks: (Block | undefined)[] = [];
  let isSearched = false;
  for (let at = 0; at < size; ) {
    const head = readBytes(file, at, HEAD_BYTES);
    const bytes = isPackedHead(head) ? head.readUInt16LE(LENGTH_AT) + 1 : 0;
    if (bytes === LAST_BLOCK.length) break;
    const number = isSearched ? head.readUInt32LE(NUMBER_AT) : blocks.length;
    isSearched = bytes === 0 || !isNext(file, at + bytes);
    const next = isSearched ? nextHead(file, at + 1) : at + bytes;
    // Damage may make a number of it that no file has.
    if (number >= blocks.length && number <= at / HEAD_BYTES) blocks[number] = { start: at, bytes: next - at };
    at = next;
  }
  return blocks.length === 0 ? undefined : blocks;
}

/** Whether a block begins or the file ends here: the header says it, or the foot of the block before. */
function isNext(file: SegmentBytes, at: number): boolean {
  if (at === file.size() || isPackedHead(readBytes(file, at, HEAD_BYTES))) return true;
  const length = readBytes(file, at - FOOT_BYTES / 2, FOOT_BYTES / 2);
  return at < file.size() && length.readUInt32LE(0) === BLOCK_BYTES;
}

/** Where the next header begins, or the end. */
function nextHead(file: SegmentBytes, from: number): number {
  for (let at = from; at < file.size(); at += STORED_BYTES_MAX) {
    const part = readBytes(file, at, STORED_BYTES_MAX + HEAD_BYTES);
    for (let found = part.indexOf(SIGN); found >= 0; found = part.indexOf(SIGN, found + 1))
      if (isPackedHead(part.subarray(found))) return at + found;
  }
  return file.size();
}

export function packBlock(number: number, plain: Buffer): Buffer {
  const packed = deflateRawSync(plain);
  const block = Buffer.alloc(HEAD_BYTES + packed.length + FOOT_BYTES);
  SIGN.copy(block);
  block.writeUInt32LE(number, NUMBER_AT);
  SECOND_SIGN.copy(block, SECOND_SIGN_AT);
  block.writeUInt16LE(block.length - 1, LENGTH_AT);
  packed.copy(block, HEAD_BYTES);
  block.writeUInt32LE(crc32(plain), block.length - FOOT_BYTES);
  block.writeUInt32LE(plain.length, block.length - FOOT_BYTES / 2);
  return block;
}

/** Nothing of a block that is damaged. */
function unpackBlock(block: Buffer): Buffer {
  try {
    return inflateRawSync(block.subarray(HEAD_BYTES), { maxOutputLength: BLOCK_BYTES });
  } catch {
    // The records in it are missing then, which their readers report.
    return Buffer.alloc(0);
  }
}
