import { drain } from "./drain.ts";
import { createAnswerCheck, readRefusal } from "./response-body.ts";

/**
 * A fetch for provider packages, which read whatever comes for as long as it comes: answers and refusals are bounded, and
 * an event stream ends with its `[DONE]`, whether or not the server closes the connection. One that neither closes nor
 * says so stalls: only the package knows that its answer is complete, and it waits for the end.
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

/** At the start of a line it is never part of an answer's text, whose line ends are escaped. */
const END = /\ndata: ?\[DONE\]/;
const END_LENGTH = "\ndata: [DONE]".length;

/** Finds the end of an event stream, wherever the network cut it. */
function createEndFinder(): (bytes: Uint8Array) => boolean {
  let tail = "\n";
  return (bytes) => {
    const text = tail + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
    tail = text.slice(-END_LENGTH);
    return END.test(text);
  };
}
