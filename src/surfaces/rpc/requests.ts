import { asRuntimeError, RuntimeError } from "../../contract/error.ts";
import { errorFrame, resultFrame } from "../wire/frames.ts";
import { type Incoming, isRecord, type RequestId } from "../wire/incoming.ts";
import type { Frame, Outbox } from "../wire/lines.ts";
import { CANCELLED_BY_CLIENT } from "../wire/running-turns.ts";
import { withPlainIds } from "../wire/session-refs.ts";
import type { Method } from "./operation-methods.ts";

type Request = Extract<Incoming, { kind: "request" }>;

/** The requests of a connection that are being served, side by side. */
export interface Requests {
  /** Begins to serve a request; what it resolves with is only waited for when the request is refused. */
  begin(request: Request): Promise<void> | undefined;
  /** Interrupts what a request runs; one that is done or unknown is left alone. */
  cancel(id: RequestId): void;
  /** Resolves when each has been answered. */
  settled(): Promise<unknown>;
  /** Interrupts all of them and resolves when each has been answered. */
  end(reason: string): Promise<void>;
}

/** One beyond is refused rather than left unread: it may be the interrupt of another. */
const REQUESTS_MAX = 1_024;

export function createRequests(parts: {
  readonly methods: Readonly<Record<string, Method>>;
  readonly realm: string;
  readonly outbox: Outbox;
}): Requests {
  const { methods, realm, outbox } = parts;
  const running = new Map<RequestId, AbortController>();
  const answering = new Set<Promise<void>>();

  const serve = ({ id, method, params }: Request, signal: AbortSignal): unknown => {
    const run = Object.hasOwn(methods, method) ? methods[method] : undefined;
    if (run === undefined) throw new RuntimeError("METHOD_NOT_FOUND", `there is no method ${method}`);
    if (Array.isArray(params)) throw new RuntimeError("INVALID_PARAMS", "params: expected an object, not a list");
    return run(withPlainIds(isRecord(params) ? params : {}, realm), { requestId: id, signal });
  };
  const answer = async (request: Request, signal: AbortSignal): Promise<Frame> => {
    try {
      return resultFrame(request.id, await serve(request, signal));
    } catch (thrown) {
      return errorFrame(request.id, asRuntimeError(thrown));
    }
  };
  const run = async (request: Request): Promise<void> => {
    const aborting = new AbortController();
    running.set(request.id, aborting);
    const frame = await answer(request, aborting.signal);
    // A client that gives two requests one id can cancel only the later one.
    if (running.get(request.id) === aborting) running.delete(request.id);
    await outbox.send(frame);
  };
  return {
    begin: (request) => {
      if (answering.size >= REQUESTS_MAX) {
        const message = `this connection serves ${REQUESTS_MAX} requests, its limit; wait for one to be answered`;
        return outbox.send(errorFrame(request.id, new RuntimeError("AGENT_ERROR", message)));
      }
      const answered = run(request);
      answering.add(answered);
      void answered.then(() => answering.delete(answered));
      return undefined;
    },
    cancel: (id) => running.get(id)?.abort(CANCELLED_BY_CLIENT),
    settled: () => Promise.all(answering),
    end: async (reason) => {
      for (const aborting of running.values()) aborting.abort(reason);
      await Promise.all(answering);
    },
  };
}
