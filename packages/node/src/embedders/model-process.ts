import { messageOf } from "@rkat/core/contract/error";
import { GTE_SMALL, openGteSmall, type SumOfPieces } from "./gte-small.ts";
import { type ModelAnswer, unusable } from "./model-child.ts";
import { type Asset, createTokenizer, readAsset, readVocabulary, toUnitLength } from "./word-pieces.ts";

const START = "[CLS]";
const END = "[SEP]";

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
    return openGteSmall(bytes);
  } catch (cause) {
    throw unusable(messageOf(cause), cause);
  }
}
