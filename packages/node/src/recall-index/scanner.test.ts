import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { createScanner, layoutFor, type ScanLayout, type Scanner } from "./simd.ts";

const IDS = 3_000;

/** A scanner whose memory is full of the same noise for the same seed. */
function noisyScanner(dimensions: number, create: (layout: ScanLayout) => Scanner, seed: number) {
  const layout = layoutFor(dimensions, IDS);
  const scanner = create(layout);
  const bytes = new Uint8Array(scanner.buffer, 0, layout.bytes);
  const random = createRandom(seed);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = random() * 256;
  const query = new Int16Array(scanner.buffer, layout.query, layout.rowBytes);
  for (let at = 0; at < query.length; at += 1) query[at] = Math.round((random() - 0.5) * 2 * 2_047);
  const tally = new Uint32Array(scanner.buffer, layout.tally, layout.signatureBytes * 8 + 3).fill(0);
  tally[0] = layout.signatureBytes * 8;
  return { scanner, layout, tally };
}

describe("a scan with SIMD", () => {
  for (const dimensions of [1, 8, 100, 384, 1_000, 1_536, 4_096]) {
    it(`[D6] finds in ${dimensions} dimensions exactly what plain loops find`, () => {
      const seed = dimensions * 31;
      const [simd, plain] = [createScanner, createPlainScanner].map((create) => {
        const { scanner, layout, tally } = noisyScanner(dimensions, create, seed);
        scanner.dots(layout.rows, 200);
        const products = [...new Int32Array(scanner.buffer, layout.out, 200)];
        const found = [
          [1, 1_000],
          [1_000, 1_001],
          [1_500, IDS],
        ].map(([first = 0, last = 0]) => {
          const count = scanner.candidates(first, last, 3, 20);
          return [...new Uint32Array(scanner.buffer, layout.list, count * 2)];
        });
        return { products, found, tally: [...tally] };
      });
      expect(simd).toEqual(plain);
      expect(simd?.found.flat().length).toBeGreaterThan(20);
    });
  }

  it("[D6] tells at least as many candidates as are wanted, and none that is farther than the last of them", () => {
    const { scanner, layout, tally } = noisyScanner(384, createScanner, 5);
    new Uint8Array(scanner.buffer, layout.states, IDS).fill(1);
    new Uint8Array(scanner.buffer, layout.present, IDS).fill(255);
    const count = scanner.candidates(0, IDS, 1, 50);
    const pairs = [...new Uint32Array(scanner.buffer, layout.list, count * 2)];
    const limit = tally[0] ?? 0;
    const near = pairs.filter((distance, at) => at % 2 === 1 && distance <= limit);
    expect(near.length).toBeGreaterThanOrEqual(50);
    expect(near.filter((distance) => distance < limit).length).toBeLessThan(50);
  });
});

/** The same loops in plain TypeScript. */
function createPlainScanner(layout: ScanLayout): Scanner {
  const buffer = new ArrayBuffer(layout.bytes);
  const bytes = new Uint8Array(buffer);
  const words = new Uint32Array(buffer);
  const numbers = new Int8Array(buffer);
  const query = new Int16Array(buffer, layout.query, layout.rowBytes);
  const out = new Int32Array(buffer, layout.out);
  const tally = layout.tally / 4;
  const list = layout.list / 4;

  const dots: Scanner["dots"] = (rows, count) => {
    for (let row = 0; row < count; row += 1) {
      const at = rows + row * layout.stride;
      let sum = 0;
      for (let index = 0; index < layout.rowBytes; index += 1) {
        sum += (numbers[at + index] ?? 0) * (query[index] ?? 0);
      }
      out[row] = sum;
    }
  };

  const distance = (id: number): number => {
    const row = (layout.signatures + id * layout.signatureBytes) / 4;
    const asked = layout.signature / 4;
    let sum = 0;
    for (let word = 0; word < layout.signatureBytes / 4; word += 1) {
      sum += ones((words[row + word] ?? 0) ^ (words[asked + word] ?? 0));
    }
    return sum;
  };

  const countAt = (value: number): number => words[tally + 2 + value] ?? 0;

  const candidates: Scanner["candidates"] = (first, last, bits, want) => {
    let limit = words[tally] ?? 0;
    let within = words[tally + 1] ?? 0;
    let found = 0;
    for (let id = first; id < last; id += 1) {
      if (((bytes[layout.states + id] ?? 0) & (bytes[layout.present + id] ?? 0) & bits) !== bits) continue;
      const away = distance(id);
      if (away > limit) continue;
      words[list + found * 2] = id;
      words[list + found * 2 + 1] = away;
      found += 1;
      words[tally + 2 + away] = countAt(away) + 1;
      within += 1;
      while (within - countAt(limit) >= want) {
        within -= countAt(limit);
        limit -= 1;
      }
    }
    words[tally] = limit;
    words[tally + 1] = within;
    return found;
  };

  return { buffer, dots, candidates };
}

function ones(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
