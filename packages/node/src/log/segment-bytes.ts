/** The records of a segment as bytes. Of a packed one they are read as if it were plain, at the same offsets. */
export interface SegmentBytes {
  size(): number;
  /** Reads from a position on; the number of bytes read, 0 at the end. */
  read(buffer: Buffer, position: number): number;
  /** The block that begins at an offset, as it is stored; undefined where the segment is plain. */
  readonly packedAt?: (offset: number) => Buffer;
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
