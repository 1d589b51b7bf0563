import { arch } from "node:os";
import { setFlagsFromString } from "node:v8";
import { messageOf } from "@rkat/core/contract/error";
import { GTE_SMALL, openGteSmall, type SumOfPieces, type Widen } from "./gte-small.ts";
import { type ModelAnswer, unusable } from "./model-child.ts";
import { type Asset, createTokenizer, readAsset, readVocabulary, toUnitLength } from "./word-pieces.ts";

const START = "[CLS]";
const END = "[SEP]";

/** Older engines know the flag and join nothing. */
const V8_JOINS_FROM = 13;
/**
 * Vectors of 256 bits on x64, an experiment of V8: the flag applies to our loops alone. They are compiled by the
 * optimizing compiler at once, so that what is compared here is what runs later.
 */
const WIDEN: Widen | undefined =
  Number.parseInt(process.versions.v8, 10) < V8_JOINS_FROM
    ? undefined
    : (work) => {
        setFlagsFromString("--experimental-wasm-revectorize");
        setFlagsFromString("--no-liftoff");
        try {
          return work();
        } finally {
          setFlagsFromString("--liftoff");
          setFlagsFromString("--no-experimental-wasm-revectorize");
        }
      };

const say = (answer: ModelAnswer): void => void process.send?.(answer, undefined, undefined, () => {});
const fail = (thrown: unknown): void => say({ kind: "failure", message: messageOf(thrown) });
// The parent has gone.
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
// Only `startModelChild` sends messages: first the weights, then texts.
process.once("message", (weights: Asset) => {
  loadModel(weights).then((embed) => {
    process.on("message", (text: string) => say({ kind: "vector", vector: embed(text) }));
    say({ kind: "ready" });
  }, fail);
});

async function loadModel(weights: Asset): Promise<(text: string) => Float32Array> {
  const [bytes, vocabulary] = await Promise.all([readAsset(weights), readVocabulary()]);
  const sumOfPieces = openModel(bytes);
  const tokenize = createTokenizer(vocabulary);
  const [start, end] = [vocabulary.indexOf(START), vocabulary.indexOf(END)];
  return (text) => toUnitLength(sumOfPieces([start, ...tokenize(text, GTE_SMALL.places - 2), end]));
}

function openModel(bytes: Uint8Array): SumOfPieces {
  try {
    return arch() === "x64" ? openGteSmall(bytes, "pairs", WIDEN) : openGteSmall(bytes);
  } catch (cause) {
    throw unusable(messageOf(cause), cause);
  }
}
