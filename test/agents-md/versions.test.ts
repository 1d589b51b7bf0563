import { createHash } from "node:crypto";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { AgentsMdFile } from "@rkat/core/ports/agents-md";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { createPlanModel, handing, planned } from "../support/plan-model.ts";
import { configWith } from "../support/runtime.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

const TEXT = "# House rules\n\n- Run `make check` first.\n\t* Never push to KESTREL.\n  “Ümläut” 漢字 🙂\n";

function open(options: RuntimeOptions = {}) {
  let files: readonly AgentsMdFile[] = [{ key: "AGENTS.md", text: TEXT }];
  const warnings: string[] = [];
  const model = createScriptedModel((_, index) => ({ text: `Answer ${index}.` }));
  const clock = createVirtualClock();
  const runtime = createRuntime({
    model,
    clock,
    env: {},
    store: createInMemoryStore({ now: clock.now }),
    compaction: { recentTurnBudget: 1 },
    agentsMd: async () => ({ files, warnings: [] }),
    warn: (sentence) => warnings.push(sentence),
    ...options,
  });
  const sent = () => model.requests.at(-1)?.messages ?? [];
  const change = (...now: readonly AgentsMdFile[]) => {
    files = now;
  };
  return { runtime, model, sent, change, warnings };
}

/** The notices of AGENTS.md in a request. */
function noticesIn(messages: readonly Message[]) {
  return messages.flatMap((message) => (message.role === "system_notice" && message.agents_md ? [message] : []));
}
const textsIn = (messages: readonly Message[]) =>
  noticesIn(messages).map(({ body = "" }) => body.slice(body.indexOf("\n\n") + 2));
const isIn = (messages: readonly Message[], text: string) =>
  JSON.stringify(messages).includes(JSON.stringify(text).slice(1, -1));

describe("AGENTS.md in a session", () => {
  it("[T2] stands before the first prompt as a notice with a key and a version, and once", async () => {
    const { runtime, sent } = open();
    const session = await runtime.createSession("Hello.");
    const sha256 = createHash("sha256").update(TEXT).digest("hex");
    expect(sent()).toMatchObject([
      {
        role: "system_notice",
        kind: "agents_md",
        body: `Instructions of the user for this project, from AGENTS.md:\n\n${TEXT}`,
        agents_md: { key: "AGENTS.md", version: 1, sha256 },
      },
      { role: "user", content: "Hello." },
    ]);
    await session.turn("Again.");
    expect(textsIn(sent())).toEqual([TEXT]);
    const { parts, kinds } = await runtime.dispatch("readContext", { session_id: session.id });
    expect(parts[0]).toMatchObject({ kind: "agents_md", seqs: [2, 2] });
    expect(kinds.map(({ kind }) => kind)).toContain("agents_md");
  });

  it("[T2] that changes is a new version; a compaction keeps the newest word for word and drops the older ones", async () => {
    const { runtime, model, sent, change } = open();
    const session = await runtime.createSession("Hello.");
    for (const word of ["One.", "Two."]) await session.turn(word);
    change({ key: "AGENTS.md", text: "Second HERON rules.\n" });
    await session.turn("Three.");
    expect(noticesIn(sent()).map(({ agents_md }) => agents_md?.version)).toEqual([1, 2]);
    change({ key: "AGENTS.md", text: "Third OSPREY rules.\n" });
    await session.turn("Four.");
    expect((await session.pins()).pins).toHaveLength(1);
    const before = model.requests.length;
    expect((await session.compact()).compacted).toBe(true);
    // The summary is made without the versions that no longer hold.
    expect(isIn(model.requests[before]?.messages ?? [], "KESTREL")).toBe(false);
    expect(isIn(model.requests[before]?.messages ?? [], "HERON")).toBe(false);
    await session.turn("Five.");
    expect(textsIn(sent())).toEqual(["Third OSPREY rules.\n"]);
    expect(isIn(sent(), "KESTREL")).toBe(false);
    const [receipt] = await session.compactions();
    expect(JSON.stringify(receipt)).not.toContain("KESTREL");
  });

  it("[T2] an older version leaves with a compaction also from a turn that stays", async () => {
    const { runtime, sent, change } = open({ compaction: { recentTurnBudget: 3 } });
    const session = await runtime.createSession("Hello.");
    for (const word of ["One.", "Two.", "Three."]) await session.turn(`${word} ${"word ".repeat(200)}`);
    change({ key: "AGENTS.md", text: "Second HERON rules.\n" });
    await session.turn("Four.");
    change({ key: "AGENTS.md", text: "Third OSPREY rules.\n" });
    await session.turn("Five.");
    expect((await session.compact()).compacted).toBe(true);
    await session.turn("Six.");
    expect(isIn(sent(), "Four.")).toBe(true);
    expect(textsIn(sent())).toEqual(["Third OSPREY rules.\n"]);
  });

  it("[T2] that is gone is dropped by the next compaction; one that cannot be read now stays as it was", async () => {
    const { runtime, sent, change } = open();
    const session = await runtime.createSession("Hello.");
    change({ key: "AGENTS.md", text: undefined });
    for (const word of ["One.", "Two."]) await session.turn(word);
    await session.compact();
    await session.turn("Three.");
    expect(textsIn(sent())).toEqual([TEXT]);
    change();
    for (const word of ["Four.", "Five."]) await session.turn(word);
    expect((await session.pins()).pins).toEqual([]);
    await session.compact();
    await session.turn("Six.");
    expect(textsIn(sent())).toEqual([]);
  });

  it("[T2] of several files each has its own version", async () => {
    const { runtime, sent, change } = open();
    change({ key: "~/.rkat/AGENTS.md", text: "Home." }, { key: "AGENTS.md", text: "Here." });
    const session = await runtime.createSession("Hello.");
    change({ key: "~/.rkat/AGENTS.md", text: "Home." }, { key: "AGENTS.md", text: "Here, too." });
    await session.turn("One.");
    expect(noticesIn(sent()).map(({ agents_md }) => [agents_md?.key, agents_md?.version])).toEqual([
      ["~/.rkat/AGENTS.md", 1],
      ["AGENTS.md", 1],
      ["AGENTS.md", 2],
    ]);
    expect((await session.pins()).pins).toHaveLength(2);
  });

  it("[T2] a session with a system prompt of its own is sent exactly what it is sent without AGENTS.md", async () => {
    const run = async (options: RuntimeOptions) => {
      const { runtime, model } = open(options);
      const session = await runtime.createSession("Hello.", { systemPrompt: "Be brief." });
      for (const word of ["One.", "Two.", "Three."]) await session.turn(word);
      await session.compact();
      await session.turn("Four.");
      const deferred = await runtime.dispatch("createSession", { initial_turn: "deferred" });
      await runtime.session(deferred.session_id).turn("First.", { systemPrompt: "Be kind." });
      return JSON.stringify(model.requests.map(({ messages, tools }) => ({ messages, tools })));
    };
    // Left out as callers without types may.
    const none = { agentsMd: undefined } as unknown as RuntimeOptions;
    expect(await run({})).toBe(await run(none));
  });

  it("[T2] the configured system prompt is not the session's own", async () => {
    const { runtime, sent } = open({ systemPrompt: "Be brief." });
    await runtime.createSession("Hello.", { additionalInstructions: ["More."] });
    expect(sent().map(({ role }) => role)).toEqual(["system", "system_notice", "user"]);
  });

  it("[T2] [agents_md] enabled = false switches it off", async () => {
    const { runtime, sent } = open({ config: configWith({ agents_md: { enabled: false } }) });
    await runtime.createSession("Hello.");
    expect(sent().map(({ role }) => role)).toEqual(["user"]);
  });

  it("[T2] is in a fork, once, with its newest version", async () => {
    const { runtime, sent, change } = open();
    const session = await runtime.createSession("Hello.");
    change({ key: "AGENTS.md", text: "Second HERON rules.\n" });
    for (const word of ["One.", "Two."]) await session.turn(word);
    const { messages } = await session.history();
    const asked = { session_id: session.id, message_index: messages.length };
    const fork = runtime.session((await runtime.dispatch("forkSession", asked)).session_id);
    for (const word of ["Three.", "Four."]) await fork.turn(word);
    expect((await fork.pins()).pins).toHaveLength(1);
    await fork.compact();
    await fork.turn("Five.");
    expect(textsIn(sent())).toEqual(["Second HERON rules.\n"]);
  });

  it("[T2] is no part of what memory finds", async () => {
    const { runtime } = open({ memory: {} });
    const session = await runtime.createSession("Say MARMOT.");
    await session.turn("Again.");
    expect(JSON.stringify(await runtime.searchHistory("push KESTREL make check"))).not.toContain("KESTREL.");
    expect(JSON.stringify(await runtime.searchHistory("MARMOT"))).toContain("MARMOT");
  });

  it("[T2] a sub-agent, which has a prompt of its own, does not get it", async () => {
    const plans = createPlanModel();
    const { runtime } = open({ model: plans, toolPreset: "safe" });
    const prompt = planned([{ calls: [handing([{ text: "I know." }])] }, { text: "Done." }]);
    const parent = await runtime.dispatch("createSession", { prompt, enable_agents: true });
    const had = plans.requests.map(({ messages }) => textsIn(messages).length);
    expect(had).toEqual([1, 0, 1]);
    const [child] = await runtime.listSessions({ labels: { parent: parent.session_id } });
    await runtime.session(child?.sessionId ?? "").turn(planned([{ text: "Again." }]));
    expect(textsIn(plans.requests.at(-1)?.messages ?? [])).toEqual([]);
  });

  it("[T2] too long for a small context it is left out with a sentence, and the turn runs", async () => {
    const { runtime, sent, warnings, change } = open({ compaction: { autoCompactThreshold: 8_000 } });
    change({ key: "AGENTS.md", text: "word ".repeat(12_000) });
    await runtime.createSession("Hello.");
    expect(sent().map(({ role }) => role)).toEqual(["user"]);
    expect(warnings).toEqual([expect.stringContaining("AGENTS.md is too long for the context of this session")]);
  });
});
