import { type ChildProcess, fork } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, RuntimeError } from "../contract/error.ts";
import { GTE_SMALL, openGteSmall, type SumOfPieces } from "./gte-small.ts";
import { type Asset, createTokenizer, readAsset, readVocabulary, toUnitLength } from "./word-pieces.ts";

const ROLE = "rkat-model";
const START = "[CLS]";
const END = "[SEP]";

/** What the process says: once that it is ready, then a vector for every text it is sent, in order. */
export type ModelAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "vector"; readonly vector: Float32Array }
  | { readonly kind: "failure"; readonly message: string };

/**
 * Starts a process that runs this very file, since in the bundle only the bundler knows its name. A process can count
 * below everything else on the machine and gives all of its memory back when it ends; a thread of ours could do neither.
 */
export function startModelChild(weights: Asset): ChildProcess {
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
  child.send(weights, () => {});
  return child;
}

if (process.argv[2] === ROLE && process.send !== undefined) serve();

function serve(): void {
  const say = (answer: ModelAnswer): void => void process.send?.(answer, undefined, undefined, () => {});
  const fail = (thrown: unknown): void => say({ kind: "failure", message: messageOf(thrown) });
  // Whoever asked has gone, however that ended.
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // Only the file's own `startModelChild` speaks to it: first of the weights, then in texts.
  process.once("message", (weights: Asset) => {
    loadModel(weights).then((embed) => {
      process.on("message", (text: string) => say({ kind: "vector", vector: embed(text) }));
      say({ kind: "ready" });
    }, fail);
  });
}

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

/** Why the local embedder cannot be used. */
export function unusable(why: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `the local embedder cannot be used: ${why}`, { cause });
}
