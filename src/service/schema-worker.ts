import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { messageOf } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";
import { type CheckInWorker, createValidator, type Verdict } from "../core/json-schema.ts";
import { workerFile } from "../ports/package-file.ts";

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

/** Checks in a thread of its own, which is ended when it takes too long; the process has a few of them for everybody. */
export const checkInWorker: CheckInWorker = async (schema, value) => {
  if (running >= WORKERS_MAX) await new Promise<void>((resolve) => waiting.push(resolve));
  else running += 1;
  try {
    const entry = workerFile("service/schema-thread");
    if (entry === undefined) return await checkHere({ schema, value });
    const worker = idle.pop() ?? (await start(entry));
    return await checkIn(worker, { schema, value });
  } catch (thrown) {
    return { fault: messageOf(thrown) };
  } finally {
    // Whoever waits takes the place that was ours.
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
      // A process that has nothing else to do may end.
      worker.unref();
      resolve(verdict);
    };
    const late = setTimeout(() => {
      settle({ fault: TOO_LATE }, false);
    }, CHECK_MS_MAX);
    worker.ref();
    worker.once("message", (verdict: Verdict) => settle(verdict, true)); // Only the thread speaks here.
    worker.once("error", (thrown) => settle({ fault: messageOf(thrown) }, false));
    worker.once("exit", () => settle({ fault: "the thread that checks it has ended" }, false));
    try {
      worker.postMessage(order);
    } catch (thrown) {
      settle({ fault: messageOf(thrown) }, true); // What cannot be copied, such as a function.
    }
  });
}

/** Nobody waits for it any more; an error without a listener would end the process. */
function forget(worker: Worker): void {
  for (const event of ["message", "error", "exit"]) worker.removeAllListeners(event);
  worker.on("error", () => {});
}

/** The same in this thread, which stands still meanwhile; only a script of its own can be ended when it takes too long. */
async function checkHere({ schema, value }: SchemaOrder): Promise<Verdict> {
  const validate = await createValidator(schema);
  try {
    return runInNewContext("validate(value)", { validate, value }, { timeout: CHECK_MS_MAX });
  } catch (thrown) {
    if (Object(thrown).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw thrown;
    return { fault: TOO_LATE };
  }
}
