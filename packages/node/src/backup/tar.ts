import { ftruncateSync } from "node:fs";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { type Chunks, writeChunks } from "../log/whole-file.ts";

/** A file of an archive, and where its bytes lie in it. */
export interface TarEntry {
  readonly path: string;
  readonly bytes: number;
  readonly offset: number;
}

const TAR_BLOCK = 512;
const NAME_BYTES = 100;
const TAR_END = Buffer.alloc(2 * TAR_BLOCK);
/** The longest name that is read: a header that claims more is no name of ours. */
const LONG_NAME_BYTES_MAX = 64 * 1_024;

export interface ArchivedFile {
  readonly name: string;
  readonly chunks: Chunks;
  /** Its length, where it is known before: a file that is too large is then refused before it is read. */
  readonly bytes?: number;
}

/** Writes files to an archive, one after the other. A file that failed is overwritten by the next one. */
export function createTarWriter(fd: number, atMs = 0) {
  let end = 0;
  return {
    add: async ({ name, chunks, bytes: expected = 0 }: ArchivedFile): Promise<void> => {
      const start = end + tarHeader(name, expected, atMs).length;
      const bytes = await writeChunks(fd, chunks, start);
      // Its length is known only now.
      await writeChunks(fd, [tarHeader(name, bytes, atMs)], end);
      await writeChunks(fd, [Buffer.alloc(padding(bytes))], start + bytes);
      end = start + bytes + padding(bytes);
    },
    /** Ends the archive; resolves with its length. */
    finish: async (): Promise<number> => {
      await writeChunks(fd, [TAR_END], end);
      ftruncateSync(fd, end + TAR_END.length);
      return end + TAR_END.length;
    },
  };
}

/** The header of a file. A name that is long or not ASCII stands in a header of its own, as POSIX has it. */
function tarHeader(path: string, bytes: number, atMs: number): Buffer {
  const name = Buffer.from(path);
  const isPlain = name.length <= NAME_BYTES && name.length === path.length;
  if (isPlain) return header(name, { bytes, atMs, kind: "0" });
  const record = paxRecord("path", path);
  const long = header(Buffer.from("path"), { bytes: record.length, atMs, kind: "x" });
  const file = header(Buffer.from("file"), { bytes, atMs, kind: "0" });
  return Buffer.concat([long, record, Buffer.alloc(padding(record.length)), file]);
}

function padding(bytes: number): number {
  return (TAR_BLOCK - (bytes % TAR_BLOCK)) % TAR_BLOCK;
}

interface Described {
  readonly bytes: number;
  readonly atMs: number;
  readonly kind: "0" | "x";
}

function header(name: Buffer, { bytes, atMs, kind }: Described): Buffer {
  const block = Buffer.alloc(TAR_BLOCK);
  name.copy(block, 0);
  block.write("0000600\x000000000\x000000000\0", 100, "latin1");
  block.write(sizeField(bytes), 124, "latin1");
  block.write(
    `${Math.floor(atMs / 1_000)
      .toString(8)
      .padStart(11, "0")}\0`,
    136,
    "latin1",
  );
  block.write(" ".repeat(8), 148, "latin1");
  block.write(kind, 156, "latin1");
  block.write("ustar\x0000", 257, "latin1");
  block.write(`${checksumOf(block).toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

const SIZE_DIGITS = 11;

function sizeField(bytes: number): string {
  const digits = bytes.toString(8);
  if (digits.length <= SIZE_DIGITS) return `${digits.padStart(SIZE_DIGITS, "0")}\0`;
  throw new RuntimeError("PAYLOAD_TOO_LARGE", `a file of ${bytes} bytes is too large for a tar; back up to a folder`);
}

function checksumOf(block: Buffer): number {
  return block.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 32 : byte), 0);
}

/** Its own length is part of the record. */
function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  if (rest + String(length).length !== length) length += 1;
  return Buffer.from(`${length} ${key}=${value}\n`);
}

/** Lists the files of an archive. Throws INVALID_PARAMS for a file of another kind, SESSION_STORE_ERROR for a damaged archive. */
export function readTar(
  { size, read }: { readonly size: number; readonly read: (offset: number, bytes: number) => Buffer },
  name: string,
): readonly TarEntry[] {
  const refuse = (why: string): RuntimeError =>
    new RuntimeError("SESSION_STORE_ERROR", `${name} ${why}; use another back-up`);
  const refuseStart = (): RuntimeError =>
    invalid(`${name} is not a tar archive; name a folder or a .tar that rkat backup wrote`);
  const entries: TarEntry[] = [];
  let long: string | undefined;
  for (let at = 0; ; ) {
    if (at + TAR_BLOCK > size) throw at === 0 ? refuseStart() : refuse("is cut off: its end is missing");
    const block = read(at, TAR_BLOCK);
    if (block.every((byte) => byte === 0)) return entries;
    if (octal(block, 148, 8) !== checksumOf(block)) throw at === 0 ? refuseStart() : refuse(`is damaged at ${at}`);
    const bytes = octal(block, 124, 12);
    const offset = at + TAR_BLOCK;
    if (offset + bytes > size) throw refuse("is cut off: a file in it is not whole");
    const kind = block.toString("latin1", 156, 157);
    if (kind === "x" || kind === "L") {
      if (bytes > LONG_NAME_BYTES_MAX) throw refuse(`is damaged at ${at}: a name is too long`);
      const text = read(offset, bytes).toString();
      long = kind === "L" ? beforeNul(text) : (paxPath(text) ?? long);
    } else if (kind === "0" || kind === "\0") {
      entries.push({ path: (long ?? nameIn(block)).replace(/^\.\//, ""), bytes, offset });
      long = undefined;
    } else if (kind === "5" || kind === "g") long = undefined;
    else throw refuse("holds links or devices, which no back-up does");
    at = offset + bytes + padding(bytes);
  }
}

/** A field ends at its first NUL. */
function beforeNul(text: string): string {
  return text.split("\0", 1)[0] ?? "";
}

function octal(block: Buffer, from: number, length: number): number {
  const digits = beforeNul(block.toString("latin1", from, from + length)).trim();
  const value = /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number.NaN;
  return Number.isSafeInteger(value) ? value : Number.MAX_SAFE_INTEGER;
}

function nameIn(block: Buffer): string {
  const text = (from: number, length: number): string => beforeNul(block.toString("utf8", from, from + length));
  const isPosix = block.toString("latin1", 257, 263) === "ustar\0";
  const prefix = isPosix ? text(345, 155) : "";
  return prefix === "" ? text(0, NAME_BYTES) : `${prefix}/${text(0, NAME_BYTES)}`;
}

function paxPath(records: string): string | undefined {
  let path: string | undefined;
  for (let rest = Buffer.from(records); rest.length > 0; ) {
    const length = Number.parseInt(rest.toString("latin1", 0, 8), 10);
    if (!(length > 0) || length > rest.length) return path;
    const [, key, value] = /^\d+ ([^=]*)=(.*)\n$/s.exec(rest.toString("utf8", 0, length)) ?? [];
    if (key === "path") path = value;
    rest = rest.subarray(length);
  }
  return path;
}
