import type { FileHandle } from "node:fs/promises";

/** One file of an archive; its length need not be known before. */
export interface ArchivedFile {
  readonly name: string;
  readonly pieces: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>;
}

const BLOCK = 512;
/** As many octal digits as the format has for a size. */
const BYTES_MAX = 8 ** 11 - 1;

/** Writes files as a ustar archive: each is written as it is made, and its header when its length is known. */
export async function writeTar(
  file: FileHandle,
  files: AsyncIterable<ArchivedFile> | Iterable<ArchivedFile>,
  atMs: number,
): Promise<number> {
  let at = 0;
  for await (const { name, pieces } of files) {
    const start = at + BLOCK;
    let bytes = 0;
    for await (const piece of pieces) {
      const chunk = typeof piece === "string" ? Buffer.from(piece) : piece;
      await file.write(chunk, 0, chunk.length, start + bytes);
      bytes += chunk.length;
    }
    await file.write(header(name, bytes, atMs), 0, BLOCK, at);
    const padding = Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK);
    await file.write(padding, 0, padding.length, start + bytes);
    at = start + bytes + padding.length;
  }
  // Two empty blocks are the end.
  await file.write(Buffer.alloc(2 * BLOCK), 0, 2 * BLOCK, at);
  return at + 2 * BLOCK;
}

/** Names are ours: short, and without a letter that is not ASCII. */
function header(name: string, bytes: number, atMs: number): Buffer {
  if (bytes > BYTES_MAX || Buffer.byteLength(name) > 100) throw new Error(`${name} does not fit an archive`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, length: number): void => {
    block.write(`${value.toString(8).padStart(length - 1, "0")}\0`, offset, "latin1");
  };
  block.write(name, 0, "latin1");
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(bytes, 124, 12);
  octal(Math.floor(atMs / 1_000), 136, 12);
  block.write("        0", 148, "latin1"); // A checksum of blanks while it is computed, and the type of a file.
  block.write("ustar\0" + "00", 257, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}
