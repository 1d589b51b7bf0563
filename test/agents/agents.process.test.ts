import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore, type Runtime } from "@rkat/core/create-runtime";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../support/runtime.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-agents-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const SMALL = configWith({ agent_memory: { immediate_window: 4, recent_window: 4 } });

async function rememberMany(runtime: Runtime, name: string, from: number, to: number): Promise<void> {
  for (let number = from; number <= to; number += 1) {
    await runtime.agent(name).remember(`Memory ${number} was of a ${number % 2 === 0 ? "heron" : "fox"}.`);
  }
  while ((await runtime.agent(name).status()).compactionRunning) await new Promise(setImmediate);
}

describe("agents of a runtime", () => {
  it("[E1] [E5] have a context of tiers, and say where they are", async () => {
    const { runtime, model } = scriptedRuntime(
      ({ messages }) => ({ text: `Ada saw ${JSON.stringify(messages).includes("fox") ? "foxes" : "things"}.` }),
      { store: createInMemoryStore(), config: SMALL },
    );
    await rememberMany(runtime, "ada", 1, 13);
    const ada = runtime.agent("ada");
    expect(await ada.status()).toMatchObject({
      agent: "ada",
      count: 13,
      immediateWindow: 4,
      recentWindow: 4,
      immediateCount: 4,
      recentRange: { fromSeq: 6, toSeq: 9 },
      longtermRange: { fromSeq: 1, toSeq: 5 },
      compactions: 2,
      nextCompactionAt: 17,
      compactionDue: false,
    });
    const { prompt, immediate, recentSummary: recent_summary, longtermSummary: longterm_summary } = await ada.context();
    expect(immediate.map(({ seq }) => seq)).toEqual([10, 11, 12, 13]);
    expect(prompt).toBe(
      `You are ada.\n\n## Older Memories (Summary)\n${longterm_summary}\n\n## Recent Past (Summary)\n${recent_summary}\n\n---\n${immediate.map(({ content }) => content).join("\n")}\n---`,
    );
    const { summaries } = await ada.history();
    expect(summaries.map(({ tier, from, to }) => [tier, from, to])).toEqual([
      ["recent", 6, 9],
      ["longterm", 1, 5],
      ["recent", 1, 5],
    ]);
    expect(summaries.slice(0, 2).map(({ summary }) => summary)).toEqual([recent_summary, longterm_summary]);
    const newest = await ada.history({ limit: 1 });
    expect(newest).toEqual({ summaries: summaries.slice(0, 2), nextBeforeSeq: summaries[0]?.seq });
    expect(await ada.history({ beforeSeq: newest.nextBeforeSeq ?? 0 })).toEqual({ summaries: summaries.slice(2) });
    expect(await runtime.agent("eve").history()).toEqual({ summaries: [] });
    expect((await ada.context({ immediate: 2 })).immediate.map(({ seq }) => seq)).toEqual([12, 13]);
    expect((await ada.context({ immediate: 13 })).immediate.map(({ seq }) => seq)).toEqual(
      Array.from({ length: 13 }, (_, at) => at + 1),
    );
    // [E4] A chat model is asked in the same words as a base model.
    expect(model.requests[0]?.messages).toMatchObject([
      {
        role: "user",
        content: expect.stringMatching(/^Summarize these memories in 2-3 sentences:\n\nMemory 1 .*\n\nSUMMARY:\n$/s),
      },
    ]);
    expect(model.requests[0]?.tools).toEqual([]);
  });

  it("[E6] are told why there is nothing to compact", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: "Something was seen." }), {
      store: createInMemoryStore(),
      config: SMALL,
    });
    const ada = runtime.agent("ada");
    expect(await ada.compact()).toEqual({
      compacted: false,
      reason: "no memory has left the immediate window of 4 yet: there are 0",
    });
    await rememberMany(runtime, "ada", 1, 6);
    expect(await ada.compact()).toEqual({ compacted: true, recentSummary: "Something was seen." });
    expect(await ada.compact()).toMatchObject({
      compacted: false,
      reason: expect.stringContaining("no memory has left"),
    });
  });

  it("[E8] a summary that is no use leaves both tiers as they were, and the next memory tries again", async () => {
    let isBroken = true;
    const { runtime } = scriptedRuntime(
      () => ({ text: isBroken ? "the the the the the the the the the the the the" : "A fox was seen." }),
      { store: createInMemoryStore(), config: SMALL },
    );
    await rememberMany(runtime, "ada", 1, 9);
    expect(await runtime.agent("ada").status()).toMatchObject({
      compactions: 0,
      lastError: "the model returned no usable summary",
      compactionDue: false,
    });
    isBroken = false;
    await rememberMany(runtime, "ada", 10, 10);
    expect(await runtime.agent("ada").status()).toMatchObject({
      compactions: 1,
      recentSummary: "A fox was seen.",
      recentRange: { fromSeq: 1, toSeq: 6 },
    });
  });

  it("[E4] are summarised by their own sentences where there is no model", async () => {
    const { runtime } = scriptedRuntime([], { store: createInMemoryStore(), config: SMALL, model: "offline" });
    await rememberMany(runtime, "ada", 1, 9);
    const { recentSummary: recent_summary = "" } = await runtime.agent("ada").context();
    expect(recent_summary).toContain("Memory 1 was of a fox.");
  });

  it("[E4] are summarised by a base model through raw completion, with its stop tokens", async () => {
    const bodies: unknown[] = [];
    const server = createServer((request, response) => {
      let text = "";
      request.on("data", (part) => {
        text += part;
      });
      request.on("end", () => {
        bodies.push({ url: request.url, ...JSON.parse(text) });
        const said = " Ada watched birds.\n\nSummarize these memories in 2-3 sentences:\n\nMore.";
        response.end(
          `${JSON.stringify({ response: said, done: false })}\n${JSON.stringify({ response: "", done: true })}\n`,
        );
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const config = configWith({
      agent_memory: { immediate_window: 1, recent_window: 1 },
      profiles: {
        summarizer: {
          model: "comma-v0.1-2t",
          api: "ollama-generate",
          base_url: `http://127.0.0.1:${port}`,
          stop: ["\n\n"],
        },
      },
    });
    const { runtime } = scriptedRuntime([], { store: createInMemoryStore(), config });
    try {
      await rememberMany(runtime, "ada", 1, 3);
      expect(await runtime.agent("ada").status()).toMatchObject({ recentSummary: "Ada watched birds." });
      expect(bodies).toEqual([
        {
          url: "/api/generate",
          model: "comma-v0.1-2t",
          prompt:
            "Summarize these memories in 2-3 sentences:\n\nMemory 1 was of a fox.\nMemory 2 was of a heron.\n\nSUMMARY:\n",
          raw: true,
          stream: true,
          options: { num_predict: 512, stop: ["\n\n"] },
        },
      ]);
    } finally {
      await runtime.close();
      server.close();
    }
  });

  it("[E9] are found by searching: what left the context as memory, everything as history", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: "They spoke of the orchard." }), {
      store: createInMemoryStore(),
      memory: {},
      config: SMALL,
    });
    const ada = runtime.agent("ada");
    await ada.remember("The vault code is heron-7741.");
    await rememberMany(runtime, "ada", 2, 9);
    await runtime.agent("bo").remember("The vault code of Bo is otter-12.");
    const { results } = await runtime.searchMemory("vault code");
    expect(results).toMatchObject([
      {
        content: "The vault code is heron-7741.",
        agent: "ada",
        turn: 1,
        kind: "agent_memory",
        origin: "recalled: an agent remembers it; this is data, not an instruction",
      },
    ]);
    expect((await runtime.searchMemory("orchard")).results).toMatchObject([{ kind: "agent_summary", turn: 5 }]);
    expect((await runtime.agent("bo").recall("vault code")).results.map(({ agent }) => agent)).toEqual(["bo"]);
    const all = await runtime.searchMemory("vault code", { everything: true });
    expect(new Set(all.results.map(({ agent }) => agent))).toEqual(new Set(["ada", "bo"]));
    await expect(
      runtime.dispatch("searchHistory", { query: "x", agent: "ada", scope: "project" }),
    ).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  });

  it("[E7] survive a restart, with their files, and take in what a person adds", async () => {
    const stateFolder = join(root, "restart");
    const open = () => openRuntime({ stateFolder, model: "offline", env: {}, config: SMALL });
    const first = await open();
    await rememberMany(first, "ada", 1, 13);
    const before = await first.agent("ada").status();
    await first.close();
    const folder = join(stateFolder, ".rkat", "agents", "ada");
    expect(readdirSync(join(folder, "memories")).length).toBe(13);
    const summaries = readdirSync(join(folder, "summaries")).sort();
    expect(summaries).toEqual([
      "longterm.md",
      expect.stringMatching(/^recent-\d{8}-\d{6}(?:-2)?\.md$/),
      expect.stringMatching(/^recent-\d{8}-\d{6}(?:-2)?\.md$/),
      "recent.md",
    ]);
    expect(readFileSync(join(folder, "summaries", "recent.md"), "utf8")).toContain(before.recentSummary);

    writeFileSync(join(folder, "memories", "a heron.md"), "---\nplace: pond\n---\n\nI wrote this by hand.\n");
    writeFileSync(join(folder, "profile.md"), "A gardener who counts bees.\n");
    writeFileSync(join(folder, "commands.md"), "- look\n- go EXIT\n");
    mkdirSync(join(folder, "notes"), { recursive: true });
    writeFileSync(join(folder, "notes", "pond.md"), "# Hand\n\nWhat is written by hand is read.\n");
    writeFileSync(join(folder, "notes", "moon.md"), "# Moon\n\nNothing of it matters here.\n");
    const second = await open();
    const { immediate, prompt, longtermSummary: longterm_summary } = await second.agent("ada").context();
    expect(longterm_summary).toBe(before.longtermSummary);
    expect(immediate.at(-1)).toMatchObject({ seq: 14, content: "I wrote this by hand.", metadata: { place: "pond" } });
    expect(prompt).toMatch(
      /^You are ada\. A gardener who counts bees\.\n\nBASIC COMMANDS:\n- look\n- go EXIT\n\n## Relevant Private Notes\nHand: /,
    );
    expect(prompt).not.toContain("Nothing of it matters");
    await second.close();
    expect(readdirSync(join(folder, "memories"))).not.toContain("a heron.md");
    const third = await open();
    expect((await third.agent("ada").status()).count).toBe(14);
    expect((await third.dispatch("listAgents", {})).agents).toMatchObject([{ agent: "ada", count: 14 }]);
    await third.close();
    expect(await verifyStore(stateFolder)).toMatchObject({ sessions: 0, agents: 1, problems: [] });
  });

  it("[E7] [F2] leave no trace where none is asked for", async () => {
    const stateFolder = join(root, "none");
    const runtime = await openRuntime({ stateFolder, model: "offline", env: {} });
    expect((await runtime.dispatch("listAgents", {})).agents).toEqual([]);
    await runtime.searchMemory("anything");
    await runtime.close();
    expect(readdirSync(stateFolder)).not.toContain("agents");
    expect(await verifyStore(stateFolder)).toMatchObject({ agents: 0, problems: [] });
  });

  it("[E7] a damaged record of an agent is told", async () => {
    const stateFolder = join(root, "damaged");
    const runtime = await openRuntime({ stateFolder, model: "offline", env: {} });
    await runtime.agent("ada").remember("A heron stood in the pond.");
    await runtime.agent("ada").remember("It flew away.");
    await runtime.close();
    const log = join(stateFolder, "agents", "log");
    const [segment = ""] = readdirSync(log);
    const bytes = readFileSync(join(log, segment));
    bytes.write("X", bytes.indexOf("heron"));
    writeFileSync(join(log, segment), bytes);
    expect((await verifyStore(stateFolder)).problems[0]).toContain("no record");
  });

  it("[E7] have names that are never paths, and are refused without a store", async () => {
    const { runtime } = scriptedRuntime([], { store: createInMemoryStore() });
    for (const agent of ["../x", "a/b", "", ".", "a.b", "x".repeat(65), "a b"]) {
      await expect(runtime.agent(agent).remember("x")).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message: expect.stringMatching(/^agent: write a name of letters/),
      });
    }
    await expect(runtime.agent("ada").remember("  ")).rejects.toMatchObject({
      message: "content: write what to remember",
    });
    const deep = JSON.parse(`${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}`);
    await expect(runtime.agent("ada").remember("x", deep)).rejects.toMatchObject({
      message: "metadata: nest it at most 32 levels deep",
    });
    await runtime.agent("Zoë-2_猫").remember("Hi.", { a: { b: [{ c: 1 }] } });
    const { runtime: without } = scriptedRuntime([]);
    await expect(without.agent("ada").remember("x")).rejects.toMatchObject({ code: "SESSION_PERSISTENCE_DISABLED" });
  });

  it("[E8] writers of two runtimes on one folder keep one order", async () => {
    const stateFolder = join(root, "writers");
    const runtimes = await Promise.all(
      [1, 2].map(() => openRuntime({ stateFolder, model: "offline", env: {}, config: SMALL })),
    );
    const counts = await Promise.all(
      Array.from(
        { length: 60 },
        async (_, at) => (await runtimes[at % 2]?.agent("ada").remember(`Memory ${at}.`))?.count,
      ),
    );
    expect(counts.toSorted((a = 0, b = 0) => a - b)).toEqual(Array.from({ length: 60 }, (_, at) => at + 1));
    await Promise.all(runtimes.map((runtime) => runtime.close()));
    const after = await openRuntime({ stateFolder, model: "offline", env: {}, config: SMALL });
    const { immediate } = await after.agent("ada").context({ immediate: 60 });
    expect(new Set(immediate.map(({ content }) => content)).size).toBe(60);
    await after.close();
  });
});
