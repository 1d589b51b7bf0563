import { closeSync, createReadStream, type Dirent, openSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Worker } from "node:worker_threads";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { workerFile } from "@rkat/core/ports/package-file";
import type { Scan } from "@rkat/core/ports/store";
import { createFinder, type Finder, type FoundText, requireTexts } from "@rkat/core/stores/scan";
import { createTally, type Tally } from "@rkat/core/stores/scan-tally";
import { SEGMENT } from "../backup/backup-manifest.ts";
import { recordBytes } from "./packed-segment.ts";
import { scanSegment } from "./record.ts";
import { nodeSegmentIo, storedBytes } from "./segments.ts";

const READ_BYTES = 256 * 1_024;
/** Before what a blob holds stands a line with its media type. */
const FIRST_LINE_MAX = 512;
/** A file may be made to unpack to more than any disk holds. */
const UNPACKED_BYTES_MAX = 1_024 * 1_024 * 1_024;

export interface FolderScan {
  readonly folder: string;
  readonly texts: readonly string[];
  /** A folder below it, by its path, whose files are left out. */
  readonly except?: string | undefined;
}

type OnProgress = (done: { readonly places: number; readonly bytes: number }) => void;

export type ScanAnswer =
  | { readonly done: Parameters<OnProgress>[0] }
  | { readonly scan: Scan }
  | { readonly fault: string };

/** Looks at every file below a folder, and at its name, in a thread of its own; rejects where one cannot be read. */
export async function scanFolder(given: FolderScan, onProgress: OnProgress = () => {}): Promise<Scan> {
  // What is refused is refused here, with its code.
  requireTexts(given.texts);
  const entry = workerFile("@rkat/node", "log/scan-thread");
  if (entry === undefined)
    return scanHere(given, onProgress).catch((thrown) => Promise.reject(incomplete(messageOf(thrown))));
  const worker = new Worker(entry, { workerData: given, execArgv: [] });
  try {
    return await new Promise<Scan>((resolve, reject) => {
      const fail = (why: string) => reject(incomplete(why));
      worker.on("message", (answer: ScanAnswer) => {
        if ("done" in answer) onProgress(answer.done);
        else if ("scan" in answer) resolve(answer.scan);
        else fail(answer.fault);
      });
      worker.once("error", (thrown) => fail(messageOf(thrown)));
      worker.once("exit", () => fail("the thread that scans has ended"));
    });
  } finally {
    await worker.terminate();
  }
}

function incomplete(why: string): RuntimeError {
  return new RuntimeError("SESSION_STORE_ERROR", `cannot look at everything: ${why}`);
}

/** The same in this thread, which others use between two reads. */
export async function scanHere({ folder, texts, except }: FolderScan, onProgress: OnProgress): Promise<Scan> {
  const tally = createTally(onProgress);
  await lookBelow(folder, "", { finder: createFinder(texts), tally, except });
  return tally.end();
}

interface Looking {
  readonly finder: Finder;
  readonly tally: Tally;
  readonly except: string | undefined;
}

async function lookBelow(root: string, below: string, looking: Looking): Promise<void> {
  const { finder, tally, except } = looking;
  for (const entry of await entriesOf(join(root, below))) {
    const place = below === "" ? entry.name : `${below}/${entry.name}`;
    finder.read(Buffer.from(entry.name));
    tally.also(place, inForm("name", finder.end()));
    if (entry.isDirectory() && place !== except) await lookBelow(root, place, looking);
    // What is neither has a name and no bytes.
    if (entry.isFile()) await lookInto(join(root, place), place, looking);
  }
}

/** In the order of their names; none of a folder that has gone meanwhile. */
async function entriesOf(folder: string): Promise<readonly Dirent[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(unlessGone);
  return [...(entries ?? [])].sort((one, other) => (one.name < other.name ? -1 : 1));
}

function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

async function lookInto(path: string, place: string, { finder, tally }: Looking): Promise<void> {
  const file = await open(path, "r").catch(unlessGone);
  if (file === undefined) return;
  let head: Buffer | undefined;
  try {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) break;
      head ??= Buffer.from(buffer.subarray(0, Math.min(bytesRead, FIRST_LINE_MAX)));
      finder.read(buffer.subarray(0, bytesRead));
      tally.bytes(bytesRead);
    }
  } finally {
    await file.close();
  }
  tally.place(place, finder.end());
  if (SEGMENT.test(place)) return tally.also(place, lookInSegment(path, finder));
  const packing = head === undefined ? undefined : packingOf(head);
  if (packing !== undefined) tally.also(place, await lookInside(path, packing, finder));
}

/** What a packed log holds, also behind a damaged block. */
function lookInSegment(path: string, finder: Finder): readonly FoundText[] {
  const fd = openSync(path, "r");
  try {
    const bytes = recordBytes(storedBytes(nodeSegmentIo, fd));
    if (bytes.packedAt === undefined) return [];
    const { holes, torn } = scanSegment(bytes, 0, (buffer, at, place) =>
      finder.read(buffer.subarray(at, at + place.bytes)),
    );
    const found = inForm("gzip", finder.end());
    return holes.length === 0 && torn === undefined ? found : [...found, notToItsEnd("gzip")];
  } finally {
    closeSync(fd);
  }
}

interface Packing {
  readonly name: "gzip" | "zstd";
  readonly start: number;
}

const PACKINGS = [
  { name: "gzip", sign: Buffer.from([0x1f, 0x8b, 0x08]) },
  { name: "zstd", sign: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]) },
] as const;

function packingOf(head: Buffer): Packing | undefined {
  for (const start of [0, head.indexOf(0x0a) + 1]) {
    const found = PACKINGS.find(({ sign }) => head.subarray(start, start + sign.length).equals(sign));
    if (found !== undefined) return { name: found.name, start };
  }
  return undefined;
}

/** What a compressed file holds, as far as it can be unpacked: its bytes as they are were looked at before. */
async function lookInside(path: string, { name, start }: Packing, finder: Finder): Promise<readonly FoundText[]> {
  let bytes = 0;
  const isTooLarge = () => bytes > UNPACKED_BYTES_MAX;
  const unpacked = name === "gzip" ? createGunzip() : createZstdDecompress();
  try {
    await pipeline(createReadStream(path, { start }), unpacked, async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        if (isTooLarge()) return;
        finder.read(chunk);
      }
    });
  } catch (thrown) {
    // A file that only looks like a packed one, or that was cut off, cannot be unpacked any further.
    if (!(thrown instanceof Error && "errno" in thrown && "code" in thrown && String(thrown.code).startsWith("Z"))) {
      throw thrown;
    }
  }
  const found = inForm(name, finder.end());
  return isTooLarge() ? [...found, notToItsEnd(name)] : found;
}

/** Stands for what could not be looked at: it may hold any text. */
function notToItsEnd(name: string): FoundText {
  return { text: -1, form: `${name}, not looked at to its end` };
}

function inForm(name: string, found: readonly FoundText[]): readonly FoundText[] {
  return found.map(({ text, form }) => ({ text, form: form === "plain" ? name : `${name}, ${form}` }));
}
