import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { RuntimeError } from "@rkat/core/contract/error";

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

interface Received {
  readonly refusals: Map<string, number>;
  readonly asked: string[];
}

async function serve(request: IncomingMessage, response: ServerResponse, { refusals, asked }: Received): Promise<void> {
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
      return { role: String(role), text: contentText(content) };
    }),
  };
}

function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: unknown) => String(Object(part).text ?? "")).join("");
}

/** What a model of the scenarios is asked, read off a request of the chat wire. */
interface Asked {
  readonly messages: readonly { readonly role: string; readonly text: string }[];
  /** How often exactly this was asked of the model before, counted anew after each answer that was no refusal. */
  readonly refused: number;
}

type Model = (asked: Asked) => Reply;

const USAGE = { input: 10, output: 5 };
/** How the prompt begins that asks for the summary of a context. */
const COMPACTION = "You are performing a CONTEXT COMPACTION";
/** How the prompt begins that asks for a summary of an agent's memories. */
const MEMORIES = "Summarize these memories";
const HERON = "The heron stands in the reeds and waits for its fish. ";
const EXTRACTION = "Give the final result of this conversation now as one JSON value";

/** The models of the scenarios. What each answers follows from what it is asked, so one server serves every surface. */
export const MODELS: Readonly<Record<string, Model>> = {
  "conformance-plain": plain,
  /** Calls two tools, one of them wrongly, and goes on when it has their results. */
  "conformance-tools": ({ messages }) =>
    hasResults(messages)
      ? answer("Both tools", " have answered.")
      : {
          kind: "answer",
          calls: [
            { id: "call_task", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } },
            { id: "call_none", name: "no_such_tool", args: {} },
          ],
          usage: USAGE,
        },
  /** Asked to delegate, it hands a task to a sub-agent; the sub-agent says what it was told. */
  "conformance-agent": ({ messages }) => {
    if (hasResults(messages)) return answer("It is", " done.");
    if (!lastText(messages).startsWith("Delegate")) return plain({ messages, refused: 0 });
    const args = { task: "Look for the heron." };
    return { kind: "answer", calls: [{ id: "call_agent", name: "agent", args }], usage: USAGE };
  },
  /** Never stops calling. */
  "conformance-busy": ({ messages }) => ({
    kind: "answer",
    calls: [
      { id: `call_${messages.filter(({ role }) => role === "tool").length}`, name: "task_get", args: { id: "none" } },
    ],
    usage: USAGE,
  }),
  /** Each answer uses 85 tokens. */
  "conformance-costly": () => answerFor({ input: 80, output: 5 }, "That was", " expensive."),
  /** Each answer uses as many, and has a price: a tenth of a dollar. */
  "conformance-priced": () => answerFor({ input: 80, output: 5 }, "That was", " a dime."),
  /** Refused twice, for two reasons, and then well. */
  "conformance-retry": (asked) => {
    if (asked.refused === 0) return refusal(429, "rate_limit_exceeded", "Too many requests");
    if (asked.refused === 1) return refusal(503, "server_overloaded", "The engine is overloaded");
    return plain(asked);
  },
  "conformance-down": () => refusal(500, "server_error", "The server had an error"),
  /** Asks for more patience than the scenario has. */
  "conformance-later": () => ({ ...refusal(429, "rate_limit_exceeded", "Come back later"), retryAfterSeconds: 60 }),
  "conformance-denied": () => refusal(401, "invalid_api_key", "Incorrect API key provided"),
  /** Says half of something. */
  "conformance-silent": () => ({ kind: "silence", text: ["Half of it"] }),
  /** Answers a request for JSON with a value that fits the schema of the scenario. */
  "conformance-json": (asked) =>
    lastText(asked.messages).startsWith(EXTRACTION) ? answer('{"bird":"heron",', '"legs":2}') : plain(asked),
  /** Answers a request for JSON with prose. */
  "conformance-prose": (asked) =>
    asked.messages.at(-1)?.role === "user" ? answer("A heron,", " I think.") : plain(asked),
  /** Summarises what it was told in one sentence of it. */
  "conformance-summary": (asked) => {
    const text = lastText(asked.messages);
    if (text.startsWith(COMPACTION)) return answer("The staging host listens on port 4711.");
    return text.startsWith(MEMORIES) ? answer("A heron stood in the pond.") : plain(asked);
  },
  /** Asked to make, it makes the same task, which fills its context; asked to recall, it reads again what left it. */
  "conformance-eviction": ({ messages }) => {
    const call = (name: string, args: object): Reply => {
      return { kind: "answer", calls: [{ id: `call_${messages.length}`, name, args }], usage: USAGE };
    };
    const text = lastText(messages);
    if (hasResults(messages)) return answer(text.includes("Feed the heron") ? "The heron is fed." : "It is not there.");
    if (text.startsWith("Make"))
      return call("task_create", { subject: "Feed the heron", description: HERON.repeat(80) });
    if (!text.startsWith("Recall")) return plain({ messages, refused: 0 });
    const line = messages.find((message) => message.text.includes("recall_output(seq: "))?.text ?? "";
    return call("recall_output", { seq: Number(/recall_output\(seq: (\d+)/.exec(line)?.[1] ?? 1) });
  },
  /** Cannot summarise. */
  "conformance-empty": (asked) => (lastText(asked.messages).startsWith(COMPACTION) ? answer() : plain(asked)),
  /** Asked to recall, it looks for the boathouse key in memory, and says what was found. */
  "conformance-recall": ({ messages }) => {
    const text = lastText(messages);
    if (hasResults(messages)) return answer(text.includes("blue door") ? "Behind the blue door." : "I found nothing.");
    if (text.startsWith(COMPACTION)) return answer("They spoke of a key.");
    if (!text.startsWith("Recall")) return answer("Noted.");
    const args = { query: "where is the boathouse key", limit: 1 };
    return { kind: "answer", calls: [{ id: "call_recall", name: "memory_search", args }], usage: USAGE };
  },
};

function plain({ messages }: Asked): Reply {
  return answer("You said: ", lastText(messages));
}

function answer(...text: readonly string[]): Reply {
  return answerFor(USAGE, ...text);
}

function answerFor(usage: { input: number; output: number }, ...text: readonly string[]): Reply {
  return { kind: "answer", text, usage };
}

function refusal(status: number, code: string, message: string): Extract<Reply, { kind: "refusal" }> {
  return { kind: "refusal", status, code, message };
}

function hasResults(messages: Asked["messages"]): boolean {
  return messages.at(-1)?.role === "tool";
}

function lastText(messages: Asked["messages"]): string {
  return messages.at(-1)?.text ?? "";
}

/** One answer of a model, in no provider's words. */
export type Reply =
  | {
      readonly kind: "answer";
      /** As it is streamed. */
      readonly text?: readonly string[];
      readonly calls?: readonly { readonly id: string; readonly name: string; readonly args: object }[];
      readonly usage: { readonly input: number; readonly output: number };
    }
  /** Says so much and then nothing, until whoever asked hangs up. */
  | { readonly kind: "silence"; readonly text: readonly string[] }
  | {
      readonly kind: "refusal";
      readonly status: number;
      readonly code: string;
      readonly message: string;
      readonly retryAfterSeconds?: number;
    };

const ENVELOPE = { id: "chatcmpl-conformance", object: "chat.completion.chunk", created: 1_760_000_000 };

/** An answer as the events of OpenAI's chat completions, in the order they are sent. */
export function chatFrames(model: string, reply: Exclude<Reply, { kind: "refusal" }>): readonly string[] {
  const chunk = (delta: object, finish_reason: string | null = null): string =>
    frame({ ...ENVELOPE, model, choices: [{ index: 0, delta, finish_reason }] });
  const { text = [] } = reply;
  const said = [chunk({ role: "assistant", content: "" }), ...text.map((content) => chunk({ content }))];
  if (reply.kind === "silence") return said;
  const { calls = [], usage } = reply;
  const asked = calls.map(({ id, name, args }, index) =>
    chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: JSON.stringify(args) } }] }),
  );
  const { input: prompt_tokens, output: completion_tokens } = usage;
  const counted = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
  return [
    ...said,
    ...asked,
    chunk({}, calls.length > 0 ? "tool_calls" : "stop"),
    frame({ ...ENVELOPE, model, choices: [], usage: counted }),
    "data: [DONE]\n\n",
  ];
}

/** What a refusal says, as OpenAI's servers do. */
export function refusalBody({ code, message }: Extract<Reply, { kind: "refusal" }>): object {
  return { error: { message, type: code, param: null, code } };
}

function frame(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
