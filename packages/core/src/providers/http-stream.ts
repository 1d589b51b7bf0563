import type { BlockMeta, ToolUseBlock } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";

/**
 * A fetch for provider packages, which read without limits: bounds answers and error bodies, and ends an event stream
 * at `[DONE]` even if the server keeps the connection open. A server that does neither stalls: only the package knows
 * when its answer is complete.
 */
export function boundFetch(fetch: typeof globalThis.fetch | undefined): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await (fetch ?? globalThis.fetch)(input, init);
    if (response.body === null) return response;
    const { status, statusText, headers } = response;
    const body = response.ok ? boundBody(response.body) : await readRefusal(response.body);
    return new Response(body, { status, statusText, headers });
  };
}

function boundBody(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const check = createAnswerCheck();
  const isOver = createEndFinder();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      check(value);
      controller.enqueue(value);
      if (!isOver(value)) return;
      controller.close();
      void drain(reader);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** At the start of a line it is never part of an answer, whose line ends are escaped. */
const END = /\ndata: ?\[DONE\]/;
const END_LENGTH = "\ndata: [DONE]".length;

/** Finds the end marker, even across network chunks. */
function createEndFinder(): (bytes: Uint8Array) => boolean {
  let tail = "\n";
  return (bytes) => {
    const text = tail + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
    tail = text.slice(-END_LENGTH);
    return END.test(text);
  };
}

/** Eight times the characters of an answer, since each few come in a separate event. */
const ANSWER_BYTES_MAX = 128 * 1_024 * 1_024;
const REFUSAL_BYTES_MAX = 64 * 1_024;
const REFUSAL_MS_MAX = 2_000;
const OPENING_BYTES = 64;

/** Checks the bytes of an answer as they arrive: throws for a web page or too many bytes. */
function createAnswerCheck(): (bytes: Uint8Array) => void {
  let total = 0;
  return (bytes) => {
    // By content, not header: scripts stream events as text/html, and no answer begins like a page.
    if (total === 0 && isMarkup(bytes)) throw Object.assign(new Error("a web page"), { name: "WebPageError" });
    total += bytes.length;
    if (total > ANSWER_BYTES_MAX) throw new SyntaxError(`it is larger than ${ANSWER_BYTES_MAX} bytes`);
  };
}

function isMarkup(bytes: Uint8Array): boolean {
  return new TextDecoder().decode(bytes.subarray(0, OPENING_BYTES)).trimStart().startsWith("<");
}

/** The body of an error response up to a limit: a server may never end it. */
async function readRefusal(body: ReadableStream<Uint8Array> | null): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const giveUp = (): void => void reader.cancel().catch(() => {});
  const timeout = setTimeout(giveUp, REFUSAL_MS_MAX);
  const read: Uint8Array[] = [];
  try {
    for (let left = REFUSAL_BYTES_MAX; left > 0; ) {
      const { done, value } = await reader.read();
      if (done) break;
      read.push(value.subarray(0, left));
      left -= value.length;
    }
  } catch {
    // The status is enough: a connection that breaks in the body changes nothing.
  } finally {
    clearTimeout(timeout);
    giveUp();
  }
  return Buffer.concat(read).toString("utf8");
}

const READS_MAX = 100;
const WAIT_MS_MAX = 1_000;

/** Reads a finished answer to its end, so that its connection can be reused; errors are ignored. */
export async function drain(reader: ReadableStreamDefaultReader<unknown>): Promise<void> {
  const giveUp = (): void => void reader.cancel().catch(ignore);
  const timeout = setTimeout(giveUp, WAIT_MS_MAX).unref();
  try {
    for (let reads = 0; reads < READS_MAX; reads += 1) {
      if ((await reader.read()).done) return;
    }
    giveUp();
  } catch {
    // The answer is complete: any error is the end of the stream.
  } finally {
    clearTimeout(timeout);
  }
}

function ignore(): void {}

export interface LineSource {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer<ArrayBuffer>;
  readonly fetch: typeof globalThis.fetch | undefined;
}

/**
 * Posts a request and yields the lines of its answer, all of one network read together. Ending early leaves a reusable
 * connection; aborting `signal` closes it.
 */
export async function openLines(source: LineSource, signal: AbortSignal): Promise<AsyncIterable<readonly string[]>> {
  const send = source.fetch ?? globalThis.fetch;
  const headers = { "content-type": "application/json", ...source.headers };
  const response = await send(source.url, { method: "POST", headers, body: source.body, signal });
  if (!response.ok) throw await refusalOf(response);
  if (response.body === null) throw new SyntaxError("the answer has no body");
  const reader = response.body.getReader();
  // Ends a read of a fetch that ignores its signal.
  const hangUp = (): void => void reader.cancel().catch(() => {});
  if (signal.aborted) hangUp();
  else signal.addEventListener("abort", hangUp, { once: true });
  return readLines(reader);
}

/** Shaped like the AI SDK's errors, so that all are classified alike. */
async function refusalOf(response: Response): Promise<Error> {
  const responseBody = await readRefusal(response.body);
  const responseHeaders = Object.fromEntries(response.headers);
  return Object.assign(new Error(response.statusText), { statusCode: response.status, responseHeaders, responseBody });
}

const LINE_LENGTH_MAX = 16_000_000;

async function* readLines(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<readonly string[]> {
  const check = createAnswerCheck();
  const decoder = new TextDecoder();
  let rest = "";
  let isRead = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      isRead = done;
      if (done) break;
      check(value);
      const text = decoder.decode(value, { stream: true });
      const end = text.lastIndexOf("\n");
      // Only new text is searched: a line may come in thousands of pieces.
      if (end >= 0) yield (rest + text.slice(0, end)).split("\n");
      rest = end >= 0 ? text.slice(end + 1) : rest + text;
      if (rest.length > LINE_LENGTH_MAX) throw new SyntaxError(`a line is longer than ${LINE_LENGTH_MAX} characters`);
    }
  } finally {
    if (!isRead) void drain(reader);
  }
  rest += decoder.decode();
  if (rest !== "") yield [rest];
}

/** An external value with unknown fields. */
export type Loose = Readonly<Record<string, unknown>>;

export function asRecord(value: unknown): Loose {
  return typeof value === "object" && value !== null ? (value as Loose) : {}; // any object may be read by name
}

export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? Math.round(value) : undefined;
}

/** A tool call as a block. Arguments that do not parse are kept as text, so that the model sees them. */
export function toolUseBlock(call: { id: string; name: string; input: unknown; meta?: BlockMeta }): ToolUseBlock {
  const { id, name, input, meta } = call;
  return {
    block_type: "tool_use",
    data: { id, name, ...parseArguments(input, name), ...(meta === undefined ? {} : { meta }) },
  };
}

export function parseArguments(input: unknown, tool: string): { args: JsonObject; args_error?: string } {
  const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
  if (text.trim() === "") return { args: {} };
  try {
    const args: unknown = JSON.parse(text);
    if (typeof args === "object" && args !== null && !Array.isArray(args)) return { args: args as JsonObject }; // just checked
    return { args: { raw_arguments: text }, args_error: `the arguments of ${tool} must be a JSON object` };
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    return { args: { raw_arguments: text }, args_error: `the arguments of ${tool} are not valid JSON: ${why}` };
  }
}
