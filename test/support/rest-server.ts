import { createInMemoryStore, createRuntime, type Runtime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createJournal, type LogForm } from "@rkat/server/http/journal";
import { createOperator, type Operator, type OperatorParts } from "@rkat/server/http/operator";
import { openRestServer, type RestService } from "@rkat/server/rest/serve";
import { onTestFinished, vi } from "vitest";

export const REALM = "test-realm";

/** A server on a free port of this machine, ended with the test; the offline model and an in-memory store unless told otherwise. */
export async function serveRest(options: RuntimeOptions = {}, service: Partial<RestService> = {}) {
  return serveRuntime(createRuntime({ model: "offline", env: {}, store: createInMemoryStore(), ...options }), service);
}

export async function serveRuntime(runtime: Runtime, service: Partial<RestService> = {}) {
  const server = await openRestServer({
    host: "127.0.0.1",
    port: 0,
    allowedHosts: [],
    token: undefined,
    runtime,
    about: { realm: REALM },
    version: "0.0.0",
    clock: createSystemClock(),
    log: () => {},
    ...service,
  });
  onTestFinished(async () => {
    await runtime.close();
    await server.close();
  });
  return { server, runtime, url: server.url, call: createCaller(server.url) };
}

/** A server that somebody runs, and the lines of its log. */
export async function serveOperated(
  options: RuntimeOptions = {},
  { form = "json", ...service }: Partial<RestService> & { form?: LogForm } & Partial<OperatorParts> = {},
) {
  const lines: string[] = [];
  const clock = createSystemClock();
  const stream = { write: (text: string) => lines.push(...text.trimEnd().split("\n")) };
  const journal = createJournal({ stream, form, command: "rkat-rest", now: clock.now });
  const operator: Operator = createOperator({ journal, clock, version: "0.0.0", stateFolder: undefined, ...service });
  const composed = { model: "offline", env: {}, store: createInMemoryStore(), observer: operator, ...options };
  const runtime = createRuntime(composed);
  const served = await serveRuntime(runtime, { log: journal.say, ...service, operator });
  /** Lines of a kind, once there are so many: what is told of a request is told when its answer has left. */
  const reported = async (kind: string, count: number): Promise<readonly Record<string, unknown>[]> => {
    const found = () => lines.map((line) => JSON.parse(line)).filter((line) => line.kind === kind);
    await vi.waitUntil(() => found().length >= count, { timeout: 60_000 });
    return found();
  };
  return { ...served, operator, lines, reported };
}

interface Reported {
  readonly status: number;
  readonly headers: Headers;
  // The tests say what they expect of it.
  readonly body: Record<string, unknown>;
}

/** Asks with JSON and reads JSON. */
export type Caller = (route: string, body?: unknown, headers?: Record<string, string>) => Promise<Reported>;

export function createCaller(url: string): Caller {
  return async (route, body, headers = {}) => {
    const [method = "", path = ""] = route.split(" ");
    const sent = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, { method, headers: { ...type, ...headers }, ...sent });
    const text = await response.text();
    const isJson = response.headers.get("content-type") === "application/json";
    // Everything served as JSON is an object.
    const reported = (isJson ? JSON.parse(text) : { text }) as Record<string, unknown>;
    return { status: response.status, headers: response.headers, body: reported };
  };
}

export interface SseEvent {
  readonly type: string;
  readonly id: number | undefined;
  readonly data: {
    readonly seq?: number;
    readonly payload?: Record<string, unknown>;
    readonly [field: string]: unknown;
  };
}

/** The events of a stream as they come; leaving the loop closes the connection. */
export async function* readEvents(url: string, headers: Record<string, string> = {}): AsyncGenerator<SseEvent> {
  const leaving = new AbortController();
  const response = await fetch(url, { headers, signal: leaving.signal });
  if (response.status !== 200 || response.body === null) throw new Error(`${response.status} ${await response.text()}`);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      const frames = text.split("\n\n");
      text = frames.pop() ?? "";
      for (const frame of frames) if (!frame.startsWith(":")) yield parseFrame(frame);
    }
  } finally {
    leaving.abort();
  }
}

function parseFrame(frame: string): SseEvent {
  const fields = Object.fromEntries(
    frame.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  const id = fields.id === undefined ? undefined : Number(fields.id);
  return { type: fields.event ?? "", id, data: JSON.parse(fields.data ?? "null") };
}

/** Reads until an event of the type has come, and leaves. */
export async function eventsUntil(stream: AsyncIterable<SseEvent>, type: string): Promise<readonly SseEvent[]> {
  const events: SseEvent[] = [];
  for await (const event of stream) {
    events.push(event);
    if (event.type === type) break;
  }
  return events;
}
