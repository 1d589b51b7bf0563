import { describe, expect, it } from "vitest";
import { listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { COMPACTION_PROMPT } from "../compaction/shown-messages.ts";
import type { ContentBlock, Message } from "../contract/message.ts";
import { createInMemoryStore, type RuntimeOptions } from "../create-runtime.ts";
import type { ModelRequest } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import type { ScriptedStep } from "../providers/scripted.ts";

const LINE = "export const heron = 'the heron stood in the reeds';\n"; // about 13 tokens
const SMALL = { autoCompactThreshold: 6_000, maxSummaryTokens: 100, recentTurnBudget: 2 };

/** Gives a file's lines, so many as its name says. */
const read: Tool = {
  name: "read",
  description: "Reads a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } } },
  execute: ({ path }) => fileOf(String(path)),
};

function fileOf(path: string): string {
  const size = Number(/\d+/.exec(path)?.[0] ?? 1);
  return `// ${path} is src/birds/${path}.ts\n${LINE.repeat(size)}// It listens on port 47${size}.\n`;
}

const isSummaryCall = ({ messages }: ModelRequest): boolean => {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
};

/** A session whose model makes the calls it is told to, one after another, and then says that it is done. */
function open(options: RuntimeOptions = {}) {
  const script: ScriptedStep[] = [];
  const usage = { input_tokens: 10, output_tokens: 5 };
  const { runtime, model } = scriptedRuntime(
    (request) => {
      if (isSummaryCall(request)) return { text: "They read about a heron.", usage };
      return { usage, ...(script.shift() ?? { text: "Done." }) };
    },
    { store: createInMemoryStore(), toolPreset: "safe", tools: [read], compaction: SMALL, ...options },
  );
  let ids = 0;
  const call = (name: string, args: object): ScriptedStep => ({
    calls: [{ id: `c${ids++}`, name, args: { ...args } }],
  });
  const reading = (...paths: readonly string[]): ScriptedStep[] => paths.map((path) => call("read", { path }));
  return { runtime, model, script, call, reading };
}

type Opened = ReturnType<typeof open>;

/** A session that has read three large files in three turns, and is about to be asked something. */
async function grown(opened: Opened) {
  const { runtime, script, reading } = opened;
  script.push(...reading("a120"));
  const session = await runtime.createSession("Read a.");
  for (const path of ["b120", "c40"]) {
    script.push(...reading(path));
    await session.turn(`Read ${path}.`);
  }
  return session;
}

const outputsIn = (messages: readonly Message[]): readonly string[] =>
  messages.flatMap((message) =>
    message.role === "tool_results" ? message.results.map(({ content }) => String(content).slice(0, 90)) : [],
  );

describe("tool output leaves the context before anything is summarised", () => {
  it("[J1] at a new turn from a share of the threshold on: one entry, one event, no model, nothing lost", async () => {
    const opened = open();
    const session = await grown(opened);
    const before = await session.context();
    const calls = opened.model.requests.length;
    const { events } = await listen(session.stream("And now?"));
    expect(typesOf(events)).toEqual(["run_started", "context_evicted", "turn_started", ...typesOf(events).slice(3)]);
    expect(opened.model.requests).toHaveLength(calls + 1);
    const [eviction, ...others] = await session.compactions();
    expect(others).toEqual([]);
    expect(events.find(({ type }) => type === "context_evicted")).toEqual({
      type: "context_evicted",
      compaction_id: eviction?.compactionId,
      outputs: 2,
      superseded: 0,
      failed: 0,
      large: 2,
      tokens_before: eviction?.tokensBefore,
      tokens_after: eviction?.tokensAfter,
    });
    expect(eviction).toMatchObject({
      strategy: "eviction",
      trigger: "eviction",
      summaryBy: "none",
      summary: "",
      discarded: [],
      reshape: "as_is",
      usage: { inputTokens: 0, outputTokens: 0 },
      receipt: { lost: 0, inSummary: 0, pruned: [{}, {}] },
    });
    expect(eviction?.receipt.recoverable).toBeGreaterThan(0);
    const context = await session.context();
    expect(outputsIn(opened.model.requests.at(-1)?.messages ?? [])).toEqual([
      expect.stringMatching(/^\[read "\/\/ a120 is src\/birds\/a120.ts export const heron = .*…" · about 1,/),
      expect.stringMatching(/^\[read "\/\/ b120 /),
      expect.stringMatching(/^\/\/ c40 is/),
    ]);
    expect(context.evicted).toMatchObject({ outputs: 2 });
    const sizes = new Map(context.kinds.map(({ kind, tokens }) => [kind, tokens]));
    expect(sizes.get("evicted")).toBeLessThan(100);
    expect([...sizes.values()].reduce((sum, tokens) => sum + tokens, 0)).toBe(context.estimatedTokens);
    expect((await session.history()).messages.flatMap((one) => outputsIn([one]))).toHaveLength(3);
    // Undone, the context is what it was, with what was said since.
    await session.undoCompaction(String(eviction?.compactionId));
    const after = await session.context();
    expect(after.messages.slice(0, before.messages.length)).toEqual(before.messages);
    expect(after.evicted).toBeUndefined();
  });

  it("[J1] what left stays readable where eviction is switched off afterwards, and nothing more leaves", async () => {
    const store = createInMemoryStore();
    const first = open({ store });
    const session = await grown(first);
    await session.turn("And now?");
    const [line] = outputsIn((await session.context()).messages);
    expect(line).toMatch(/^\[read /);
    const { seq } = (await session.context()).messages.find(({ role }) => role === "tool_results") ?? {};
    const later = open({ store, compaction: { ...SMALL, evict: false } });
    later.script.push(...later.reading("d120"), later.call("recall_output", { seq }));
    const again = later.runtime.session(session.id);
    await again.turn("What did a say?");
    expect(outputsIn((await again.history()).messages).at(-1)).toMatch(/^\/\/ a120 is/);
    expect((await again.compactions()).filter(({ evicted }) => evicted !== undefined)).toHaveLength(1);
  });

  it("[J1] what was undone is not evicted again, what came later is", async () => {
    const opened = open();
    const session = await grown(opened);
    await session.turn("And now?");
    const [eviction] = await session.compactions();
    await session.undoCompaction(String(eviction?.compactionId));
    opened.script.push(...opened.reading("d110"));
    await session.turn("Read d.");
    await session.turn("And now?");
    await session.turn("And now?");
    const standing = (await session.compactions()).filter(({ undone, trigger }) => !undone && trigger === "eviction");
    const lines = outputsIn((await session.context()).messages).filter((text) => text.startsWith("["));
    expect(standing.length).toBeLessThan(2);
    expect(lines.join()).not.toMatch(/a120|b120/);
  });

  it("[J1] the model reads it again with recall_output: whole, bounded like any output, of its own session only", async () => {
    const opened = open();
    const session = await grown(opened);
    await session.turn("And now?");
    const line = outputsIn((await session.context()).messages)[0] ?? "";
    const seq = Number((await session.compactions())[0]?.receipt.pruned[0]?.seq);
    expect(line.startsWith("[read ")).toBe(true);
    const { script, call, model } = opened;
    script.push(
      call("recall_output", { seq }),
      call("recall_output", { seq: 1 }),
      call("recall_output", { seq, call: 2 }),
    );
    await session.turn("What was in a?");
    const given = (model.requests.at(-1)?.messages ?? []).flatMap((message) =>
      message.role === "tool_results" ? message.results : [],
    );
    expect(given.slice(-3)).toEqual([
      { tool_use_id: expect.anything(), content: fileOf("a120"), is_error: false },
      {
        tool_use_id: expect.anything(),
        content: expect.stringContaining("there is no tool output at 1"),
        is_error: true,
      },
      { tool_use_id: expect.anything(), content: expect.stringContaining("call: the outputs at"), is_error: true },
    ]);
    // Another session has nothing at that seq of this one's.
    script.push(call("recall_output", { seq }));
    const other = await opened.runtime.createSession("What was in a?");
    const [answer] = outputsIn((await other.context()).messages);
    expect(answer).toContain("there is no tool output at");
  });

  it("[J1] makes a summary needless where what is left is below the threshold, and leaves it to one that is not", async () => {
    const opened = open();
    const { script, reading, runtime } = opened;
    script.push(...reading("a120"));
    const session = await runtime.createSession("Read a.");
    script.push(...reading("b120", "a120", "b120", "c120", "d2"));
    const { events } = await listen(session.stream("Read all of it."));
    expect(typesOf(events)).toContain("context_evicted");
    expect(typesOf(events)).not.toContain("compaction_started");
    expect(opened.model.requests.filter(isSummaryCall)).toEqual([]);
    // Two large files in the newest exchanges are over the threshold by themselves.
    script.push(...reading("e400", "f400", "g2"));
    const { events: more } = await listen(session.stream("Read more."));
    expect(typesOf(more)).toContain("compaction_completed");
    expect((await session.compactions()).every(({ receipt }) => receipt.lost === 0)).toBe(true);
  });

  it("[J1] [J2] makes a summary needless that would be made ready behind a turn", async () => {
    const opened = open({ compaction: { ...SMALL, prepare: true } });
    const { script, reading, runtime } = opened;
    script.push(...reading("a120", "a120", "a120", "a120", "a120", "a120", "b2"));
    const session = await runtime.createSession("Read a.");
    await session.turn("And now?");
    expect((await session.compactions()).map(({ strategy }) => strategy)).toContain("eviction");
    expect(opened.model.requests.filter(isSummaryCall)).toEqual([]);
  });

  it("[J1] neither delays nor forbids a compaction, and both thresholds are judged on what is left", async () => {
    const opened = open();
    const session = await grown(opened);
    const { session_compaction_cadence: before } = await opened.runtime.dispatch("readSession", {
      session_id: session.id,
    });
    // The model's own count is over the threshold, of which what is evicted is taken off.
    opened.script.push({ text: "Done.", usage: { input_tokens: 6_500, output_tokens: 5 } });
    await session.turn("Count.");
    const [first] = await session.compactions();
    expect(first?.trigger).toBe("eviction");
    const { session_compaction_cadence: after } = await opened.runtime.dispatch("readSession", {
      session_id: session.id,
    });
    expect(after).toEqual({ ...before, session_boundary_index: (before?.session_boundary_index ?? 0) + 1 });
    const { events } = await listen(session.stream("Go on."));
    expect(events.find(({ type }) => type === "compaction_started")).toMatchObject({ input_tokens: 6_500 });
  });

  it("[J1] within a turn it waits until a task is done", async () => {
    const opened = open();
    const { script, reading, call, runtime } = opened;
    script.push(...reading("a100", "a100", "a100"));
    script.push(...reading("b2", "b3"));
    script.push(call("task_create", { subject: "Read.", description: "Read it all." }));
    const session = await runtime.createSession("Read a.");
    expect(await session.compactions()).toEqual([]);
    const created = (await session.history()).messages.flatMap((one) => outputsIn([one])).at(-1) ?? "";
    const id = /"id":"([^"]+)"/.exec(created)?.[1];
    script.push(...reading("b4"), call("task_update", { id, status: "completed" }), ...reading("b5"));
    const evicting = (await listen(session.stream("Go on."))).events;
    expect(typesOf(evicting).filter((type) => type === "context_evicted")).toHaveLength(1);
  });

  it("[J1] later evictions begin after the last output of the one before: what stands before it stays byte for byte", async () => {
    const opened = open({ compaction: { ...SMALL, autoCompactThreshold: 9_000, evictAt: 0.4 } });
    const session = await grown(opened);
    const { script, reading, model } = opened;
    for (let turn = 0; turn < 12; turn += 1) {
      script.push(...reading(`${"x".repeat(turn)}${80 + turn}`));
      await session.turn(`Turn ${turn}.`);
    }
    const evictions = (await session.compactions()).filter(({ trigger }) => trigger === "eviction");
    expect(evictions.length).toBeGreaterThan(1);
    const points = evictions.map(({ evicted }) => evicted?.upToSeq ?? 0);
    expect(points).toEqual([...new Set(points)].sort((a, b) => a - b));
    const first = (await session.context()).messages.findIndex(({ seq }) => seq === points[0]);
    const requests = model.requests.filter((request) => request.messages.length > first + 1);
    const evicted = requests.filter(({ messages }) => JSON.stringify(messages[first]).includes("recall_output(seq"));
    const prefixes = new Set(evicted.map(({ messages }) => JSON.stringify(messages.slice(0, first + 1))));
    expect(evicted.length).toBeGreaterThan(3);
    expect(prefixes.size).toBe(1);
  });

  it("[J1] a pin or an expansion shows an output whole again, and it stays so", async () => {
    const opened = open();
    const session = await grown(opened);
    await session.turn("And now?");
    const [eviction] = await session.compactions();
    const [a, b] = eviction?.receipt.pruned ?? [];
    const id = String(eviction?.compactionId);
    await session.pin(Number(a?.seq));
    expect(outputsIn((await session.context()).messages)[0]).toMatch(/^\/\/ a120/);
    await session.unpin(Number(a?.seq));
    expect(outputsIn((await session.context()).messages)[0]).toMatch(/^\[read/);
    const range = { fromSeq: Number(b?.seq), toSeq: Number(b?.seq) };
    await expect(session.expandCompaction(id, { ...range, maxTokens: 100 })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringMatching(/^maxTokens: 100 is not enough, the smallest of these outputs takes about/),
    });
    await expect(session.expandCompaction(id, { fromSeq: 1, toSeq: 2 })).rejects.toMatchObject({
      message: expect.stringContaining(`took out the seqs ${a?.seq}`),
    });
    expect(await session.expandCompaction(id, { ...range, maxTokens: 10_000 })).toMatchObject({
      expanded: [{ fromSeq: b?.seq, toSeq: b?.seq }],
      leftOut: [],
    });
    expect(outputsIn((await session.context()).messages)[1]).toMatch(/^\/\/ b120/);
    opened.script.push(...opened.reading("d120"));
    await session.turn("Read d.");
    await session.turn("And now?");
    await session.turn("And now?");
    expect(outputsIn((await session.context()).messages)[1]).toMatch(/^\/\/ b120/);
  });

  it.each([
    ["evict is false", { compaction: { ...SMALL, evict: false } }, {}],
    ["the session says so", {}, { compaction: { evict: false } }],
    ["references are not wanted", { compaction: { ...SMALL, pruneToolResults: false } }, {}],
    ["a filter leaves the tool out", {}, { tool_filter: { Deny: ["recall_output"] } }],
    ["the preset is none", { toolPreset: "none" }, {}],
    ["the ceiling is none", { toolPreset: "none", ceiling: "none" }, {}],
    ["a rule denies it", {}, { permissions: { deny: ["recall_output"] } }],
    ["another tool has its name", { tools: [read, { ...read, name: "recall_output" }] }, {}],
    ["the share is not reached", { compaction: { ...SMALL, evictAt: 1 } }, {}],
  ] as const)("[J1] nothing is evicted where %s", async (_, options, input) => {
    const opened = open(options as RuntimeOptions);
    const { runtime, script, reading } = opened;
    script.push(...reading("a120"));
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Read a.", ...input });
    for (const path of ["b120", "c40"]) {
      script.push(...reading(path));
      await runtime.dispatch("startTurn", { session_id, prompt: `Read ${path}.` });
    }
    await runtime.dispatch("startTurn", { session_id, prompt: "And now?" });
    expect((await runtime.dispatch("listCompactions", { session_id })).compactions).toEqual([]);
  });

  it("[J1] a turn that may not use the tool evicts nothing", async () => {
    const opened = open();
    const session = await grown(opened);
    const overlay = { flow_tool_overlay: { blocked_tools: ["recall_output"] } };
    await opened.runtime.dispatch("startTurn", { session_id: session.id, prompt: "And now?", ...overlay });
    expect(await session.compactions()).toEqual([]);
  });

  it("[J1] is offered only beside other tools than memory's, and where it is on", async () => {
    const toolsOf = async (options: RuntimeOptions): Promise<readonly string[]> => {
      const { runtime, model } = open(options);
      await runtime.createSession("Hello.");
      return model.requests[0]?.tools.map(({ name }) => name) ?? [];
    };
    expect(await toolsOf({})).toContain("recall_output");
    expect(await toolsOf({ tools: [], toolPreset: "none", memory: {} })).not.toContain("recall_output");
    const { runtime, model } = scriptedRuntime(() => ({ text: "ok" }), { memory: {}, compaction: true });
    await runtime.createSession("Hello.");
    expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(["memory_search", "search_project_history"]);
    const { compaction: _, ...without } = { compaction: undefined };
    const bare = scriptedRuntime(() => ({ text: "ok" }), { toolPreset: "safe", ...without });
    await bare.runtime.createSession("Hello.");
    expect(bare.model.requests[0]?.tools.map(({ name }) => name)).not.toContain("recall_output");
  });

  it("[J1] [D1] memory finds what was evicted, and says that the context does not show it", async () => {
    const opened = open({ memory: {} });
    const session = await grown(opened);
    await session.turn("And now?");
    // Nor is it asked before the call: the line that is left names the output.
    const [eviction] = await session.compactions();
    expect(eviction?.receipt).toMatchObject({ lost: 0, foundBySearch: 0 });
    const asked = { query: "b120", session_id: session.id, scope: "session", explain: true } as const;
    const { results } = await opened.runtime.dispatch("searchMemory", asked);
    expect(results[0]).toMatchObject({ content: expect.stringContaining("b120"), in_context: false });
  });

  it("[J1] forks, rewrites and new processes go on with what was evicted", async () => {
    const store = createInMemoryStore();
    const opened = open({ store });
    const session = await grown(opened);
    await session.turn("And now?");
    const { messages } = await session.history();
    const fork = await session.fork(messages.length);
    expect((await fork.context()).messages).toEqual((await session.context()).messages);
    await fork.turn("And now?");
    expect(outputsIn((await fork.context()).messages)[0]).toMatch(/^\[read/);
    const again = open({ store });
    const resumed = again.runtime.session(session.id);
    expect((await resumed.context()).sha256).toBe((await session.context()).sha256);
    await resumed.turn("Go on.");
    expect(outputsIn(again.model.requests.at(-1)?.messages ?? [])[0]).toMatch(/^\[read/);
    // What is rewritten takes the evictions of it with it.
    const at = messages.findIndex(({ role }) => role === "tool_results");
    const [before] = messages.slice(at, at + 1);
    if (before?.role !== "tool_results") throw new Error("there is no output");
    const { seq: _seq, ...message } = before;
    const blocks: ContentBlock[] = [{ type: "text", text: `// secret\n${LINE.repeat(100)}` }];
    const changed = { ...message, results: message.results.map((one) => ({ ...one, content: blocks })) };
    await resumed.rewrite({ start: at, end: at + 1 }, [changed]);
    const seen = JSON.stringify((await resumed.context()).messages);
    expect(seen).toContain("// secret");
    expect(seen).not.toContain("birds/a120");
  });

  it("[J1] a provider that finds the context too long is helped by it first", async () => {
    const opened = open({ compaction: { ...SMALL, autoCompactThreshold: 100_000, evictAt: 0.01 } });
    const { script, reading, runtime } = opened;
    script.push(...reading("a200"));
    const session = await runtime.createSession("Read a.");
    script.push(...reading("a200", "a200", "b2"));
    script.push({ ends: { failure: { kind: "context_exceeded", message: "too long" } } });
    const { events } = await listen(session.stream("Read it again."));
    expect(typesOf(events)).toContain("context_evicted");
    expect(typesOf(events)).not.toContain("compaction_started");
    expect(typesOf(events).at(-1)).toBe("run_completed");
  });
});
