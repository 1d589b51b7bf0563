import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import fixture from "./gte-small.fixture.json" with { type: "json" };
import { agreeing, GTE_SMALL, openGteSmall, type SumOfPieces } from "./gte-small.ts";
import { createLocalEmbedder } from "./local.ts";
import { createTokenizer, readVocabulary, type Tokenize, toUnitLength } from "./word-pieces.ts";

const START = 101;
const END = 102;
/** Of the float model, whose vectors are the fixture: what bytes instead of floats may cost. */
const COSINE_MIN = 0.9975;

let tokenize: Tokenize;
let made: readonly Float32Array<ArrayBuffer>[];
let models: Readonly<Record<"relaxed" | "pairs" | "widePairs", SumOfPieces>>;
beforeAll(async () => {
  tokenize = createTokenizer(await readVocabulary());
  const weights = await readFile(join(import.meta.dirname, "../../assets/gte-small-int8.bin"));
  models = {
    relaxed: openGteSmall(weights, "relaxed"),
    pairs: openGteSmall(weights, "pairs"),
    widePairs: openGteSmall(weights, "widePairs"),
  };
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

  it.each(["pairs", "widePairs"] as const)("[D5] says exactly the same by %s, and after other texts", (kind) => {
    // Backwards: what a longer text left behind must not be seen by a shorter one.
    const again = cases.toReversed().map(({ text }) => toUnitLength(models[kind](piecesOf(text))));
    expect(again.toReversed()).toEqual(made);
  });

  it("[D5] says exactly the same in the embedder's process, whose vectors may be wider", async () => {
    const embedder = createLocalEmbedder();
    const texts = cases.map(({ text }) => text);
    expect(await embedder.embed(texts, "passage", new AbortController().signal)).toEqual(made);
    await embedder.close();
  });

  it("[D5] does without wider vectors that give something else", () => {
    const [wanted, other] = [Float32Array.of(1, 2), Float32Array.of(1, 3)];
    const right: SumOfPieces = () => wanted;
    const wrong: SumOfPieces = () => other;
    const narrow: SumOfPieces = () => wanted;
    expect(agreeing(wanted, right, narrow)).toBe(right);
    expect(agreeing(wanted, wrong, narrow)).toBe(narrow);
  });

  it("[D5] says exactly the same on every machine: vectors that change need another id", () => {
    const hash = createHash("sha256");
    for (const vector of made) hash.update(new Uint8Array(vector.buffer));
    expect(hash.digest("hex")).toBe("a07546192690e0efe29fc6cd3775adb7e4362a6f139eba797b3db4d06d46af84");
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
