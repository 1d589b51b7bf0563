import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { createScanner, type Scanner } from "./nearest.ts";
import { layoutFor } from "./simd.ts";

const IDS = 3_000;

/** A scanner whose memory is full of the same noise for the same seed. */
function noisyScanner(dimensions: number, kind: Scanner["kind"], seed: number) {
  const layout = layoutFor(dimensions, IDS);
  const scanner = createScanner(layout, kind);
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
      const [simd, plain] = (["simd", "plain"] as const).map((kind) => {
        const { scanner, layout, tally } = noisyScanner(dimensions, kind, seed);
        scanner.dots(layout.rows, 200);
        const products = [...new Int32Array(scanner.buffer, layout.out, 200)];
        const found = [
          [1, 1_000],
          [1_000, 1_001],
          [1_500, IDS],
        ].map(([first = 0, last = 0]) => {
          const count = scanner.candidates({ first, last, bits: 3, want: 20 });
          return [...new Uint32Array(scanner.buffer, layout.list, count * 2)];
        });
        return { kind: scanner.kind, products, found, tally: [...tally] };
      });
      expect([simd?.kind, plain?.kind]).toEqual(["simd", "plain"]);
      expect({ ...simd, kind: "" }).toEqual({ ...plain, kind: "" });
      expect(simd?.found.flat().length).toBeGreaterThan(20);
    });
  }

  it("[D6] tells at least as many candidates as are wanted, and none that is farther than the last of them", () => {
    const { scanner, layout, tally } = noisyScanner(384, "simd", 5);
    new Uint8Array(scanner.buffer, layout.states, IDS).fill(1);
    new Uint8Array(scanner.buffer, layout.present, IDS).fill(255);
    const count = scanner.candidates({ first: 0, last: IDS, bits: 1, want: 50 });
    const pairs = [...new Uint32Array(scanner.buffer, layout.list, count * 2)];
    const limit = tally[0] ?? 0;
    const near = pairs.filter((distance, at) => at % 2 === 1 && distance <= limit);
    expect(near.length).toBeGreaterThanOrEqual(50);
    expect(near.filter((distance) => distance < limit).length).toBeLessThan(50);
  });
});
