import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import type { Answer } from "./http-answer.ts";

/** A client that takes nothing of its answer for so long is let go. */
const ANSWER_STALL_MS_MAX = 60_000;
/** How long and how much more a client may send of a body nobody wants, so that it gets to read the answer. */
const LINGER_MS_MAX = 1_000;
const LINGER_BYTES_MAX = 64 * 1_024 * 1_024;

/** Sends an answer and resolves when it is on its way; a client that left is not told. */
export async function sendAnswer(request: IncomingMessage, response: ServerResponse, answer: Answer): Promise<void> {
  if (response.destroyed || response.headersSent) return;
  const bytes = Buffer.from(answer.text);
  // An unread body would be taken for the next request.
  const isRead = request.complete;
  response.setTimeout(ANSWER_STALL_MS_MAX, () => response.destroy());
  response.writeHead(answer.status, {
    "content-type": answer.type,
    "content-length": bytes.length,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...(isRead ? {} : { connection: "close" }),
    ...answer.headers,
  });
  if (isRead) {
    response.end(bytes);
    return;
  }
  response.write(bytes);
  await linger(request);
  response.end();
}

/** Closing at once would reset the connection, and the client would never see why. */
async function linger(request: IncomingMessage): Promise<void> {
  const done = new AbortController();
  const end = (): void => done.abort("done");
  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES_MAX) end();
  });
  for (const event of ["end", "close", "error"]) request.once(event, end);
  await wait(LINGER_MS_MAX, undefined, { signal: done.signal }).catch(() => {});
}
