import { RuntimeError } from "@rkat/core/contract/error";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { configWith, listen, typesOf } from "../support/runtime.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

const TEXT = "Write the heading first.\nThen one line a change, newest last: KESTREL.";
const NOTES = { name: "release-notes", description: "How release notes are written here.", body: TEXT };

/** The messages of a request that hold a text. */
function holding(messages: readonly Message[] | undefined, text: string): readonly Message[] {
  return (messages ?? []).filter((message) => JSON.stringify(message).includes(JSON.stringify(text).slice(1, -1)));
}

function open(script: (index: number, request: ModelRequest) => ScriptedStep, options: RuntimeOptions = {}) {
  const model = createScriptedModel((request, index) => script(index, request));
  const runtime = createRuntime({
    model,
    clock: createVirtualClock(),
    env: {},
    store: createInMemoryStore(),
    toolPreset: "safe",
    skills: [NOTES],
    ...options,
  });
  const last = () => model.requests.at(-1);
  return { runtime, model, last };
}

/** Whether a request is the first of a turn, and none for a summary. */
function asksFor(messages: readonly Message[]): boolean {
  const last = messages.at(-1);
  return last?.role === "user" && !JSON.stringify(last).includes("CONTEXT COMPACTION");
}

const loads = (name: string, more: object = {}): ScriptedStep => ({
  calls: [{ name: "load_skill", args: { name, ...more } }],
});
const says = (text: string): ScriptedStep => ({ text });

describe("a skill", () => {
  it("[M1] is told of by its name and description, and its text reaches the model when it is asked for", async () => {
    const { runtime, model } = open((index) => (index === 1 ? loads("release-notes") : says("Done.")));
    const session = await runtime.createSession("Hello.");
    const [first] = model.requests;
    expect(first?.messages[0]).toMatchObject({ role: "system" });
    expect(holding(first?.messages.slice(0, 1), "- release-notes: How release notes are written here.")).toHaveLength(
      1,
    );
    expect(first?.tools.map(({ name }) => name)).toContain("load_skill");
    expect(holding(first?.messages, TEXT)).toEqual([]);
    const { events } = await listen(session.stream("Write them."));
    expect(holding(model.requests[1]?.messages, TEXT)).toEqual([]);
    const [call, result, notice] = model.requests[2]?.messages.slice(-3) ?? [];
    expect([call?.role, result?.role]).toEqual(["block_assistant", "tool_results"]);
    expect(result).toMatchObject({
      results: [{ content: "skill release-notes is loaded: its text follows", is_error: false }],
    });
    expect(notice).toMatchObject({
      role: "system_notice",
      kind: "skill",
      body: `Skill release-notes is loaded.\n\n${TEXT}`,
      skill: {
        source_uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
        skill_name: "release-notes",
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
    const reported = events.filter(({ type }) => type === "skills_resolved");
    expect(reported).toEqual([
      {
        type: "skills_resolved",
        skills: [
          {
            source_uuid: (notice as { skill: { source_uuid: string } }).skill.source_uuid,
            skill_name: "release-notes",
          },
        ],
        injection_bytes: Buffer.byteLength(`Skill release-notes is loaded.\n\n${TEXT}`),
      },
    ]);
  });

  it("[M1] is loaded once, also by two calls at once, and again only when it says something else", async () => {
    let body = TEXT;
    const source = { source_uuid: "u", displayName: "here", scope: "user" as const, transport: "embedded" as const };
    const changing = {
      name: "changing",
      description: "It changes.",
      source,
      files: [],
      read: async () => ({ body, sha256: body, allowedTools: [] }),
      readFile: async () => "",
      fingerprint: async () => body,
    };
    const twice: ScriptedStep = {
      calls: [
        { id: "a", name: "load_skill", args: { name: "changing" } },
        { id: "b", name: "load_skill", args: { name: "changing" } },
      ],
    };
    const { runtime, last } = open((_, { messages }) => (asksFor(messages) ? twice : says("Done.")), {
      skills: [changing],
      compaction: { recentTurnBudget: 1 },
    });
    const session = await runtime.createSession("Go.");
    expect(holding(last()?.messages, TEXT)).toHaveLength(1);
    expect(JSON.stringify(last()?.messages)).toContain("is loaded already");
    await session.turn("Again.");
    expect(holding(last()?.messages, TEXT)).toHaveLength(1);
    const { pins: before } = await session.pins();
    expect(before).toHaveLength(1);
    body = "Something else.";
    await session.turn("Once more.");
    expect(holding(last()?.messages, "Something else.")).toHaveLength(1);
    const { pins: after } = await session.pins();
    expect(after).toHaveLength(1);
    expect(after).not.toEqual(before);
    // What the old text was pinned by is gone, so a compaction takes it out.
    await session.turn("And?");
    await session.compact();
    await session.turn("Now?");
    expect(holding(last()?.messages, TEXT)).toEqual([]);
    expect(holding(last()?.messages, "Something else.")).toHaveLength(1);
  });

  it("[M1] without any that can be loaded, and for a session without tools, there is neither a tool nor a word", async () => {
    const without = open(() => says("Hi."), { skills: [], memory: {} });
    await without.runtime.createSession("Hello.");
    expect(without.last()?.tools.map(({ name }) => name)).not.toContain("load_skill");
    expect(JSON.stringify(without.last()?.messages)).not.toContain("## Skills");
    const none = open(() => says("Hi."));
    await none.runtime.createSession("Hello.", { toolPreset: "none" });
    expect(none.last()?.tools).toEqual([]);
    expect(JSON.stringify(none.last()?.messages)).not.toContain("## Skills");
    const filtered = open(() => says("Hi."));
    await filtered.runtime.createSession("Hello.", { toolFilter: { Deny: ["load_skill"] } });
    expect(JSON.stringify(filtered.last()?.messages)).not.toContain("## Skills");
    const off = open(() => says("Hi."), { config: configWith({ skills: { enabled: false } }) });
    await off.runtime.createSession("Hello.");
    expect(off.last()?.tools.map(({ name }) => name)).not.toContain("load_skill");
    await expect(off.runtime.listSkills()).rejects.toMatchObject({
      code: "INTERNAL_ERROR",
      message: "skills not enabled",
    });
  });

  it("[M1] a model that names none is told which there are, and one that is not there is an event that is kept", async () => {
    const steps = [loads("nope"), { calls: [{ name: "load_skill", args: {} }] }, says("Done.")];
    const { runtime, last } = open((index) => steps[index] ?? says("Done."));
    const session = runtime.session((await runtime.createSession("Go.")).id);
    const said = JSON.stringify(last()?.messages);
    expect(said).toContain("name: there is no skill nope here");
    expect(said).toContain("- release-notes: How release notes are written here.");
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    const failed = events.map(({ payload }) => payload).filter(({ type }) => type === "skill_resolution_failed");
    expect(failed).toEqual([
      {
        type: "skill_resolution_failed",
        reason: { reason_type: "not_found" },
        reference: "nope",
        error: expect.stringContaining("there is no skill"),
      },
    ]);
  });

  it("[M1] files beside it are read by their names alone", async () => {
    const skills = [{ ...NOTES, files: { "template.md": "# Version" } }];
    const steps = [
      loads("release-notes", { file: "template.md" }),
      loads("release-notes", { file: "../secret" }),
      says("."),
    ];
    const { runtime, last } = open((index) => steps[index] ?? says("."), { skills });
    await runtime.createSession("Go.");
    const results = (last()?.messages ?? []).filter(({ role }) => role === "tool_results");
    expect(results[0]).toMatchObject({ results: [{ content: "# Version", is_error: false }] });
    expect(results[1]).toMatchObject({ results: [{ is_error: true }] });
    expect(JSON.stringify(results[1])).toContain("there are template.md");
  });
});

describe("a skill that is loaded", () => {
  const compacted = async (options: RuntimeOptions = {}) => {
    const opened = open((index) => (index === 0 ? loads("release-notes") : says(`Answer ${index}.`)), {
      compaction: { recentTurnBudget: 1 },
      ...options,
    });
    const session = await opened.runtime.createSession("Load it. MARMOT.");
    for (const word of ["One.", "Two.", "Three."]) await session.turn(word);
    return { ...opened, session };
  };

  it("[M2] stands in the context word for word once after each compaction, and unpinning it unloads it", async () => {
    const { session, model, last } = await compacted();
    for (const round of [1, 2, 3]) {
      const { compacted: isMade } = await session.compact();
      expect(isMade, `round ${round}`).toBe(true);
      // What a summary is made of is not the skill: it is kept, not retold.
      expect(holding(model.requests.at(-1)?.messages, TEXT).length).toBeLessThanOrEqual(1);
      await session.turn(`After ${round}.`);
      await session.turn(`More after ${round}.`);
      expect(holding(last()?.messages, TEXT)).toHaveLength(1);
      expect(holding(last()?.messages, "Load it. MARMOT.")).toEqual([]);
      const compactions = await session.compactions();
      expect(JSON.stringify(compactions.at(-1)?.summary)).not.toContain("KESTREL");
    }
    const { pins } = await session.pins();
    expect(pins).toHaveLength(1);
    await session.unpin(pins[0] ?? 0);
    expect((await session.compact()).compacted).toBe(true);
    await session.turn("Last.");
    expect(holding(last()?.messages, TEXT)).toEqual([]);
  });

  it("[M2] is loaded in a fork, too, and stays through its compactions", async () => {
    const { runtime, session, last } = await compacted();
    const { messages } = await session.history();
    const { session_id } = await runtime.dispatch("forkSession", {
      session_id: session.id,
      message_index: messages.length,
    });
    const fork = runtime.session(session_id);
    expect((await fork.pins()).pins).toHaveLength(1);
    await fork.turn("In the fork.");
    expect(holding(last()?.messages, TEXT)).toHaveLength(1);
    expect((await fork.compact()).compacted).toBe(true);
    await fork.turn("After it.");
    expect(holding(last()?.messages, TEXT)).toHaveLength(1);
  });

  it("[M2] the context of every call can be read again byte for byte", async () => {
    const store = createInMemoryStore();
    const { runtime, session } = await compacted({ store });
    await session.compact();
    await session.turn("After.");
    const entries = await store.log.read(session.id, 1, 1_000);
    const calls = entries.flatMap(({ seq, body }) => (body.kind === "model_called" ? [{ seq, ...body }] : []));
    expect(calls.length).toBeGreaterThan(4);
    for (const { seq, context_sha256 } of calls) {
      const context = await runtime.dispatch("readContext", { session_id: session.id, at_seq: seq });
      expect(context.sha256).toBe(context_sha256);
    }
  });

  it("[M2] is no part of what memory finds: nobody said it", async () => {
    const { runtime, session } = await compacted({ memory: {} });
    await session.compact();
    const found = JSON.stringify(await runtime.searchHistory("heading change newest KESTREL"));
    expect(found).not.toContain("KESTREL.");
    expect(JSON.stringify(await runtime.searchHistory("MARMOT"))).toContain("MARMOT");
  });

  it("[M2] one too many is refused in a sentence, and nothing is written", async () => {
    const huge = { name: "huge", description: "A long one.", body: "word ".repeat(12_000) };
    const { runtime, model } = open((index) => (index === 0 ? loads("huge") : says("Done.")), {
      skills: [huge],
      compaction: { autoCompactThreshold: 8_000 },
    });
    const session = await runtime.createSession("Go.");
    const results = model.requests.at(-1)?.messages.filter(({ role }) => role === "tool_results");
    expect(results).toMatchObject([{ results: [{ is_error: true }] }]);
    expect(JSON.stringify(results)).toContain("pins");
    expect((await session.pins()).pins).toEqual([]);
    const before = (await session.history()).messages.length;
    await expect(session.turn("Now.", { skillRefs: [{ skillName: "huge" }] })).rejects.toThrow(/pins/);
    expect((await session.history()).messages).toHaveLength(before);
  });
});

describe("a skill that a request names", () => {
  it("[M3] stands before the prompt: with skill_refs before this one, with preload_skills before the first", async () => {
    const other = { name: "other", description: "Another.", body: "OTHER TEXT" };
    const { runtime, last } = open(() => says("Done."), { skills: [NOTES, other] });
    const { skills } = await runtime.listSkills();
    const key = skills.find(({ name }) => name === "release-notes")?.key;
    if (key === undefined) throw new Error("it is listed");
    const session = await runtime.createSession("Hello.", { preloadSkills: [key] });
    expect(last()?.messages.map(({ role }) => role)).toEqual(["system", "system_notice", "user"]);
    await session.turn("Next.", { skillRefs: [{ skillName: "other" }, { skillName: "other" }] });
    expect(last()?.messages.slice(-2)).toMatchObject([
      { kind: "skill", body: expect.stringContaining("OTHER TEXT") },
      { role: "user" },
    ]);
    await session.turn("Again.", { skillRefs: [{ skillName: "other" }] });
    expect(holding(last()?.messages, "OTHER TEXT")).toHaveLength(1);
    const deferred = await runtime.dispatch("createSession", {
      initial_turn: "deferred",
      preload_skills: [{ skill_name: key.skillName }],
    });
    await runtime.session(deferred.session_id).turn("First.");
    expect(last()?.messages.map(({ role }) => role)).toEqual(["system", "system_notice", "user"]);
  });

  it("[M3] that is not there is refused, and nothing is written", async () => {
    const { runtime, model } = open(() => says("Done."));
    const unknown = [{ skillName: "release-notes" }, { skillName: "no-such-skill" }];
    await expect(runtime.createSession("Hello.", { skillRefs: unknown })).rejects.toMatchObject({
      code: "SKILL_NOT_FOUND",
    });
    expect(await runtime.listSessions()).toHaveLength(0);
    const session = await runtime.createSession("Hello.");
    const before = (await session.history()).messages;
    await expect(session.turn("Go.", { skillRefs: unknown })).rejects.toMatchObject({ code: "SKILL_NOT_FOUND" });
    expect((await session.history()).messages).toEqual(before);
    expect(model.requests).toHaveLength(1);
  });

  it("[M3] that cannot be read now is refused with why", async () => {
    const source = { source_uuid: "u", displayName: "here", scope: "user" as const, transport: "embedded" as const };
    const failing = async () => {
      throw new RuntimeError("SKILL_RESOLUTION_FAILED", "skill gone cannot be read: it is gone", {
        details: { reason_type: "unreadable" },
      });
    };
    const gone = {
      name: "gone",
      description: "Gone.",
      source,
      files: [],
      read: failing,
      readFile: failing,
      fingerprint: failing,
    };
    const { runtime } = open((index) => (index === 0 ? loads("gone") : says("Done.")), { skills: [gone] });
    const refused = runtime.createSession("Hello.", { skillRefs: [{ skillName: "gone" }] });
    await expect(refused).rejects.toMatchObject({
      code: "SKILL_RESOLUTION_FAILED",
      details: { reason_type: "unreadable" },
    });
    const { events } = await listen((await runtime.createSession()).stream("Load it."));
    expect(typesOf(events)).toContain("skill_resolution_failed");
    const event = events.find(({ type }) => type === "skill_resolution_failed");
    expect(event).toMatchObject({
      skill_key: { source_uuid: "u", skill_name: "gone" },
      reason: { reason_type: "unreadable" },
      reference: "gone",
    });
    expect((await runtime.listSkills()).skills).toMatchObject([{ name: "gone", source: { status: "disabled" } }]);
  });
});
