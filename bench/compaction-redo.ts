// How often an agent repeats work after its context was compacted. The scripted agent has 20 commands of the recorded
// logs to run, one a turn, and runs the first that it does not see as done; its context is compacted after every turn.
// The same agent with the AI SDK's pruneMessages, and with a summary as OpenAI's tools make it: the messages of the user
// and a text in place of the rest.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { ModelClient, ModelRequest } from "@rkat/core/ports/model";
import { createOfflineModel } from "@rkat/core/providers/offline/offline";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { readRecordedLog } from "@rkat/core/replay/replay-script";
import { type ModelMessage, pruneMessages } from "ai";
import { publish } from "./report.ts";

const COMPACTIONS = 50;
const TASKS = 20;
const PER_LOG = 3;
/** The agent knows a command by its beginning. */
const KNOWN_CHARS = 100;
const USER_TOKENS_MAX = 20_000;
const CHARS_PER_TOKEN = 4;
const PROMPT = `Go on. ${"The heron stood in the reeds. ".repeat(20)}`;
const AT = "2026-01-05T10:30:00.000Z";

const tasks = globSync("logs/*.jsonl", { cwd: import.meta.dirname })
  .sort()
  .flatMap((file) => {
    const entries = readRecordedLog(readFileSync(join(import.meta.dirname, file), "utf8"), file);
    const commands = entries.flatMap(({ body }) =>
      body.kind === "assistant"
        ? body.message.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.args.command] : []))
        : [],
    );
    const known = new Map(
      commands.flatMap((one) => (typeof one === "string" ? [[one.slice(0, KNOWN_CHARS), one]] : [])),
    );
    return [...known.values()].slice(0, PER_LOG);
  })
  .slice(0, TASKS);

/** What an agent says after a command: nothing of it, or which it was. */
interface Habit {
  readonly answers: string;
  said(command: string): string;
}
const HABITS: readonly Habit[] = [
  { answers: "Done.", said: () => "Done." },
  { answers: "Ran the command …", said: (command) => `Ran the command ${command}` },
];

/** How a summary is written. */
interface Summary {
  readonly summary: string;
  readonly model: ModelClient;
}
const SUMMARIES: readonly Summary[] = [
  { summary: "one sentence", model: createScriptedModel(() => ({ text: "Some of the commands were run." })) },
  { summary: "sentences of the source", model: createOfflineModel() },
];

/** The first task that a context does not show as done. */
function nextTask(context: unknown): string | undefined {
  const seen = JSON.stringify(context).replaceAll("\\", "");
  return tasks.find(
    (task) => !seen.includes(JSON.stringify(task.slice(0, KNOWN_CHARS)).slice(1, -1).replaceAll("\\", "")),
  );
}

interface Reading {
  readonly redone: number;
  readonly missed: number;
  /** Calls of the tool that shows what did not fit. */
  readonly recalls?: number;
  /** Of the context at the end. */
  readonly tokens: number;
}

function readingOf(ran: readonly string[], context: unknown): Reading {
  const done = new Set(ran);
  const tokens = Math.ceil(JSON.stringify(context).length / CHARS_PER_TOKEN);
  return { redone: ran.length - done.size, missed: tasks.length - done.size, tokens };
}

async function withRkat(work_state_tokens: number, { said }: Habit, { model }: Summary): Promise<Reading> {
  const ran: string[] = [];
  let ids = 0;
  let recalls = 0;
  const agent = createScriptedModel(({ messages }) => {
    const last = messages.at(-1);
    if (last?.role === "tool_results" && last.results[0]?.tool_use_id !== "recall")
      return { text: said(ran.at(-1) ?? "") };
    const next = nextTask(messages);
    if (next === undefined) return { text: "All is done." };
    // What did not fit is looked up, as the line about it says.
    const isMore = JSON.stringify(messages).includes("more that did not fit");
    if (isMore && last?.role === "user") {
      recalls += 1;
      return { calls: [{ id: "recall", name: "recall_output", args: {} }] };
    }
    ran.push(next);
    ids += 1;
    return { calls: [{ id: `c${ids}`, name: "run", args: { command: next } }] };
  });
  const runtime = createRuntime({
    model: { ...agent, stream: (request, signal) => (isSummary(request) ? model : agent).stream(request, signal) },
    store: createInMemoryStore(),
    env: {},
    toolPreset: "safe",
    tools: [{ name: "run", description: "Runs.", inputSchema: { type: "object" }, execute: () => "ok" }],
    compaction: { recentTurnBudget: 1, workStateTokens: work_state_tokens },
  });
  const session = await runtime.createSession("Run all commands of the list, each once.");
  for (let time = 0; time < COMPACTIONS; time += 1) {
    await session.turn(PROMPT);
    await session.compact();
  }
  const { messages } = await session.context();
  await runtime.close();
  return { ...readingOf(ran, messages), recalls };
}

function isSummary({ messages }: ModelRequest): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
}

/** With the options of the AI SDK's own example. */
async function withPruning({ said }: Habit): Promise<Reading> {
  const ran: string[] = [];
  let messages: ModelMessage[] = [{ role: "user", content: "Run all commands of the list, each once." }];
  for (let time = 0; time < COMPACTIONS; time += 1) {
    messages.push({ role: "user", content: PROMPT });
    const next = nextTask(messages);
    if (next !== undefined) {
      const call = { toolCallId: `c${ran.push(next)}`, toolName: "run" };
      messages.push(
        { role: "assistant", content: [{ type: "tool-call", ...call, input: { command: next } }] },
        { role: "tool", content: [{ type: "tool-result", ...call, output: { type: "text", value: "ok" } }] },
      );
    }
    messages.push({ role: "assistant", content: next === undefined ? "All is done." : said(next) });
    const options = { reasoning: "before-last-message", toolCalls: "before-last-2-messages" } as const;
    messages = pruneMessages({ messages, ...options, emptyMessages: "remove" });
  }
  return readingOf(ran, messages);
}

async function withUserMessages({ said }: Habit, { model }: Summary): Promise<Reading> {
  const ran: string[] = [];
  const user = (content: string): Message => ({ role: "user", content, created_at: AT });
  let messages: Message[] = [user("Run all commands of the list, each once.")];
  let summary: Message | undefined;
  for (let time = 0; time < COMPACTIONS; time += 1) {
    messages.push(user(PROMPT));
    const next = nextTask(messages);
    const text = next === undefined ? "All is done." : said(next);
    const answer = (blocks: Extract<Message, { role: "block_assistant" }>["blocks"]): Message => {
      return { role: "block_assistant", blocks, stop_reason: "end_turn", created_at: AT };
    };
    if (next !== undefined) {
      const id = `c${ran.push(next)}`;
      messages.push(answer([{ block_type: "tool_use", data: { id, name: "run", args: { command: next } } }]), {
        role: "tool_results",
        results: [{ tool_use_id: id, content: "ok", is_error: false }],
        created_at: AT,
      });
    }
    messages.push(answer([{ block_type: "text", data: { text } }]));
    let written = "";
    const request = { messages: [...messages, user(COMPACTION_PROMPT)], tools: [] };
    for await (const part of model.stream(request, new AbortController().signal))
      if (part.type === "text_delta") written += part.delta;
    const before = messages.filter((message) => message.role === "user" && message !== summary);
    const kept = before.slice(-Math.floor((USER_TOKENS_MAX * CHARS_PER_TOKEN) / PROMPT.length));
    summary = user(`Another language model started to solve this problem. This is its summary:\n${written}`);
    messages = [...kept, summary];
  }
  return readingOf(ran, messages);
}

const rows: (Reading & { readonly context: string; readonly summary: string; readonly answers: string })[] = [];
for (const habit of HABITS) {
  const { answers } = habit;
  rows.push({ context: "AI SDK pruneMessages", summary: "none", answers, ...(await withPruning(habit)) });
  for (const summary of SUMMARIES) {
    const named = { summary: summary.summary, answers };
    rows.push({ context: "messages of the user + summary", ...named, ...(await withUserMessages(habit, summary)) });
    rows.push({ context: "rkat without the work state", ...named, ...(await withRkat(0, habit, summary)) });
    rows.push({ context: "rkat", ...named, ...(await withRkat(600, habit, summary)) });
  }
}
const ours = rows.filter(({ context }) => context === "rkat");
await publish({
  name: "compaction-redo",
  tables: [
    [
      ["context", "summary", "the agent answers", "redone", "never done", "looked up", "tokens at the end"],
      ...rows.map(({ context, summary, answers, redone, missed, recalls, tokens }) => [
        context,
        summary,
        answers,
        String(redone),
        String(missed),
        String(recalls ?? "–"),
        String(tokens),
      ]),
    ],
  ],
  targets: [
    { what: "commands redone by rkat's agent", value: Math.max(...ours.map(({ redone }) => redone)), max: 0 },
    { what: "commands that rkat's agent never ran", value: Math.max(...ours.map(({ missed }) => missed)), max: 0 },
  ],
  measured: rows,
});
