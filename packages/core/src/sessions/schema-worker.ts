import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { messageOf } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";
import { workerFile } from "../ports/package-file.ts";
import { type CheckInWorker, createValidator, type Verdict } from "../turn/json-schema.ts";

const CHECK_MS_MAX = 2_000;
const WORKERS_MAX = 2;
const HEAP_MB = 128;
const TOO_LATE = `it took longer than ${CHECK_MS_MAX / 1_000} seconds; make its patterns and references simpler`;

export interface SchemaOrder {
  readonly schema: JsonObject;
  readonly value: unknown;
}

const idle: Worker[] = [];
const waiting: (() => void)[] = [];
let running = 0;

/** Validates in a worker, which is ended after a timeout; the process has a few of them. */
export const checkInWorker: CheckInWorker = async (schema, value) => {
  if (running >= WORKERS_MAX) await new Promise<void>((resolve) => waiting.push(resolve));
  else running += 1;
  try {
    const entry = workerFile("@rkat/core", "sessions/schema-thread");
    if (entry === undefined) return await checkHere({ schema, value });
    const worker = idle.pop() ?? (await start(entry));
    return await checkIn(worker, { schema, value });
  } catch (thrown) {
    return { fault: messageOf(thrown) };
  } finally {
    // The next waiter takes the free place.
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  }
};

async function start(entry: URL): Promise<Worker> {
  const worker = new Worker(entry, { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } });
  await new Promise((resolve, reject) => {
    worker.once("message", resolve).once("error", reject);
    worker.once("exit", () => reject(new Error("the thread that checks schemas did not start")));
  });
  forget(worker);
  return worker;
}

function checkIn(worker: Worker, order: SchemaOrder): Promise<Verdict> {
  return new Promise((resolve) => {
    const settle = (verdict: Verdict, isUsable: boolean): void => {
      clearTimeout(late);
      forget(worker);
      if (isUsable) idle.push(worker);
      else void worker.terminate();
      // The worker must not keep the process alive.
      worker.unref();
      resolve(verdict);
    };
    const late = setTimeout(() => {
      settle({ fault: TOO_LATE }, false);
    }, CHECK_MS_MAX);
    worker.ref();
    worker.once("message", (verdict: Verdict) => settle(verdict, true)); // Only the worker sends messages here.
    worker.once("error", (thrown) => settle({ fault: messageOf(thrown) }, false));
    worker.once("exit", () => settle({ fault: "the thread that checks it has ended" }, false));
    try {
      worker.postMessage(order);
    } catch (thrown) {
      settle({ fault: messageOf(thrown) }, true); // A value that cannot be copied, such as a function.
    }
  });
}

/** An error without a listener would end the process. */
function forget(worker: Worker): void {
  for (const event of ["message", "error", "exit"]) worker.removeAllListeners(event);
  worker.on("error", () => {});
}

/** Validates in this thread, which blocks; only a separate script could be ended after a timeout. */
async function checkHere({ schema, value }: SchemaOrder): Promise<Verdict> {
  const validate = await createValidator(schema);
  try {
    return runInNewContext("validate(value)", { validate, value }, { timeout: CHECK_MS_MAX });
  } catch (thrown) {
    if (Object(thrown).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw thrown;
    return { fault: TOO_LATE };
  }
}
