import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished, vi } from "vitest";

/** A model behind OpenAI's wire on this machine, which says what a test tells it to, when it tells it to. */
export interface ControlledModel {
  /** Up to and with /v1. */
  readonly baseUrl: string;
  /** The next call of it, which waits for the test's words. */
  next(): Promise<ControlledCall>;
}

interface Message {
  readonly role: string;
  readonly content: unknown;
}

/** One call of the model. */
interface ControlledCall {
  /** What it was shown. */
  readonly messages: readonly Message[];
  /** The newest message's text. */
  readonly newest: string;
  /** Whether whoever called has hung up before the end. */
  readonly isHungUp: boolean;
  /** Says a piece of text. */
  say(text: string): void;
  /** Says text in pieces of so many characters, as models do. */
  saySlowly(text: string, pieceChars?: number): Promise<void>;
  think(text: string): void;
  /** Ends the answer with a call of a tool. */
  callTool(name: string, args: object): void;
  /** Ends the answer. */
  end(): void;
  /** Answers with a failure instead. */
  refuse(status: number, headers?: Readonly<Record<string, string>>): void;
  /** Breaks the connection. */
  hangUp(): void;
}

/** For what hangs, not for what is slow. */
export const WAIT_MS_MAX = 60_000;

export async function openControlledModel(): Promise<ControlledModel> {
  const calls: ControlledCall[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = JSON.parse(Buffer.concat(parts).toString()) as { messages: readonly Message[] }; // What rkat sends.
    calls.push(createCall(body.messages, response));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    // A listening server has an address of this shape.
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    next: async () => {
      const first = (): ControlledCall => {
        const [call] = calls;
        if (call === undefined) throw new Error("the model was not asked");
        return call;
      };
      const call = await vi.waitFor(first, { timeout: WAIT_MS_MAX, interval: 20 });
      calls.shift();
      return call;
    },
  };
}

function createCall(messages: readonly Message[], response: ServerResponse): ControlledCall {
  let isHungUp = false;
  response.on("close", () => {
    isHungUp = !response.writableEnded;
  });
  const send = (chunk: object): void => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(
      `data: ${JSON.stringify({ id: "told", object: "chat.completion.chunk", model: "told", ...chunk })}\n\n`,
    );
  };
  const add = (delta: object): void => send({ choices: [{ index: 0, delta, finish_reason: null }] });
  const finish = (finish_reason: string): void => {
    send({ choices: [{ index: 0, delta: {}, finish_reason }] });
    send({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 } });
    response.end("data: [DONE]\n\n");
  };
  const say = (content: string): void => add({ content });
  return {
    messages,
    newest: textOf(messages.at(-1)?.content),
    get isHungUp() {
      return isHungUp;
    },
    say,
    saySlowly: async (text, pieceChars = 3) => {
      for (let at = 0; at < text.length; at += pieceChars) {
        say(text.slice(at, at + pieceChars));
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    think: (reasoning_content) => add({ reasoning_content }),
    callTool: (name, args) => {
      const call = { name, arguments: JSON.stringify(args) };
      add({ tool_calls: [{ index: 0, id: "call_1", type: "function", function: call }] });
      finish("tool_calls");
    },
    end: () => finish("stop"),
    refuse: (status, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(JSON.stringify({ error: { message: `the model answers ${status}` } }));
    },
    hangUp: () => response.destroy(),
  };
}

/** A message is a text, or parts of which some are. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? (content as { text?: string }[]) : [];
  return parts.map(({ text = "" }) => text).join("");
}
