import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { sentenceOf } from "./memory-store-text.ts";

/** A model server in a process of its own, so that what it costs is not counted as what its client costs. */
export interface ModelServer {
  readonly baseUrl: string;
  readonly pid: number;
  /** Size of the newest request's body. */
  requestBytes(): Promise<number>;
  close(): void;
}

/** Final answers are always this text, in as many deltas as it has words. */
export const ANSWER =
  "The ledger holds this row now; its sum agrees with what was asked for, and nothing else in the book was touched by it.";
export const TOOL_NAME = "ledger_lookup";
export const MODEL = "local";

/** What it calls in every turn before it answers; the bench's own tool unless told otherwise. */
export interface CalledTool {
  readonly name: string;
  /** Its arguments, as they are streamed. */
  readonly pieces: readonly string[];
  /** Whether no two final answers are alike. */
  readonly isVaried?: boolean;
}

export async function openModelServer(tool?: CalledTool): Promise<ModelServer> {
  const child: ChildProcess = fork(import.meta.filename, [JSON.stringify(tool ?? null)], { execArgv: [] });
  const [port] = await once(child, "message");
  const origin = `http://127.0.0.1:${port}`;
  return {
    baseUrl: `${origin}/v1`,
    pid: child.pid ?? 0,
    requestBytes: async () => Number(await (await fetch(`${origin}/request-bytes`)).text()),
    close: () => void child.kill(),
  };
}

function serve(tool: CalledTool | null): void {
  let requestBytes = 0;
  let answers = 0;
  const server = createServer(async (request, response) => {
    if (request.url === "/request-bytes") {
      response.end(String(requestBytes));
      return;
    }
    const body = await readBody(request);
    requestBytes = body.length;
    answers += 1;
    // The newest message says which half of a turn this is; parsing a long history would only slow the bench down.
    const isToolDone = body.lastIndexOf('"role":"tool"') > body.lastIndexOf('"role":"user"');
    // Whoever asks for a summary has no tools to call.
    const isFinal = isToolDone || !body.includes('"tools":[');
    const said = tool?.isVaried ? sentenceOf(answers, ANSWER_WORDS) : ANSWER;
    stream(response, chunksOf(`chatcmpl-${answers}`, isFinal ? answerDeltas(said) : callDeltas(answers, tool)));
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port)); // It listens on TCP.
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

/**
 * Each event is written by itself and none is waited for. Waiting would make a reader pay for many small network reads,
 * which cost everyone the same and so flatter whoever does more with each event.
 */
function stream(response: ServerResponse, chunks: readonly unknown[]): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const chunk of chunks) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  response.end("data: [DONE]\n\n");
}

const ANSWER_WORDS = 24;

interface Deltas {
  readonly deltas: readonly object[];
  readonly finishReason: string;
}

function answerDeltas(said: string): Deltas {
  const words = said.match(/\S+\s*/g) ?? [];
  return { deltas: words.map((content) => ({ content })), finishReason: "stop" };
}

function callDeltas(answers: number, tool: CalledTool | null): Deltas {
  const name = tool?.name ?? TOOL_NAME;
  const call = { index: 0, id: `call_${answers}`, type: "function", function: { name, arguments: "" } };
  const pieces = tool?.pieces ?? ['{"account":', '"savings",', `"row":${answers}`, "}"];
  const deltas = pieces.map((piece) => ({ tool_calls: [{ index: 0, function: { arguments: piece } }] }));
  return { deltas: [{ tool_calls: [call] }, ...deltas], finishReason: "tool_calls" };
}

function chunksOf(id: string, { deltas, finishReason }: Deltas): readonly unknown[] {
  const head = { id, object: "chat.completion.chunk", created: 1_700_000_000, model: MODEL };
  const chunk = (delta: object, finish_reason: string | null) => ({
    ...head,
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
  });
  return [
    chunk({ role: "assistant", content: null }, null),
    ...deltas.map((delta) => chunk(delta, null)),
    chunk({}, finishReason),
    { ...head, choices: [], usage: { prompt_tokens: 100, completion_tokens: 24, total_tokens: 124 } },
  ];
}

if (process.send !== undefined && process.argv[1] === import.meta.filename)
  serve(JSON.parse(process.argv[2] ?? "null"));
