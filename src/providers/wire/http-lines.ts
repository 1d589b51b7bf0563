import { drain } from "./drain.ts";
import { createAnswerCheck, readRefusal } from "./response-body.ts";

/** Where a streamed answer comes from. */
export interface LineSource {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
  readonly fetch: typeof globalThis.fetch | undefined;
}

/**
 * Posts a request and hands out the lines of its answer as they arrive, all of one network read together. Whoever leaves
 * before the end leaves a connection that can serve the next call, or closes it by aborting `signal`.
 */
export async function openLines(source: LineSource, signal: AbortSignal): Promise<AsyncIterable<readonly string[]>> {
  const send = source.fetch ?? globalThis.fetch;
  const headers = { "content-type": "application/json", ...source.headers };
  const response = await send(source.url, { method: "POST", headers, body: source.body, signal });
  if (!response.ok) throw await refusalOf(response);
  if (response.body === null) throw new SyntaxError("the answer has no body");
  const reader = response.body.getReader();
  // It wakes a read of a fetch that does not heed its signal.
  const hangUp = (): void => void reader.cancel().catch(() => {});
  if (signal.aborted) hangUp();
  else signal.addEventListener("abort", hangUp, { once: true });
  return readLines(reader);
}

/** Shaped like the AI SDK's errors, so that all are classified by the same rules. */
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
      // Only what is new is searched: a line may come in thousands of pieces.
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
