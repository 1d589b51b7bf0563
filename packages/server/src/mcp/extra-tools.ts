import type { CallToolResult, Tool } from "@modelcontextprotocol/sdk/types.js";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import { EXTRA_TOOLS, type ExtraTool, objectSchemaOf } from "@rkat/core/contract/wire/mcp-tools";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { Clock } from "@rkat/core/ports/clock";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import type { CallerRuntime } from "../http/caller-runtime.ts";
import { listenTo, type Params, toEnvelope, withPlainIds } from "../http/events.ts";
import { jsonResult, toolFailure } from "./call-tool.ts";

/** The tools of one client that are no rows of the table of operations. */
export interface ExtraTools {
  /** Undefined for a tool that is none of these. It does not reject. */
  call(name: string, args: Params, signal: AbortSignal): Promise<CallToolResult> | undefined;
  close(): void;
}

interface ExtraParts extends CallerRuntime {
  readonly realm: string;
  readonly clock: Clock;
}

interface OpenStream {
  readonly sessionId: string;
  readonly deliveries: AsyncIterator<Delivery>;
  readonly stopping: AbortController;
  /** The event that is waited for: a read that gave up leaves it to the next. */
  next: Promise<IteratorResult<Delivery>> | undefined;
}

const STREAMS_MAX = 64;

// The keys of EXTRA_TOOLS are its names.
const NAMES = Object.keys(EXTRA_TOOLS) as ExtraTool[];

/** The tools as they are listed. */
export function describeExtraTools(): readonly Tool[] {
  return NAMES.map((name) => {
    const { summary, input } = EXTRA_TOOLS[name];
    const inputSchema = objectSchemaOf(input);
    if (inputSchema === undefined) throw new Error(`${name} does not take an object`);
    const annotations = { readOnlyHint: true, openWorldHint: false };
    return { name, description: summary, inputSchema, annotations };
  });
}

export function createExtraTools({ subscribe, realm, clock }: ExtraParts): ExtraTools {
  const streams = new Map<string, OpenStream>();

  const open = async (params: Params) => {
    const { session_id } = parseParams(EXTRA_TOOLS.meerkat_event_stream_open.input, params);
    if (streams.size >= STREAMS_MAX) {
      throw new RuntimeError("AGENT_ERROR", `this client has ${STREAMS_MAX} event streams open, its limit; close one`);
    }
    const stopping = new AbortController();
    const deliveries = await listenTo(subscribe, session_id, { signal: stopping.signal });
    const stream_id = clock.newId();
    streams.set(stream_id, { sessionId: session_id, deliveries, stopping, next: undefined });
    return { stream_id, session_id };
  };
  const read = async (params: Params, signal: AbortSignal) => {
    const { stream_id, timeout_ms, no_timeout } = parseParams(EXTRA_TOOLS.meerkat_event_stream_read.input, params);
    const stream = streams.get(stream_id);
    if (stream === undefined) return { stream_id, status: "closed" };
    stream.next ??= stream.deliveries.next();
    const done = new AbortController();
    const given = AbortSignal.any([signal, done.signal]);
    const patience = no_timeout ? aborted(given) : clock.sleep(timeout_ms, given);
    const next = await Promise.race([stream.next, patience.then(() => undefined)]);
    done.abort("read");
    if (next === undefined) return { stream_id, status: "timeout" };
    stream.next = undefined;
    if (next.done === true) {
      streams.delete(stream_id);
      return { stream_id, status: "closed" };
    }
    return { stream_id, status: "event", event: toEnvelope(stream.sessionId, next.value, clock.newId) };
  };
  const close = (params: Params) => {
    const { stream_id } = parseParams(EXTRA_TOOLS.meerkat_event_stream_close.input, params);
    const already_closed = !streams.has(stream_id);
    streams.get(stream_id)?.stopping.abort("closed");
    streams.delete(stream_id);
    return { stream_id, closed: true, already_closed };
  };
  const run: Readonly<Record<ExtraTool, (params: Params, signal: AbortSignal) => unknown>> = {
    meerkat_event_stream_open: open,
    meerkat_event_stream_read: read,
    meerkat_event_stream_close: close,
  };
  const answer = async (name: ExtraTool, args: Params, signal: AbortSignal): Promise<CallToolResult> => {
    try {
      return jsonResult(await run[name](withPlainIds(args, realm), signal));
    } catch (thrown) {
      return toolFailure(asRuntimeError(thrown));
    }
  };
  return {
    call: (name, args, signal) => {
      const known = NAMES.find((one) => one === name);
      return known === undefined ? undefined : answer(known, args, signal);
    },
    close: () => {
      for (const { stopping } of streams.values()) stopping.abort("the client left");
      streams.clear();
    },
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
