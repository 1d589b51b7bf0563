import { RuntimeError } from "../../contract/error.ts";
import { sleep } from "../sleep.ts";
import { unreachable } from "./exchange.ts";

/** One event of a stream: its name, and what its data says. */
export interface ServerSentEvent {
  readonly type: string;
  readonly data: unknown;
}

/** The longest line that is held; the other wire's bound is the same. */
const LINE_CHARS_MAX = 64 * 1_024 * 1_024;
/** The server says something every 15 s, if only that it is there. */
const SILENCE_MS_MAX = 60_000;

export function isEventStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") === true;
}

/** The events of an answer as they come; ends with it, and throws when the connection breaks or falls silent. */
export async function* readServerSentEvents(response: Response, url: string): AsyncGenerator<ServerSentEvent> {
  let type = "message";
  let data: string[] = [];
  for await (const line of linesOf(response, url)) {
    if (line === "") {
      if (data.length > 0) yield { type, data: parseData(data.join("\n"), url) };
      type = "message";
      data = [];
      continue;
    }
    const { field, value } = fieldOf(line);
    if (field === "event") type = value;
    if (field === "data") data.push(value);
  }
}

function fieldOf(line: string): { readonly field: string; readonly value: string } {
  const colon = line.indexOf(":");
  if (colon < 0) return { field: line, value: "" };
  return { field: line.slice(0, colon), value: line.slice(colon + 1).replace(/^ /, "") };
}

function parseData(text: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RuntimeError("AGENT_ERROR", `${url} sent an event that is no JSON`, { cause });
  }
}

async function* linesOf({ body }: Response, url: string): AsyncGenerator<string> {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  // Pieces of a line are joined once it is whole: adding them up one by one would copy a long one over and over.
  let pieces: string[] = [];
  let heldChars = 0;
  try {
    for (;;) {
      const { done, value } = await readSoon(reader, url);
      if (done) return;
      const [first = "", ...rest] = decoder.decode(value, { stream: true }).split("\n");
      pieces.push(first);
      heldChars += first.length;
      if (heldChars > LINE_CHARS_MAX) throw new RuntimeError("PAYLOAD_TOO_LARGE", `${url} sent a line without an end`);
      for (const next of rest) {
        yield pieces.join("").replace(/\r$/, "");
        pieces = [next];
        heldChars = next.length;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // A connection that broke cannot be let go of again.
  }
}

async function readSoon(reader: ReadableStreamDefaultReader<Uint8Array>, url: string) {
  const arrived = new AbortController();
  const silence = sleep(SILENCE_MS_MAX, arrived.signal).then(() => undefined);
  try {
    const next = await Promise.race([reader.read(), silence]);
    if (next !== undefined) return next;
  } catch (cause) {
    throw unreachable(url, cause);
  } finally {
    arrived.abort("arrived");
  }
  throw unreachable(url, new Error(`it has been silent for ${SILENCE_MS_MAX / 1_000} s`));
}
