import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import fixture from "./gte-small.fixture.json" with { type: "json" };
import { GTE_SMALL, openGteSmall, type SumOfPieces } from "./gte-small.ts";
import { createTokenizer, readVocabulary, type Tokenize, toUnitLength } from "./word-pieces.ts";

const START = 101;
const END = 102;
/** Of the float model, whose vectors are the fixture: what bytes instead of floats may cost. */
const COSINE_MIN = 0.998;

let tokenize: Tokenize;
let made: readonly Float32Array<ArrayBuffer>[];
let models: Readonly<Record<"relaxed" | "plain", SumOfPieces>>;
beforeAll(async () => {
  tokenize = createTokenizer(await readVocabulary());
  const weights = await readFile(join(import.meta.dirname, "../../assets/gte-small-int8.bin"));
  models = { relaxed: openGteSmall(weights, "relaxed"), plain: openGteSmall(weights, "plain") };
  made = cases.map(({ text }) => toUnitLength(models.relaxed(piecesOf(text))));
});

const piecesOf = (text: string): readonly number[] => [START, ...tokenize(text, GTE_SMALL.places - 2), END];
const dot = (a: Float32Array, b: Float32Array): number => a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);

const cases = fixture.map(({ text, times, vector }) => {
  return { text: text.repeat(times), wanted: new Float32Array(Uint8Array.from(Buffer.from(vector, "base64")).buffer) };
});

describe("gte-small in WebAssembly", () => {
  it("[D5] says nearly what the float model says, of any text", () => {
    const cosines = cases.map(({ wanted }, at) => dot(made[at] ?? new Float32Array(), wanted));
    expect(cosines.filter((cosine) => cosine < COSINE_MIN)).toEqual([]);
  });

  it("[D5] says exactly the same by either kind of products, and after other texts", () => {
    // Backwards: what a longer text left behind must not be seen by a shorter one.
    const again = cases.toReversed().map(({ text }) => toUnitLength(models.plain(piecesOf(text))));
    expect(again.toReversed()).toEqual(made);
  });

  it("[D5] says exactly the same on every machine: vectors that change need another id", () => {
    const hash = createHash("sha256");
    for (const vector of made) hash.update(new Uint8Array(vector.buffer));
    expect(hash.digest("hex")).toBe("26f1f4e88e83522e4aff2a653d9f9698be5a8a9a42562d1c1821056e7717dd1d");
  });

  it("[D5] reads no more of a text of a megabyte than it has places for", () => {
    const text = "a pond \0👩‍👩‍👧‍👦 ".repeat(60_000);
    expect(piecesOf(text)).toHaveLength(GTE_SMALL.places);
    expect(models.relaxed(piecesOf(text)).every(Number.isFinite)).toBe(true);
  });

  it("[D5] refuses weights of another size", () => {
    expect(() => openGteSmall(new Uint8Array(8))).toThrow("8 bytes are not the weights of gte-small");
  });
});
