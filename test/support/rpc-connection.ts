import { PassThrough } from "node:stream";
import { createInMemoryStore, createRuntime, type Runtime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { serveRpc } from "@rkat/server/rpc/serve";
import { createRpcClient } from "./rpc-client.ts";

export const REALM = "test-realm";

/** A server and a client in one process, on an in-memory store and the offline model unless told otherwise. */
export function connectRpc(options: RuntimeOptions = {}) {
  return connectTo(createRuntime({ model: "offline", env: {}, store: createInMemoryStore(), ...options }));
}

export function connectTo(runtime: Runtime) {
  const input = new PassThrough();
  const output = new PassThrough();
  const interrupt = new AbortController();
  const logged: string[] = [];
  const ended = serveRpc({
    input,
    output,
    runtime,
    log: (sentence) => logged.push(sentence),
    host: { realm: REALM },
    clock: createSystemClock(),
    signal: interrupt.signal,
  });
  return { client: createRpcClient(input, output), input, output, runtime, interrupt, logged, ended };
}
