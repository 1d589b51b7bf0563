// A model that answers what the soak can check, and fails in every way a provider's server does.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { chatFrames, type Reply, refusalBody } from "@rkat/conformance/model-server";
import { below, chance, pick } from "../test/compaction/chances.ts";
import { createRandom } from "../test/crash/random.ts";
import { DIRECTIVES, MARKER, received } from "./soak/prompts.ts";

export interface SoakModel {
  readonly url: string;
  close(): void;
}

/** A model server in a process of its own: what it does must not delay whoever watches. */
export async function openSoakModel(seed: number): Promise<SoakModel> {
  const child: ChildProcess = fork(import.meta.filename, [String(seed)], { execArgv: [] });
  const [port] = await once(child, "message");
  return { url: `http://127.0.0.1:${port}/v1`, close: () => void child.kill("SIGKILL") };
}

const FAULT_SHARE = 0.06;
const STALL_MS_MAX = 4_000;
const SLOW_MS = 40;
const LONG_WORDS = 600;
const FAULTS = ["429", "500", "503", "reset", "cut", "reset later", "garbage", "stall", "page"] as const;
const USAGE = { input: 20, output: 10 };

function serve(seed: number): void {
  const random = createRandom(seed);
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const messages = readMessages(await readBody(request));
    const last = messages.at(-1) ?? { role: "", text: "" };
    const fault = chance(random, FAULT_SHARE) ? pick(random, FAULTS) : undefined;
    if (fault !== undefined && (await failAtOnce(fault, request, response))) return;
    const frames = chatFrames("soak", replyTo(messages));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const until = fault === undefined ? frames.length : below(random, frames.length);
    for (const frame of frames.slice(0, until)) {
      response.write(frame);
      if (last.role === "user" && last.text.includes(DIRECTIVES.slow)) await sleep(SLOW_MS);
    }
    if (fault === undefined || fault === "cut") response.end();
    else if (fault === "garbage") response.end('data: {"id":"chatcmpl-1","choices":[{"ind\n\n');
    else if (fault === "stall") await sleep(below(random, STALL_MS_MAX)).then(() => response.destroy());
    else response.socket?.resetAndDestroy();
  };
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port)); // It listens on TCP.
}

/** Whether the fault was one that leaves nothing to be said. */
async function failAtOnce(
  fault: (typeof FAULTS)[number],
  { socket }: IncomingMessage,
  response: ServerResponse,
): Promise<boolean> {
  if (fault === "reset") socket.resetAndDestroy();
  else if (fault === "page") response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>");
  else if (/^\d/.test(fault)) {
    const refusal = { kind: "refusal", status: Number(fault), code: "server_error", message: "Not now" } as const;
    response
      .writeHead(refusal.status, { "content-type": "application/json" })
      .end(JSON.stringify(refusalBody(refusal)));
  } else return false;
  return true;
}

interface Said {
  readonly role: string;
  readonly text: string;
}

/** Says the marker of the newest prompt again, so that an answer can be told from every other. */
function replyTo(messages: readonly Said[]): Exclude<Reply, { kind: "refusal" }> {
  const last = messages.at(-1) ?? { role: "", text: "" };
  if (/^(?:You are performing a CONTEXT COMPACTION|Summarize these memories)/.test(last.text)) {
    return { kind: "answer", text: ["They spoke ", "of markers."], usage: USAGE };
  }
  const asked = messages.findLast(({ role, text }) => role === "user" && MARKER.test(text))?.text ?? "";
  if (last.role !== "tool" && asked.includes(DIRECTIVES.tools)) {
    const calls = [
      { id: "call_task", name: "task_create", args: { subject: "Look again", description: asked.slice(0, 40) } },
      { id: "call_find", name: "memory_search", args: { query: asked.slice(0, 40), limit: 2 } },
      { id: "call_none", name: "no_such_tool", args: {} },
    ];
    return { kind: "answer", calls, usage: USAGE };
  }
  const more = asked.includes(DIRECTIVES.long) ? Array.from({ length: LONG_WORDS }, (_, index) => ` word${index}`) : [];
  return { kind: "answer", text: [received(asked), ...more, " So", " it", " is."], usage: USAGE };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}

function readMessages(body: string): readonly Said[] {
  const { messages } = Object(JSON.parse(body));
  return (Array.isArray(messages) ? messages : []).map((message: unknown) => {
    const { role, content } = Object(message);
    const text = Array.isArray(content)
      ? content.map((part: unknown) => String(Object(part).text ?? "")).join("")
      : content;
    return { role: String(role), text: String(text ?? "") };
  });
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) serve(Number(process.argv[2]));
