import { addAbortSignal, type Readable, type Writable } from "node:stream";
import { RuntimeError } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Runtime } from "../../runtime.ts";
import { errorFrame, faultFrame } from "../wire/frames.ts";
import { createHostMethods, type Host } from "../wire/host.ts";
import { isRecord, NO_ID, parseIncoming } from "../wire/incoming.ts";
import { LINE_BYTES_MAX, type Line } from "../wire/lines.ts";
import { createOutbox } from "../wire/outbox.ts";
import { readLines } from "../wire/read-lines.ts";
import { createCallbackTools } from "./callback-tools.ts";
import { createOperationMethods, type Method } from "./operation-methods.ts";
import { createRequests } from "./requests.ts";
import { createStreams } from "./streams.ts";

/** One connection: a runtime, and the two streams a client speaks over. */
export interface RpcConnection {
  readonly input: Readable;
  readonly output: Writable;
  /** Told, in a sentence, of what the client got wrong and cannot be answered. */
  readonly log: (sentence: string) => void;
  readonly runtime: Pick<Runtime, "dispatch" | "subscribe">;
  readonly host: Host;
  readonly clock: Clock;
  /** Aborting it ends the connection as the end of the input does. */
  readonly signal: AbortSignal;
}

/** How long what was asked may go on after the end of the input: a script pipes its requests in and reads on. */
const FINISH_MS_MAX = 2_000;
/** How long turns may take to end once they are interrupted. */
const DRAIN_MS_MAX = 1_500;
/** What a client may send without waiting for an answer. */
const NOTIFICATIONS: readonly string[] = ["initialized", "cancel"];

/**
 * Serves JSON-RPC until the input ends, the output breaks or the signal aborts. Then it interrupts the turns it
 * runs, at the end of the input only those that do not end by themselves in a moment, and resolves when they have ended
 * or their time is up. The runtime stays open.
 */
export async function serveRpc(connection: RpcConnection): Promise<void> {
  const { input, runtime, host, clock, log } = connection;
  const ending = new AbortController();
  const ended = new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve()));
  const end = (): void => ending.abort("the connection ended");
  const outbox = createOutbox(connection.output, end);
  const tools = createCallbackTools(outbox);
  const streams = createStreams({ runtime, outbox, newId: clock.newId });
  const methods: Readonly<Record<string, Method>> = {
    ...createHostMethods(runtime, host, () => [...NOTIFICATIONS, ...Object.keys(methods)]),
    ...createOperationMethods({ runtime, realm: host.realm, outbox, tools, newId: clock.newId }),
    "session/stream_open": streams.open,
    "session/stream_close": streams.close,
    "tools/register": tools.register,
  };
  const requests = createRequests({ methods, realm: host.realm, outbox });

  /** What is returned is to be waited for before the next line is read. */
  const take = (line: Line): Promise<void> | undefined => {
    if (line.kind === "too_long") {
      const message = `a line is longer than ${LINE_BYTES_MAX} bytes and was skipped`;
      return outbox.send(errorFrame(NO_ID, new RuntimeError("PAYLOAD_TOO_LARGE", message)));
    }
    const incoming = parseIncoming(line.bytes);
    switch (incoming?.kind) {
      case "request":
        return requests.begin(incoming);
      case "fault":
        return outbox.send(faultFrame(incoming.id, incoming.fault));
      case "response":
        return tools.answer(incoming.id, incoming.answer);
      case "notification":
        return hear(incoming.method, incoming.params);
      case undefined:
        return undefined;
    }
  };
  const hear = (method: string, params: unknown): undefined => {
    if (method === "cancel" && isRecord(params)) requests.cancel(JSON.stringify(params.request_id) ?? NO_ID);
    else if (!NOTIFICATIONS.includes(method)) log(`the notification ${method} is not known and was ignored`);
  };

  connection.signal.addEventListener("abort", end, { once: true });
  if (connection.signal.aborted) end();
  await Promise.race([readLines(addAbortSignal(ending.signal, input), take), ended]);
  const drained = new AbortController();
  await Promise.race([requests.settled(), ended, clock.sleep(FINISH_MS_MAX, drained.signal)]);
  end();
  const draining = Promise.all([requests.end("the connection ended"), streams.closeAll()]);
  await Promise.race([draining, clock.sleep(DRAIN_MS_MAX, drained.signal)]);
  drained.abort("drained");
}
