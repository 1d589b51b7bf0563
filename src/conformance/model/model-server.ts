import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { RuntimeError } from "../../contract/error.ts";
import { chatFrames, type Reply, refusalBody } from "./chat-wire.ts";
import { type Asked, MODELS } from "./replies.ts";

/** The models of the scenarios, behind an address. */
export interface ModelServer {
  /** What `base_url` is set to. */
  readonly url: string;
  /** Whether a request has come whose last message holds the text. */
  wasAsked(text: string): boolean;
  close(): Promise<void>;
}

const REQUEST_BYTES_MAX = 16 * 1024 * 1024;
/** Counts of refusals and texts that were asked; the oldest is forgotten. */
const REMEMBERED_MAX = 1_024;

/** Serves the models of the scenarios over the chat wire, on this machine alone; port 0 takes a free one. */
export async function openModelServer(port: number): Promise<ModelServer> {
  const refusals = new Map<string, number>();
  const asked: string[] = [];
  const server = createServer((request, response) => {
    serve(request, response, { refusals, asked }).catch(() => response.destroy());
  });
  server.listen(port, "127.0.0.1");
  await Promise.race([
    once(server, "listening"),
    once(server, "error").then(([cause]) => {
      const message = `--model-port ${port}: the models cannot listen there; choose another, or 0 for a free one`;
      throw new RuntimeError("INVALID_PARAMS", message, { cause });
    }),
  ]);
  const { port: taken } = server.address() as AddressInfo; // A server that listens on a port has an address of this shape.
  return {
    url: `http://127.0.0.1:${taken}/v1`,
    wasAsked: (text) => asked.some((one) => one.includes(text)),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Heard {
  readonly refusals: Map<string, number>;
  readonly asked: string[];
}

async function serve(request: IncomingMessage, response: ServerResponse, { refusals, asked }: Heard): Promise<void> {
  const { model, messages } = readChat(await readText(request));
  const key = `${model}\n${messages.at(-1)?.text}`;
  asked.push(messages.at(-1)?.text ?? "");
  if (asked.length > REMEMBERED_MAX) asked.shift();
  const reply = MODELS[model]?.({ messages, refused: refusals.get(key) ?? 0 }) ?? unknownModel(model);
  if (reply.kind === "refusal") count(refusals, key);
  else refusals.delete(key);
  send(response, model, reply);
}

function count(refusals: Map<string, number>, key: string): void {
  refusals.set(key, (refusals.get(key) ?? 0) + 1);
  const [oldest] = refusals.keys();
  if (refusals.size > REMEMBERED_MAX && oldest !== undefined) refusals.delete(oldest);
}

function send(response: ServerResponse, model: string, reply: Reply): void {
  if (reply.kind === "refusal") {
    const { status, retryAfterSeconds: seconds } = reply;
    const later = seconds === undefined ? {} : { "retry-after": String(seconds) };
    response.writeHead(status, { "content-type": "application/json", ...later });
    response.end(JSON.stringify(refusalBody(reply)));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const frame of chatFrames(model, reply)) response.write(frame);
  if (reply.kind === "answer") response.end();
}

function unknownModel(model: string): Reply {
  return { kind: "refusal", status: 404, code: "model_not_found", message: `there is no model ${model}` };
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    const read = chunk as Buffer; // An http request streams buffers.
    bytes += read.length;
    if (bytes > REQUEST_BYTES_MAX) throw new Error(`a request holds more than ${REQUEST_BYTES_MAX} bytes`);
    chunks.push(read);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** A request of the chat wire as far as the models look at it; texts in parts are joined. */
function readChat(text: string): { readonly model: string; readonly messages: Asked["messages"] } {
  const request: unknown = JSON.parse(text);
  const { model, messages } = Object(request);
  return {
    model: String(model),
    messages: (Array.isArray(messages) ? messages : []).map((message: unknown) => {
      const { role, content } = Object(message);
      return { role: String(role), text: textOf(content) };
    }),
  };
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: unknown) => String(Object(part).text ?? "")).join("");
}
