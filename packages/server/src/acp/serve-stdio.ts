import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";
import { createConnection, type Streams, type TakeMessage } from "../http/connection.ts";
import { isRecord } from "../http/incoming.ts";
import { within } from "../http/running-turns.ts";
import { createUnanswered } from "../http/unanswered.ts";
import { type AgentParts, createAgent } from "./agent.ts";

/** One connection: what an agent needs, and the two streams a client speaks over. */
interface AcpConnection extends Streams, Pick<AgentParts, "version" | "folderOf" | "knownFolders"> {}

/** Messages that may wait for the client to read them; with more, nothing is read of it until it has. */
const UNREAD_MAX = 1_024;
/** How long turns may take to end once they are interrupted. */
const DRAIN_MS_MAX = 1_500;

/**
 * Serves the Agent Client Protocol, a message a line, until the input ends, the output breaks or the signal aborts; then
 * it interrupts what still runs. A line that is no message is answered as JSON-RPC says and the next one is read, which
 * is why this is not the stream of the SDK: that one ends when a line is too long.
 */
export async function serveStdio({ version, folderOf, knownFolders, ...streams }: AcpConnection): Promise<void> {
  const { clock } = streams;
  const { outbox, serve } = createConnection(streams);
  const unanswered = createUnanswered();
  const waiting = new Map<unknown, () => Promise<void>>();
  let unread = 0;
  let newest: Promise<void> = Promise.resolve();
  let greeted = Promise.withResolvers<void>();

  const send = (message: AnyMessage): Promise<void> => {
    unread += 1;
    newest = outbox.send(`${JSON.stringify(withSentence(message))}\n`).then(() => {
      unread -= 1;
    });
    if (!("id" in message) || "method" in message) return newest;
    const { id } = message;
    unanswered.forget(id);
    void newest.then(greeted.resolve);
    const act = waiting.get(id);
    waiting.delete(id);
    // Not waited for: what it sends waits for this message to be written. A client that has gone needs none of it.
    act?.().catch(() => {});
    return newest;
  };
  const incoming = Promise.withResolvers<ReadableStreamDefaultController<AnyMessage>>();
  const stream: Stream = {
    readable: new ReadableStream({ start: (controller) => incoming.resolve(controller) }),
    writable: new WritableStream({ write: send }),
  };
  const agent = createAgent({ version, folderOf, knownFolders, clock, afterAnswer: (id, act) => waiting.set(id, act) });
  const connection = agent.app.connect(stream);
  const controller = await incoming.promise;

  const take: TakeMessage = (message, bytes) => {
    // It was JSON a moment ago, and an object.
    const parsed = JSON.parse(Buffer.from(bytes).toString("utf8")) as AnyMessage;
    if (message.kind === "request" && "id" in parsed) unanswered.add(parsed.id);
    controller.enqueue(parsed);
    // Piped requests do not wait for the answer to `initialize`; requests before it are refused.
    if (message.kind === "request" && message.method === "initialize") {
      greeted = Promise.withResolvers<void>();
      return greeted.promise;
    }
    return unread < UNREAD_MAX ? undefined : newest;
  };
  await serve(take, unanswered.none);
  await within(clock, DRAIN_MS_MAX, Promise.all([agent.close(), unanswered.none()]));
  connection.close();
}

const INVALID_PARAMS = -32_602;

/** What the SDK refuses by its schemas comes with a tree of faults: the first of them as a sentence. */
function withSentence(message: AnyMessage): AnyMessage {
  if (!("error" in message) || message.error.code !== INVALID_PARAMS) return message;
  const fault = firstFault(message.error.data, "");
  if (fault === undefined) return message;
  return { ...message, error: { code: INVALID_PARAMS, message: fault, data: { code: "INVALID_PARAMS" } } };
}

const DEPTH_MAX = 16;

function firstFault(tree: unknown, path: string, depth = 0): string | undefined {
  if (!isRecord(tree) || depth > DEPTH_MAX) return undefined;
  const { _errors: own, ...fields } = tree;
  if (!Array.isArray(own)) return undefined;
  if (own.length > 0) return `${path === "" ? "params" : path}: ${String(own[0])}`;
  for (const [field, inner] of Object.entries(fields)) {
    const found = firstFault(inner, path === "" ? field : `${path}.${field}`, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
