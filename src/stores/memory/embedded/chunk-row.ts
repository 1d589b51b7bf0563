import type { Chunk, ChunkSource, NewChunk } from "../../../ports/memory.ts";

const ROLES = ["user", "assistant", "tool", "notice"] as const;
// session u32 · seq u48 · turn u32 · part u32 · time f64 · role u8 · encoding u8 · bytes of the kind u16, then kind and text.
const HEAD_BYTES = 30;

/** A chunk as it is kept. The number of its session stands in it once the session has one. */
export function encodeRow(chunk: NewChunk): Buffer {
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
