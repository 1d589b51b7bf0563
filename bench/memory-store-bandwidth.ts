import { createScanner, layoutFor, SCAN_IDS_MAX, SCAN_ROWS_MAX } from "@rkat/node/recall-index/simd";
import { createRandom } from "../test/crash/random.ts";
import { DIMENSIONS } from "./memory-store-data.ts";
import { median } from "./report.ts";

const IDS = 1_000_000;
const RUNS = 9;
const BLOCK_BYTES = 128 * 1_024 * 1_024;

/** Bytes a second, by CPU time, of one thread. */
export interface Bandwidth {
  /** What the memory delivers at best. */
  readonly memory: number;
  /** What the scan of signatures, and that of rows, get through. */
  readonly bits: number;
  readonly bytes: number;
}

export function measureBandwidth(): Bandwidth {
  return { memory: measureMemory(), ...measureScans() };
}

/** Comparing two equal blocks reads both to their ends, and does nothing else. */
function measureMemory(): number {
  const [one, other] = [Buffer.alloc(BLOCK_BYTES, 1), Buffer.alloc(BLOCK_BYTES, 1)];
  return bytesPerSecond(BLOCK_BYTES * 2, () => {
    if (one.compare(other) !== 0) throw new Error("equal blocks differ");
  });
}

function measureScans(): { readonly bits: number; readonly bytes: number } {
  const layout = layoutFor(DIMENSIONS, IDS);
  const scanner = createScanner(layout);
  const random = createRandom(3);
  const words = new Uint32Array(scanner.buffer);
  for (let at = layout.signatures / 4; at < words.length; at += 1) words[at] = random() * 2 ** 32;
  new Uint8Array(scanner.buffer, layout.states, IDS).fill(1);
  new Uint8Array(scanner.buffer, layout.present, IDS).fill(255);
  const bits = bytesPerSecond(IDS * layout.signatureBytes, () => {
    words.fill(0, layout.tally / 4, layout.list / 4);
    words[layout.tally / 4] = DIMENSIONS;
    for (let first = 0; first < IDS; first += SCAN_IDS_MAX) {
      scanner.candidates(first, Math.min(IDS, first + SCAN_IDS_MAX), 1, 256);
    }
  });
  // The signatures' room, taken for rows: as much memory, read the other way.
  const blocks = Math.floor((IDS * layout.signatureBytes) / (SCAN_ROWS_MAX * layout.stride));
  const bytes = bytesPerSecond(blocks * SCAN_ROWS_MAX * layout.stride, () => {
    for (let block = 0; block < blocks; block += 1) {
      scanner.dots(layout.signatures + block * SCAN_ROWS_MAX * layout.stride, SCAN_ROWS_MAX);
    }
  });
  return { bits, bytes };
}

function bytesPerSecond(bytes: number, work: () => void): number {
  const times = Array.from({ length: RUNS }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  });
  return bytes / median(times);
}
