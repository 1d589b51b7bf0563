import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { AgentTool, Open, Setting } from "../driver.ts";

export const open: Open = async (setting) => {
  const sessions = new Map<string, Message[]>();
  const files = new Map<string, number>();
  const learnt: { readonly text: string; readonly vector: readonly number[] }[] = [];
  const path = (session: string): string => join(setting.folder ?? "", `${session}.jsonl`);
  const messagesOf = (session: string): Message[] => {
    const known = sessions.get(session);
    if (known !== undefined) return known;
    const lines = readFileSync(path(session), "utf8").split("\n");
    const read = lines.flatMap((line): Message[] => (line.endsWith("}") ? [JSON.parse(line)] : []));
    sessions.set(session, read);
    return read;
  };
  const add = (session: string, message: Message): void => {
    messagesOf(session).push(message);
    if (setting.folder === undefined) return;
    const file = files.get(session) ?? openSync(path(session), "a");
    files.set(session, file);
    writeSync(file, `${JSON.stringify(message)}\n`);
    fsyncSync(file);
  };
  return {
    begin: async () => {
      const session = crypto.randomUUID();
      if (setting.folder !== undefined) mkdirSync(setting.folder, { recursive: true });
      sessions.set(session, []);
      add(session, { role: "system", content: setting.systemPrompt });
      return session;
    },
    turn: async (session, prompt) => {
      add(session, { role: "user", content: prompt });
      for (let call = 0; call < CALLS_MAX; call += 1) {
        const { text, tool } = await ask(setting, messagesOf(session));
        if (tool === undefined) {
          add(session, { role: "assistant", content: text });
          return text;
        }
        add(session, { role: "assistant", content: null, tool_calls: [tool] });
        const named = setting.tools.find(({ name }) => name === tool.function.name);
        const content = (await named?.run(JSON.parse(tool.function.arguments))) ?? "no such tool";
        add(session, { role: "tool", tool_call_id: tool.id, content });
      }
      throw new Error("the model kept calling tools");
    },
    kept: async (session) => JSON.stringify(messagesOf(session)),
    learn: async (talks) => {
      for (const { text } of talks.flat()) learnt.push({ text, vector: await embed(setting, text) });
    },
    find: async (question, count = FOUND) => {
      const asked = await embed(setting, question);
      const alike = learnt.map(({ text, vector }) => ({
        text,
        value: vector.reduce((sum, value, at) => sum + value * (asked[at] ?? 0), 0),
      }));
      return alike
        .sort((a, b) => b.value - a.value)
        .slice(0, count)
        .map(({ text }) => text);
    },
    close: async () => {
      for (const file of files.values()) closeSync(file);
    },
  };
};

const CALLS_MAX = 10;
const FOUND = 5;

type Message = Readonly<Record<string, unknown>>;

interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; arguments: string };
}

interface Answer {
  text: string;
  tool: ToolCall | undefined;
}

async function ask({ baseUrl, model, tools }: Setting, messages: readonly Message[]): Promise<Answer> {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer none" },
    body: JSON.stringify({
      model,
      messages,
      tools: tools.map(toWire),
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (!response.ok || response.body === null) throw new Error(`the server answered ${response.status}`);
  const answer: Answer = { text: "", tool: undefined };
  const decoder = new TextDecoder();
  let pending = "";
  for await (const bytes of response.body) {
    pending += decoder.decode(bytes, { stream: true });
    const events = pending.split("\n\n");
    pending = events.pop() ?? "";
    for (const event of events) receive(answer, event.slice("data: ".length));
  }
  return answer;
}

async function embed({ embeddings }: Setting, input: string): Promise<readonly number[]> {
  const response = await fetch(`${embeddings?.baseUrl}/embeddings`, {
    method: "POST",
    body: JSON.stringify({ model: embeddings?.model, input }),
  });
  // What the API answers with.
  const { data } = (await response.json()) as { readonly data: readonly [{ readonly embedding: readonly number[] }] };
  return data[0].embedding;
}

function toWire({ name, description, fields }: AgentTool): object {
  const properties = Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }]));
  const parameters = { type: "object", properties, required: Object.keys(fields), additionalProperties: false };
  return { type: "function", function: { name, description, parameters } };
}

function receive(answer: Answer, data: string): void {
  if (data === "[DONE]") return;
  const delta = JSON.parse(data).choices[0]?.delta;
  if (delta?.content) answer.text += delta.content;
  const call = delta?.tool_calls?.[0];
  if (call === undefined) return;
  if (answer.tool === undefined) answer.tool = { id: call.id, type: "function", function: { ...call.function } };
  else answer.tool.function.arguments += call.function.arguments;
}
