import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import { type Driver, eventIn, type Fields, failure, lackOfTurns, type Outcome } from "./driver.ts";

/** A server of REST: where it is, and how it is started again, when that is in our hands. */
export interface HttpServer {
  readonly url: string;
  readonly token?: string | undefined;
  readonly restart?: (() => Promise<string>) | undefined;
  close(): Promise<void>;
}

/** Tells scenarios through a server of REST. */
export function createRestDriver(server: HttpServer): Driver {
  let { url } = server;
  return {
    surface: "rest",
    lacks: (ability, present) => {
      if (ability === "questions" && server.token === undefined) return "only who has a token may answer";
      return lackOfServer(server, ability) ?? lackOfTurns(ability, present);
    },
    hasEvents: (operation) => WIRE_TABLE[operation].hasEvents,
    call: async (operation, input, onEvent) => {
      const { method, path, query, body } = requestOf(operation, input);
      const headers = {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(onEvent === undefined ? {} : { accept: "text/event-stream" }),
        ...(server.token === undefined ? {} : { authorization: `Bearer ${server.token}` }),
      };
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await fetch(`${url}${path}${query}`, { method, headers, ...sent });
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      if (!isStream || response.body === null) return outcomeOf(operation, response.status, await response.json());
      for await (const { event, data } of sseFrames(response.body)) {
        if (event === "result") return { ok: true, result: asTable(operation, data) };
        // The status line had been sent before the turn failed, so the code speaks alone.
        if (event === "error") return { ...failed(data), ok: false };
        onEvent?.(named(event, eventIn(data)));
      }
      return { ok: false, code: "no code", message: "the stream ended without a result" };
    },
    restart: async () => {
      if (server.restart !== undefined) url = await server.restart();
    },
    close: () => server.close(),
  };
}

/** What a server at an address cannot do that is not ours to start. */
export function lackOfServer(
  { restart, token }: Pick<HttpServer, "restart" | "token">,
  ability: string,
): string | undefined {
  if (ability === "operation" && token === undefined) return "only who has a token may do it";
  if (ability === "skills" && restart === undefined) return "a server that was started elsewhere has its own skills";
  if (ability !== "restart" || restart !== undefined) return undefined;
  return "a server that was started elsewhere is not restarted";
}

/** An operation's input spread over a request, as the table's route says (contract §5, §15). */
function requestOf(operation: OperationName, input: Fields) {
  const [method = "", route = ""] = OPERATIONS[operation].http.split(" ");
  const { scope, cursor, labels, ...plain } = input;
  const isRead = method === "GET" || method === "DELETE";
  const fields: Fields = {
    ...plain,
    ...(isRecord(scope) ? { session_id: scope.session_id } : scope === undefined ? {} : { scope }),
    ...(cursor === undefined ? {} : { cursor: isRecord(cursor) ? cursor.sequence : cursor }),
    ...(isRead || labels === undefined ? {} : { labels }),
  };
  const inPath = [...route.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
  const path = inPath.reduce((so, name) => so.replace(`{${name}}`, encodeURIComponent(String(fields[name]))), route);
  const rest = Object.entries(fields).filter(([name]) => !inPath.includes(name));
  if (!isRead) return { method, path, query: "", body: Object.fromEntries(rest) };
  const search = new URLSearchParams(Object.fromEntries(rest.map(([name, value]) => [name, String(value)])));
  if (isRecord(labels)) for (const [key, value] of Object.entries(labels)) search.append("label", `${key}=${value}`);
  return { method, path, query: search.size === 0 ? "" : `?${search}`, body: undefined };
}

function outcomeOf(operation: OperationName, status: number, body: unknown): Outcome {
  if (status === 200) return { ok: true, result: asTable(operation, body) };
  return failure(failed(body), { kind: "http", value: status });
}

function failed(body: unknown): { code: string; message: string; details?: unknown } {
  const { code, message, details } = isRecord(body) ? body : { code: "no code", message: body, details: undefined };
  return { code: String(code), message: String(message), ...(details === undefined ? {} : { details }) };
}

/** Times of a session are RFC 3339 here (contract §5), and seconds in the table. */
function asTable(operation: OperationName, body: unknown): unknown {
  if (operation !== "readSession" || !isRecord(body)) return body;
  const seconds = (time: unknown): unknown =>
    typeof time === "string" ? Date.parse(time) / 1_000 : `${time}, no time`;
  return { ...body, created_at: seconds(body.created_at), updated_at: seconds(body.updated_at) };
}

/** The name of a server-sent event is the type of what it carries. */
function named(name: string, event: ReturnType<typeof eventIn>): ReturnType<typeof eventIn> {
  return name === event.type ? event : { type: `a ${event.type} under the name ${name}`, event };
}

/** One server-sent event. */
export interface SseFrame {
  readonly event: string;
  readonly data: unknown;
}

const FRAME_CHARS_MAX = 64 * 1024 * 1024;

/** The events of a response as they come. */
export async function* sseFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<SseFrame> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const frames = text.split(/\r?\n\r?\n/);
    text = frames.pop() ?? "";
    if (text.length > FRAME_CHARS_MAX) throw new Error(`an event holds more than ${FRAME_CHARS_MAX} characters`);
    for (const frame of frames) {
      const fields = fieldsOf(frame);
      // A comment keeps the connection alive and says nothing.
      if (fields.has("data"))
        yield { event: fields.get("event") ?? "message", data: JSON.parse(fields.get("data") ?? "") };
    }
  }
}

function fieldsOf(frame: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of frame.split(/\r?\n/)) {
    const [name = "", ...rest] = line.split(":");
    const value = rest.join(":").replace(/^ /, "");
    const before = fields.get(name);
    if (name !== "") fields.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  return fields;
}
