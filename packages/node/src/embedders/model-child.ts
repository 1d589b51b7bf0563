import { type ChildProcess, fork } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { RuntimeError } from "@rkat/core/contract/error";
import { workerFile } from "@rkat/core/ports/package-file";
import type { Asset } from "./word-pieces.ts";

/** The name in process lists. */
const NAME = "rkat-model";

/** Messages of the process: ready once, then a vector per text, in order. */
export type ModelAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "vector"; readonly vector: Float32Array }
  | { readonly kind: "failure"; readonly message: string };

/** Starts the embedding process. Unlike a thread, it can have a low priority and frees all its memory. */
export function startModelChild(weights: Asset): ChildProcess {
  const entry = workerFile("@rkat/node", "embedders/model-process");
  if (entry === undefined) throw unusable("the package rkat cannot be found from this bundle");
  const file = fileURLToPath(entry);
  // Options of the parent program are not for this file: `--inspect` alone would take its port.
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = fork(file, [NAME], {
    execArgv: [],
    env,
    // The current folder may be deleted, which would prevent the start.
    cwd: dirname(file),
    serialization: "advanced",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    // A separate group: a Ctrl-C that interrupts a turn does not reach it.
    detached: true,
    windowsHide: true,
  });
  // A failed start is reported by its exit.
  child.send(weights, () => {});
  return child;
}

export function unusable(why: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `the local embedder cannot be used: ${why}`, { cause });
}
