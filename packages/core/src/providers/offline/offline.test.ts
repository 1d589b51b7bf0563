import { describe, expect, it } from "vitest";
import { fc } from "../../../../../test/support/property.ts";
import type { AssistantBlock, Message } from "../../contract/message.ts";
import type { ModelPart, ModelRequest } from "../../ports/model.ts";
import { createOfflineModel } from "./offline.ts";

const created_at = "2026-01-01T00:00:00Z";
const model = createOfflineModel();

function user(content: string): Message {
  return { role: "user", content, created_at };
}

function toolSpecs(...names: readonly string[]): ModelRequest["tools"] {
  return names.map((name) => ({ name, description: name, inputSchema: { type: "object" } }));
}

async function collect(stream: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function partsOf(request: Partial<ModelRequest>, signal = new AbortController().signal): Promise<ModelPart[]> {
  return collect(model.stream({ messages: [], tools: [], ...request }, signal));
}

async function blocksOf(request: Partial<ModelRequest>): Promise<AssistantBlock[]> {
  return (await partsOf(request)).flatMap((part) => (part.type === "block" ? [part.block] : []));
}

/** The answer to the last of these messages, all the user's. */
async function answerTo(...texts: readonly string[]): Promise<string> {
  return textOf(await blocksOf({ messages: texts.map(user) }));
}

function textOf(blocks: readonly AssistantBlock[]): string {
  return blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("");
}

function callsOf(blocks: readonly AssistantBlock[]): { name: string; args: unknown }[] {
  return blocks.flatMap((block) =>
    block.block_type === "tool_use" ? [{ name: block.data.name, args: block.data.args }] : [],
  );
}

/** One turn to its end: asks, lets the given tools answer, asks again. */
async function turn(prompt: string, tools: Record<string, unknown>, isError = false): Promise<string> {
  const messages: Message[] = [user(prompt)];
  for (let step = 0; step < 4; step += 1) {
    const blocks = await blocksOf({ messages, tools: toolSpecs(...Object.keys(tools)) });
    const uses = blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data] : []));
    if (uses.length === 0) return textOf(blocks);
    const results = uses.map(({ id, name }) => {
      const answer = tools[name];
      return {
        tool_use_id: id,
        content: typeof answer === "string" ? answer : JSON.stringify(answer),
        is_error: isError,
      };
    });
    messages.push({ role: "block_assistant", blocks, stop_reason: "tool_use", created_at });
    messages.push({ role: "tool_results", results, created_at });
  }
  return "the turn did not end";
}

describe("offline model: what it is and what it was told", () => {
  it("[A8] says what it is when greeted or asked", async () => {
    for (const prompt of ["Hello!", "Hello world", "Hi Bob.", "who are you?", "What can you do?", ""]) {
      expect(await answerTo(prompt)).toContain("I am rkat's built-in offline model: no network, no weights.");
    }
  });

  it.each([
    ["My name is Ada", "Noted: your name is Ada."],
    ["The deploy key is in vault/prod", "Noted: the deploy key is in vault/prod."],
    ["Remember: the port is 7443", "Noted: the port is 7443."],
    ["We decided to use LMDB because it is mapped.", "Noted: we decided to use LMDB because it is mapped."],
    ["Hi, the port is 99.", "Noted: Hi, the port is 99."],
    ["Hello.ts is broken.", "Noted: Hello.ts is broken."],
    ["Nice try, port is 9.", "Noted: Nice try, port is 9."],
    ["When it fails, run `make undo`.", "Noted: when it fails, run `make undo`."],
    ["One. Two. Three. Four. Five.", "Noted: One.\nNoted: Two.\nNoted: Three.\nNoted: 2 more sentences."],
  ])("[A8] acknowledges “%s” with its specifics", async (said, answer) => {
    expect(await answerTo(said)).toBe(answer);
  });

  it("[A8] is honest about work it cannot do", async () => {
    expect(await answerTo("Write me a poem about rain.")).toMatch(/^I cannot do that/u);
  });

  it("[A8] says that it cannot see an image", async () => {
    const content = [{ type: "image" as const, media_type: "image/png", source: "inline" as const, data: "AAAA" }];
    const blocks = await blocksOf({ messages: [{ role: "user", content, created_at }] });
    expect(textOf(blocks)).toMatch(/^I cannot see images/u);
  });
});

describe("offline model: questions", () => {
  const reported = [
    "Hi, my name is Ada.",
    "The deploy key is in vault/prod.",
    "Remember: the server port is 7443",
    "We decided to use LMDB because it is mapped. Never touch src/legacy/auth.ts.",
    "The meetings with Bob are on Fridays at 10:30.",
    "Where is the release key?",
  ];

  it.each([
    ["What is my name?", "You told me: “Hi, my name is Ada”."],
    ["where is the deploy key", "You told me: “The deploy key is in vault/prod”."],
    ["Which port does the server listen on?", "You told me: “Remember: the server port is 7443”."],
    ["Which database did we decide to use?", "You told me: “We decided to use LMDB because it is mapped”."],
    ["What must I never touch?", "You told me: “Never touch src/legacy/auth.ts”."],
    ["What about auth.ts?", "You told me: “Never touch src/legacy/auth.ts”."],
    ["When am I meeting Bob?", "You told me: “The meetings with Bob are on Fridays at 10:30”."],
  ])("[A8] answers “%s” by quoting the user", async (question, answer) => {
    expect(await answerTo(...reported, question)).toBe(answer);
  });

  it("[A8] prefers the newest of equals", async () => {
    expect(await answerTo("The port is 1.", "The port is 2.", "What is the port?")).toBe(
      "You told me: “The port is 2”.",
    );
  });

  it("[A8] finds what a compaction summary says, and says that it is from there", async () => {
    const summary =
      "[Context compacted] A previous context … without duplicating work:\n## Critical data\n- The port is 7443.";
    expect(await answerTo(summary, "What is the port?")).toBe(
      "The summary of our earlier conversation says: “The port is 7443”.",
    );
  });

  it("[A8] does not answer a question about another name", async () => {
    expect(await answerTo("Constants are written in capital letters.", "What is the capital of France?")).toBe(
      "I find nothing about that in this conversation. Tell me, and I can quote it later.",
    );
  });

  it("[A8] reads Chinese, accents and emoji", async () => {
    expect(await answerTo("端口是7443。", "端口是多少？")).toBe("You told me: “端口是7443”.");
    expect(await answerTo("El código es 99.", "¿Cuál es el codigo?")).toBe("You told me: “El código es 99”.");
    expect(await answerTo("🎉")).toBe("Noted: 🎉.");
  });

  it("[A8] answers a statement and a question of one message in order", async () => {
    expect(await answerTo("The port is 99. What is the port?")).toBe(
      "Noted: the port is 99.\nYou told me: “The port is 99”.",
    );
  });
});

describe("offline model: tools", () => {
  const hit = { content: "By the way, the staging host is stage-3.", score: 0.8, session_id: "0193abcd-7", turn: 4 };
  const clock = { date: "2026-01-02", time: "10:00:00", timezone: "UTC", weekday: "Friday" };

  it("[A8] searches memory with the words of a question it cannot answer", async () => {
    const blocks = await blocksOf({ messages: [user("What is the staging host?")], tools: toolSpecs("memory_search") });
    expect(callsOf(blocks)).toEqual([{ name: "memory_search", args: { query: "staging host" } }]);
  });

  it("[A8] answers from the best memory and never from its own words or a question", async () => {
    const hits = [
      { ...hit, content: "What is the staging host?", score: 0.99, turn: 9 },
      { ...hit, content: "I find nothing about that staging host in this conversation.", score: 0.9, turn: 9 },
      hit,
    ];
    expect(await turn("What is the staging host?", { memory_search: hits })).toBe(
      "I found in memory (session 0193abcd, turn 4): “By the way, the staging host is stage-3”.",
    );
  });

  it("[A8] tries the project's history after memory, then says that it does not know", async () => {
    const found = await turn("What is the staging host?", { memory_search: [], search_project_history: [hit] });
    expect(found).toContain("the staging host is stage-3");
    const nothing = await turn("What is the staging host?", { memory_search: [], search_project_history: [] });
    expect(nothing).toBe(
      "I find nothing about that in this conversation, nor in memory. Tell me, and I can quote it later.",
    );
  });

  it("[A8] does two errands of one message in one answer", async () => {
    const prompt = "What time is it? Add a task: buy milk";
    const blocks = await blocksOf({ messages: [user(prompt)], tools: toolSpecs("datetime", "task_create") });
    expect(callsOf(blocks)).toEqual([
      { name: "datetime", args: {} },
      { name: "task_create", args: { subject: "buy milk", description: "buy milk" } },
    ]);
    expect(await turn(prompt, { datetime: clock, task_create: { id: "t1", subject: "buy milk" } })).toBe(
      "`datetime` answered:\ndate: 2026-01-02\ntime: 10:00:00\ntimezone: UTC\nweekday: Friday\n" +
        "Task added: “buy milk”.",
    );
  });

  it("[A8] lists tasks", async () => {
    const tasks = [
      { subject: "buy milk", status: "pending" },
      { subject: "ship", status: "completed" },
    ];
    expect(await turn("What is left to do?", { task_list: tasks })).toBe(
      "`task_list` answered:\nsubject: buy milk\nstatus: pending\nsubject: ship\nstatus: completed",
    );
  });

  it("[A8] runs only what is marked as a command, and reports its exit code", async () => {
    const result = { exit_code: 2, stdout: "one\ntwo\n", stderr: "boom\n" };
    expect(await turn("Please run `npm test`", { shell: result })).toBe(
      "`shell` answered:\nexit_code: 2\nstdout: one\ntwo\n\nstderr: boom",
    );
    expect(callsOf(await blocksOf({ messages: [user("Run away with me")], tools: toolSpecs("shell") }))).toEqual([]);
  });

  it("[A8] says why a tool failed, and does not call it again", async () => {
    expect(await turn("run `npm test`", { shell: "shell is not allowed here" }, true)).toBe(
      "The tool `shell` failed: shell is not allowed here",
    );
    expect(await turn("What is the staging host?", { memory_search: "store closed" }, true)).toMatch(
      /^The tool `memory_search` failed: store closed\nI find nothing/u,
    );
  });

  it("[A8] says which tool is missing instead of inventing an answer", async () => {
    expect(await answerTo("What time is it?")).toBe("I have no tool `datetime` here.");
    expect(await answerTo("run `ls`")).toBe("I have no tool `shell` here.");
  });

  it("[A8] gives every call of a conversation its own id", async () => {
    const first = await blocksOf({ messages: [user("run `a`"), user("run `b`. Run `c`.")], tools: toolSpecs("shell") });
    const history: Message[] = [{ role: "block_assistant", blocks: first, stop_reason: "tool_use", created_at }];
    const second = await blocksOf({ messages: [...history, user("run `b`")], tools: toolSpecs("shell") });
    const ids = [...first, ...second].flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : []));
    expect(new Set(ids).size).toBe(3);
  });
});

describe("offline model: the stream", () => {
  it("[A8] streams words, then the block they make, then one finish with estimated usage", async () => {
    const parts = await partsOf({ messages: [user("what is 17 * 23?")] });
    expect(parts).toEqual([
      { type: "text_delta", delta: "17" },
      { type: "text_delta", delta: " *" },
      { type: "text_delta", delta: " 23" },
      { type: "text_delta", delta: " =" },
      { type: "text_delta", delta: " 391" },
      { type: "block", block: { block_type: "text", data: { text: "17 * 23 = 391" } } },
      { type: "finish", stopReason: "end_turn", usage: { input_tokens: 21, output_tokens: 4 } },
    ]);
  });

  it("[A8] stops at the token limit and at a stop sequence", async () => {
    const short = await partsOf({ messages: [user("who are you?")], maxOutputTokens: 5 });
    expect(short.at(-2)).toEqual({
      type: "block",
      block: { block_type: "text", data: { text: "I am rkat's built-in" } },
    });
    expect(short.at(-1)).toMatchObject({ stopReason: "max_tokens", usage: { output_tokens: 5 } });
    const stopped = await partsOf({ messages: [user("who are you?")], stopSequences: ["offline"] });
    expect(stopped.at(-1)).toMatchObject({ stopReason: "stop_sequence" });
  });

  it("[A8] ends with one failure when aborted between two pieces", async () => {
    const controller = new AbortController();
    const parts: ModelPart[] = [];
    for await (const part of model.stream({ messages: [user("who are you?")], tools: [] }, controller.signal)) {
      parts.push(part);
      controller.abort();
    }
    expect(parts).toEqual([
      { type: "text_delta", delta: "I" },
      { type: "failed", failure: { kind: "unknown", message: "aborted" } },
    ]);
  });

  it("[A8] gives the same parts for the same request, whatever was said", async () => {
    const said = fc.array(
      fc.oneof(fc.string({ unit: "grapheme" }), fc.lorem(), fc.constantFrom("What is it?", "run `x`")),
    );
    await fc.assert(
      fc.asyncProperty(said, async (texts) => {
        const request = { messages: texts.map(user), tools: toolSpecs("memory_search", "shell") };
        const parts = await partsOf(request);
        expect(await partsOf(request)).toEqual(parts);
        expect(parts.filter((part) => part.type === "finish")).toHaveLength(1);
        expect(parts.some((part) => part.type === "block")).toBe(true);
      }),
    );
  });

  it.each([
    ["words", "the deploy key of server 7 is in src/a.ts. "],
    ["one endless token", "a"],
    ["Chinese", "端口"],
    ["emoji", "🎉"],
    ["question marks", "? "],
    ["code marks", "`"],
    ["thanks", "thank you and "],
    ["paths", "a-b/c.d_e1 "],
  ])("[A8] answers over a megabyte of %s", async (_, text) => {
    const messages = [user(text.repeat(1_000_000 / text.length)), user("What is the release date?")];
    // Work that is not linear would not end within the time of a test.
    expect(await partsOf({ messages })).not.toEqual([]);
  });
});
