import { type ChildProcess, fork } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { RuntimeError } from "../contract/error.ts";
import { workerFile } from "../ports/package-file.ts";
import type { Asset } from "./word-pieces.ts";

/** The process is found by it where processes are listed. */
const NAME = "rkat-model";

/** What the process says: once that it is ready, then a vector for every text it is sent, in order. */
export type ModelAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "vector"; readonly vector: Float32Array }
  | { readonly kind: "failure"; readonly message: string };

/**
 * Starts the process that embeds. A process can count below everything else on the machine and gives all of its memory
 * back when it ends; a thread of ours could do neither.
 */
export function startModelChild(weights: Asset): ChildProcess {
  const entry = workerFile("embedders/model-process");
  if (entry === undefined) throw unusable("the package rkat cannot be found from this bundle");
  const file = fileURLToPath(entry);
  // Options of the program around us are not for this file: `--inspect` alone would take its port.
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = fork(file, [NAME], {
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

/** Why the local embedder cannot be used. */
export function unusable(why: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `the local embedder cannot be used: ${why}`, { cause });
}
