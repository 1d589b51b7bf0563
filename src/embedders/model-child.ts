import { type ChildProcess, fork } from "node:child_process";
import { constants, setPriority } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, RuntimeError } from "../contract/error.ts";
import { type Asset, createTokenizer, readAsset, readVocabulary, toUnitLength } from "./word-pieces.ts";

const ROLE = "rkat-model";
const PIECES_MAX = 512;
const START = "[CLS]";
const END = "[SEP]";

/** The first thing the process is told; every further message is a text. */
interface ModelOrder {
  readonly weights: Asset;
  readonly threads: number;
}

/** What the process says: once that it is ready, then a vector for every text it is sent, in order. */
export type ModelAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "vector"; readonly vector: Float32Array }
  | { readonly kind: "failure"; readonly message: string };

/**
 * Starts a process that runs this very file, since in the bundle only the bundler knows its name. The native runtime
 * aborts whatever process ends while it counts, and one with a long command line: it must not be ours.
 */
export function startModelChild(order: ModelOrder): ChildProcess {
  const file = fileURLToPath(import.meta.url);
  // Options of the program around us are not for this file: `--inspect` alone would take its port.
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = fork(file, [ROLE], {
    execArgv: [],
    env,
    // A folder that is deleted meanwhile would keep it from starting.
    cwd: dirname(file),
    serialization: "advanced",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    // In a group of its own: a Ctrl-C that interrupts a turn does not reach it.
    detached: true,
    windowsHide: true,
  });
  // One that does not start is heard of by its end.
  child.send(order, () => {});
  return child;
}

if (process.argv[2] === ROLE && process.send !== undefined) serve();

function serve(): void {
  // Whoever talks goes first: most of what is embedded is waited for by nobody.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  const say = (answer: ModelAnswer): void => void process.send?.(answer, undefined, undefined, () => {});
  const fail = (thrown: unknown): void => say({ kind: "failure", message: messageOf(thrown) });
  // Whoever asked has gone, however that ended. Not by an exit: the native runtime may abort there.
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // Only the file's own `startModelChild` speaks to it: an order, then texts.
  process.once("message", (order: ModelOrder) => {
    loadModel(order).then((embed) => {
      process.on("message", (text: string) => {
        embed(text).then((vector) => say({ kind: "vector", vector }), fail);
      });
      say({ kind: "ready" });
    }, fail);
  });
}

async function loadModel({ weights, threads }: ModelOrder): Promise<(text: string) => Promise<Float32Array>> {
  const [bytes, vocabulary] = await Promise.all([readAsset(weights), readVocabulary()]);
  const { session, Tensor } = await openSession(bytes, threads).catch((cause: unknown) => {
    throw unusable(messageOf(cause), cause);
  });
  const tokenize = createTokenizer(vocabulary);
  const [start, end] = [vocabulary.indexOf(START), vocabulary.indexOf(END)];
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

async function openSession(weights: Uint8Array, threads: number) {
  const { InferenceSession, Tensor } = await import("onnxruntime-node");
  const session = await InferenceSession.create(weights, {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    // Threads that spin while they wait cost half as much again on busy cores.
    extra: { session: { intra_op: { allow_spinning: "0" } } },
  });
  return { session, Tensor };
}

function meanOf(states: Float32Array, rows: number): Float32Array {
  const columns = states.length / rows;
  const sum = new Float32Array(columns);
  for (const [index, x] of states.entries()) sum[index % columns] = (sum[index % columns] ?? 0) + x;
  return toUnitLength(sum);
}

/** Why the local embedder cannot be used. */
export function unusable(why: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `the local embedder cannot be used: ${why}`, { cause });
}
