import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { performance } from "node:perf_hooks";

/** What a conversation cost that was longer than the window of its model, and what is left of it. */
interface Spending {
  readonly runs: ReadonlyMap<string, number>;
  readonly summaries: number;
  /** Summaries that no call of the agent overlapped. */
  readonly waited: number;
  readonly largestTokens: number;
  readonly sentTokens: number;
  /** What is not the beginning of the agent's request before, which a provider has in its cache. */
  readonly newTokens: number;
  /** Facts of the user in the agent's last request. */
  readonly factsLeft: number;
}

/** A model that runs a list of commands and writes summaries, and the place where they run, in this process. */
export interface Commands {
  readonly url: string;
  begin(): () => Spending;
  close(): Promise<void>;
}

export const TURNS = 80;
export const COMMANDS = 60;
const ANSWER_MS = 100;
const SUMMARY_MS = 500;
const OUTPUT_LINES = 150;
const CHARS_PER_TOKEN = 4;
const STEP = "Run the next command of the list";

const commandOf = (index: number): string =>
  `deploy heron-${index} --region eu-${(index * 7) % 19} --replicas ${index % 5}`;
const factOf = (turn: number): string => `the port of reed-${turn} is ${4_000 + 13 * turn}`;
const promptOf = (turn: number): string =>
  `${STEP}. ${factOf(turn)}; keep that in mind. ${"We go on as we agreed. ".repeat(20)}`;
const outputOf = (command: string): string =>
  Array.from(
    { length: OUTPUT_LINES },
    (_, row) => `${row} ${command.slice(7, 15)} copied part ${row * 31} of 4650`,
  ).join("\n");
const ALL_COMMANDS = Array.from({ length: COMMANDS }, (_, index) => commandOf(index + 1));
const ALL_FACTS = Array.from({ length: TURNS }, (_, turn) => factOf(turn + 1));

interface Interval {
  readonly fromMs: number;
  toMs: number;
}

interface Books {
  readonly runs: Map<string, number>;
  readonly agent: Interval[];
  readonly summary: Interval[];
  readonly sizes: number[];
  newChars: number;
  last: string;
}

export async function openCommands(): Promise<Commands> {
  let books = emptyBooks();
  const server = createServer(async (request, response) => {
    const own = books;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    if (request.url?.startsWith("/prompt/")) return void response.end(promptOf(Number(request.url.slice(8))));
    if (request.url === "/run") {
      own.runs.set(body, (own.runs.get(body) ?? 0) + 1);
      return void response.end(outputOf(body));
    }
    const { messages, stream = false } = JSON.parse(body);
    const said = answerTo(messages);
    const isSummary = "summary" in said;
    const sent = JSON.stringify(messages);
    own.sizes.push(sent.length);
    own.newChars += sent.length - (isSummary ? 0 : sharedChars(sent, own.last));
    if (!isSummary) own.last = sent;
    const interval = { fromMs: performance.now(), toMs: Number.POSITIVE_INFINITY };
    own[isSummary ? "summary" : "agent"].push(interval);
    await new Promise((resolve) => setTimeout(resolve, isSummary ? SUMMARY_MS : ANSWER_MS));
    interval.toMs = performance.now();
    const usage = Math.ceil(sent.length / CHARS_PER_TOKEN);
    const text = "summary" in said ? said.summary : "text" in said ? said.text : undefined;
    const call = "call" in said ? callOf(said.call) : undefined;
    if (stream) response.writeHead(200, { "content-type": "text/event-stream" }).end(streamed(text, call, usage));
    else response.setHeader("content-type", "application/json").end(whole(text, call, usage));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A listening server has an address of this shape.
  return {
    url: `http://127.0.0.1:${port}`,
    begin: () => {
      const own = emptyBooks();
      books = own;
      return () => spendingOf(own);
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function emptyBooks(): Books {
  return { runs: new Map(), agent: [], summary: [], sizes: [], newChars: 0, last: "" };
}

function spendingOf({ runs, agent, summary, sizes, newChars, last }: Books): Spending {
  const overlap = ({ fromMs, toMs }: Interval): number =>
    agent.reduce((sum, one) => sum + Math.max(0, Math.min(toMs, one.toMs) - Math.max(fromMs, one.fromMs)), 0);
  return {
    runs,
    summaries: summary.length,
    waited: summary.filter((one) => overlap(one) < (one.toMs - one.fromMs) / 2).length,
    largestTokens: Math.max(...sizes) / CHARS_PER_TOKEN,
    sentTokens: sizes.reduce((sum, size) => sum + size, 0) / CHARS_PER_TOKEN,
    newTokens: newChars / CHARS_PER_TOKEN,
    factsLeft: ALL_FACTS.filter((fact) => last.includes(fact)).length,
  };
}

interface Message {
  readonly role: string;
  readonly content: unknown;
}

type Answer = { readonly call: string } | { readonly text: string } | { readonly summary: string };

/** The agent runs the first command that it does not see, and names every second one; a summary keeps every second thing it is shown. */
function answerTo(messages: readonly Message[]): Answer {
  const shown = JSON.stringify(messages);
  const last = messages.at(-1);
  if (last?.role === "tool") {
    const ran = ALL_COMMANDS.findLastIndex((command) => shown.includes(command));
    return { text: ran % 2 === 0 ? `I ran ${ALL_COMMANDS[ran]}.` : "Done." };
  }
  const asked = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content ?? "");
  if (!asked.replace(/^[^A-Z]*/, "").startsWith(STEP)) {
    const seen = [...ALL_FACTS, ...ALL_COMMANDS].filter((one) => shown.includes(one));
    const kept = seen.filter((_, at) => at % 2 === 0).map((one) => `* ${one}`);
    // What Mastra's observers are told to answer in.
    const [before, after] = shown.includes("<observations>") ? ["<observations>", "</observations>"] : ["", ""];
    return { summary: [before, ...kept, after].join("\n").trim() };
  }
  const next = ALL_COMMANDS.find((command) => !shown.includes(command));
  return next === undefined ? { text: "All is done." } : { call: next };
}

function callOf(command: string) {
  const id = `call_${crypto.randomUUID().slice(0, 8)}`;
  return { id, type: "function", function: { name: "run", arguments: JSON.stringify({ command }) } };
}

const HEAD = { created: 1_700_000_000, model: "local" };

function whole(content: string | undefined, call: ReturnType<typeof callOf> | undefined, tokens: number): string {
  const message = { role: "assistant", content: content ?? null, ...(call && { tool_calls: [call] }) };
  const choices = [{ index: 0, message, finish_reason: call ? "tool_calls" : "stop" }];
  return JSON.stringify({
    ...HEAD,
    id: crypto.randomUUID(),
    object: "chat.completion",
    choices,
    usage: usageOf(tokens),
  });
}

function streamed(content: string | undefined, call: ReturnType<typeof callOf> | undefined, tokens: number): string {
  const head = { ...HEAD, id: crypto.randomUUID(), object: "chat.completion.chunk" };
  const delta = call ? { tool_calls: [{ index: 0, ...call }] } : { content };
  const parts = [
    { ...head, choices: [{ index: 0, delta: { role: "assistant", ...delta }, finish_reason: null }] },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: call ? "tool_calls" : "stop" }] },
    { ...head, choices: [], usage: usageOf(tokens) },
  ];
  return `${parts.map((part) => `data: ${JSON.stringify(part)}\n\n`).join("")}data: [DONE]\n\n`;
}

function usageOf(prompt_tokens: number): object {
  return { prompt_tokens, completion_tokens: 20, total_tokens: prompt_tokens + 20 };
}

function sharedChars(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}
