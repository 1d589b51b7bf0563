import { parentPort, Worker, workerData } from "node:worker_threads";
import { toUnitLength } from "./unit-length.ts";
import { createTokenizer } from "./word-pieces.ts";

const ROLE = "rkat-model-thread";
const PIECES_MAX = 512;
const START = "[CLS]";
const END = "[SEP]";

/** What a thread needs; the weights are moved to it, not copied. */
export interface ThreadData {
  readonly weights: Uint8Array<ArrayBuffer>;
  readonly vocabulary: readonly string[];
  readonly threads: number;
}

/** What a thread says: once that it is ready, then a vector for every text it is sent, in order. */
export type ThreadAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "vector"; readonly vector: Float32Array<ArrayBuffer> }
  | { readonly kind: "failure"; readonly message: string };

/**
 * Starts a thread that runs this very file, since in the bundle only the bundler knows its name. The native runtime
 * counts on the thread that asks it, in spite of its promises: on the main thread a long text stops every turn.
 */
export function startModelThread(data: ThreadData): Worker {
  return new Worker(new URL(import.meta.url), {
    name: ROLE,
    // Flags of the process are not for this file: `--input-type` alone would keep it from being loaded.
    execArgv: [],
    workerData: { role: ROLE, ...data },
    transferList: [data.weights.buffer],
  });
}

if (isOurs(workerData)) await serve(workerData);

function isOurs(data: unknown): data is ThreadData {
  return typeof data === "object" && data !== null && "role" in data && data.role === ROLE;
}

async function serve(data: ThreadData): Promise<void> {
  const say = (answer: ThreadAnswer) => {
    parentPort?.postMessage(answer, answer.kind === "vector" ? [answer.vector.buffer] : []);
  };
  const fail = (thrown: unknown) => say({ kind: "failure", message: String(thrown) });
  try {
    const embed = await loadModel(data);
    parentPort?.on("message", (text: string) => {
      embed(text).then((vector) => say({ kind: "vector", vector }), fail);
    });
    say({ kind: "ready" });
  } catch (thrown) {
    fail(thrown);
  }
}

async function loadModel(data: ThreadData): Promise<(text: string) => Promise<Float32Array<ArrayBuffer>>> {
  const { InferenceSession, Tensor } = await import("onnxruntime-node");
  const session = await InferenceSession.create(data.weights, {
    intraOpNumThreads: data.threads,
    interOpNumThreads: 1,
    // Threads that spin while they wait cost half as much again on busy cores.
    extra: { session: { intra_op: { allow_spinning: "0" } } },
  });
  const tokenize = createTokenizer(data.vocabulary);
  const [start, end] = [data.vocabulary.indexOf(START), data.vocabulary.indexOf(END)];
  return async (text) => {
    const pieces = [start, ...tokenize(text, PIECES_MAX - 2), end];
    const tensor = (numbers: readonly number[]) =>
      new Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, numbers.length]);
    // One text a call: the model scales its numbers by the largest of a batch, so neighbours would change a vector.
    const { last_hidden_state: states } = await session.run({
      input_ids: tensor(pieces),
      attention_mask: tensor(pieces.map(() => 1)),
      token_type_ids: tensor(pieces.map(() => 0)),
    });
    // The model's output is of floats: its graph says so, and its sha256 was checked.
    return meanOf(states?.data as Float32Array, pieces.length);
  };
}

function meanOf(states: Float32Array, rows: number): Float32Array<ArrayBuffer> {
  const columns = states.length / rows;
  const sum = new Float32Array(columns);
  for (const [index, x] of states.entries()) sum[index % columns] = (sum[index % columns] ?? 0) + x;
  return toUnitLength(sum);
}
