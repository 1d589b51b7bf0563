import { expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { createLineReader, type Line } from "./frames.ts";

function read(chunks: readonly Uint8Array[], lineBytesMax?: number): string[] {
  const reader = createLineReader(lineBytesMax);
  const lines: Line[] = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  return [...lines, ...reader.end()].map((line) =>
    line.kind === "line" ? Buffer.from(line.bytes).toString() : "<too long>",
  );
}

it("cuts the same lines however the bytes arrive", () => {
  const text = "first\n\nzweite Zeile ü\nlast without an end";
  const bytes = Buffer.from(text);
  fc.assert(
    fc.property(fc.array(fc.nat({ max: bytes.length })), (cuts) => {
      const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const chunks = places.slice(1).map((end, index) => bytes.subarray(places[index], end));
      expect(read(chunks)).toEqual(text.split("\n"));
    }),
  );
});

it("[H5] a line over the bound is told of once and skipped to its end", () => {
  const chunks = ["ok\n", "12345678", "90", "still the same line\n", "next\n123456789\nlast"].map((text) =>
    Buffer.from(text),
  );
  expect(read(chunks, 8)).toEqual(["ok", "<too long>", "next", "<too long>", "last"]);
});

it("a line of exactly the bound is read", () => {
  expect(read([Buffer.from("12345678\n"), Buffer.from("123456789\n")], 8)).toEqual(["12345678", "<too long>"]);
});
