import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";

/** What has not changed for so long is at rest, and is packed. */
export const AT_REST_MS = 7 * 86_400_000;

/** The records of a segment as bytes. Of a packed one they are read as if it were plain, at the same offsets. */
export interface SegmentBytes {
  size(): number;
  /** Reads from a position on; the number of bytes read, 0 at the end. */
  read(buffer: Buffer, position: number): number;
  /** The block that stands at an offset as it is stored; undefined where the segment is plain. */
  readonly packedAt?: (offset: number) => Buffer;
}

// Blocked gzip, as `bgzip` writes it and `zcat` reads it: members of one length, each with its stored length in its header.
const SIGN = Buffer.from([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, 0x42, 0x43, 2, 0]);
const HEAD_BYTES = 18;
const FOOT_BYTES = 8;
/** What a block holds; the last one may hold less. Stored blocks are below 64 KiB, also of bytes that cannot be packed. */
export const BLOCK_BYTES = 65_280;
/** The empty block after the last one. */
export const LAST_BLOCK = Buffer.from("1f8b08040000000000ff0600424302001b0003000000000000000000", "hex");

/** Whether the first bytes of a segment are those of a packed one. */
export function isPackedHead(head: Buffer): boolean {
  return head.subarray(0, SIGN.length).equals(SIGN);
}

/** The records of a segment, given its file as it is stored. */
export function recordBytes(file: SegmentBytes): SegmentBytes {
  const starts = blockStarts(file);
  const count = starts.length - 1;
  if (count === 0) return file;
  const stored = (at: number): Buffer => readBytes(file, starts[at] ?? 0, (starts[at + 1] ?? 0) - (starts[at] ?? 0));
  const last = stored(count - 1);
  const size = (count - 1) * BLOCK_BYTES + Math.min(last.readUInt32LE(last.length - 4), BLOCK_BYTES);
  let known = { at: -1, plain: last };
  const plainAt = (at: number): Buffer => {
    // Records that follow each other are read one by one.
    if (known.at !== at) known = { at, plain: unpackBlock(stored(at), Math.min(BLOCK_BYTES, size - at * BLOCK_BYTES)) };
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

/** Bytes from a position on; fewer where they end. */
export function readBytes(from: Pick<SegmentBytes, "read">, position: number, length: number): Buffer {
  const buffer = Buffer.allocUnsafe(length);
  let read = 0;
  while (read < length) {
    const more = from.read(buffer.subarray(read), position + read);
    if (more === 0) break;
    read += more;
  }
  return buffer.subarray(0, read);
}

/** Where the blocks begin and the last one ends: a plain segment has none. One is known by either end, as the other may be damaged. */
function blockStarts(file: SegmentBytes): readonly number[] {
  const starts = [0];
  const size = file.size();
  const isSign = (at: number): boolean => isPackedHead(readBytes(file, at, SIGN.length));
  const isEnded = readBytes(file, Math.max(0, size - LAST_BLOCK.length), LAST_BLOCK.length).equals(LAST_BLOCK);
  if (!isEnded && !isSign(0)) return starts;
  const end = isEnded ? size - LAST_BLOCK.length : size;
  for (let at = 0; end - at > FOOT_BYTES; starts.push(at)) {
    const head = readBytes(file, at, HEAD_BYTES);
    const next = isPackedHead(head) && head.length === HEAD_BYTES ? at + 1 + head.readUInt16LE(SIGN.length) : at;
    if (next > at && (next === end || (next < end && isSign(next)))) at = next;
    else {
      // Its header is damaged. Blocks after it are found by theirs, so that their records stay where they are.
      const distance = readBytes(file, at + 1, end - at - 1).indexOf(SIGN);
      at = distance < 0 ? end : at + 1 + distance;
    }
  }
  return starts;
}

export function packBlock(plain: Buffer): Buffer {
  const packed = deflateRawSync(plain);
  const block = Buffer.alloc(HEAD_BYTES + packed.length + FOOT_BYTES);
  SIGN.copy(block);
  block.writeUInt16LE(block.length - 1, SIGN.length);
  packed.copy(block, HEAD_BYTES);
  block.writeUInt32LE(crc32(plain), block.length - FOOT_BYTES);
  block.writeUInt32LE(plain.length, block.length - 4);
  return block;
}

/** Zeros instead of a damaged block: no record is found in them, and those of other blocks stay where they are. */
function unpackBlock(block: Buffer, bytes: number): Buffer {
  try {
    const plain = inflateRawSync(block.subarray(HEAD_BYTES, -FOOT_BYTES), { maxOutputLength: BLOCK_BYTES });
    if (plain.length === bytes) return plain;
  } catch {
    // The checksums of its records are missing then, which their readers report.
  }
  return Buffer.alloc(bytes);
}
