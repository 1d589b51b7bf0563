/** Where a streamed answer comes from. */
export interface LineSource {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
  readonly fetch: typeof globalThis.fetch | undefined;
}

/** Posts a request and hands out the lines of its answer as they arrive, all of one network read together. */
export async function openLines(source: LineSource, signal: AbortSignal): Promise<AsyncIterable<readonly string[]>> {
  const send = source.fetch ?? globalThis.fetch;
  const headers = { "content-type": "application/json", ...source.headers };
  const response = await send(source.url, { method: "POST", headers, body: source.body, signal });
  if (!response.ok) throw await refusalOf(response);
  if (response.body === null) throw new SyntaxError("the answer has no body");
  return readLines(response.body);
}

/** Shaped like the AI SDK's errors, so that all are classified by the same rules. */
async function refusalOf(response: Response): Promise<Error> {
  const responseBody = await response.text().catch(() => "");
  const responseHeaders = Object.fromEntries(response.headers);
  return Object.assign(new Error(response.statusText), { statusCode: response.status, responseHeaders, responseBody });
}

const LINE_LENGTH_MAX = 16_000_000;

async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > LINE_LENGTH_MAX) throw new SyntaxError(`a line is longer than ${LINE_LENGTH_MAX} characters`);
    if (lines.length > 0) yield lines;
  }
  rest += decoder.decode();
  if (rest !== "") yield [rest];
}
