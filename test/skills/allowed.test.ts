import type { PermissionRules } from "@rkat/core/contract/permission";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";

const SKILL = {
  name: "echoing",
  description: "How to echo.",
  body: "Echo.",
  allowedTools: ["shell(echo *)", "careful"],
};
const shell = (command: string): ScriptedStep => ({ calls: [{ name: "shell", args: { command } }] });

/** What a call gives where nobody can be asked, before and after the skill is loaded, and after it is unloaded. */
async function reported(call: ScriptedStep, permissions: PermissionRules) {
  const model = createScriptedModel(({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== "user") return { text: "Done." };
    return last.content === "load" ? { calls: [{ name: "load_skill", args: { name: "echoing" } }] } : call;
  });
  const careful = {
    name: "careful",
    description: "A tool whose maker wants a person asked.",
    inputSchema: { type: "object" },
    needsApproval: true,
    execute: () => "it ran",
  };
  const runtime = createRuntime({
    model,
    env: {},
    store: createInMemoryStore(),
    compaction: true,
    toolPreset: "workspace",
    tools: [careful],
    skills: [SKILL],
  });
  const unattended = { unattended: "nobody can be asked" };
  const made = await runtime.dispatch("createSession", { initial_turn: "deferred", permissions });
  const { session_id } = made;
  const ask = async (prompt: string): Promise<string> => {
    await runtime.dispatch("startTurn", { session_id, prompt }, unattended);
    const results = model.requests.at(-1)?.messages.findLast(({ role }) => role === "tool_results");
    return JSON.stringify(results);
  };
  const before = await ask("do it");
  await ask("load");
  const after = await ask("do it");
  const { pins } = await runtime.session(session_id).pins();
  for (const seq of pins) await runtime.session(session_id).unpin(seq);
  const unloaded = await ask("do it");
  await runtime.close();
  return { before, after, unloaded };
}

describe("what a loaded skill allows", () => {
  it("[M3] runs unasked where no rule matches it, and only while it is loaded", async () => {
    const { before, after, unloaded } = await reported(shell("echo KESTREL"), { otherwise: "ask" });
    expect(before).toContain("nobody can be asked");
    expect(after).toContain("KESTREL");
    expect(after).not.toContain("nobody can be asked");
    expect(unloaded).toContain("nobody can be asked");
  });

  it("[M3] is of what it names alone", async () => {
    const { after } = await reported(shell("uname"), { otherwise: "ask" });
    expect(after).toContain("nobody can be asked");
  });

  it.each<[string, PermissionRules]>([
    ["asks", { ask: ["shell(echo *)"], otherwise: "ask" }],
    ["denies", { deny: ["shell(echo *)"], otherwise: "ask" }],
  ])("[M3] gives way to a rule that %s", async (_, rules) => {
    const { after } = await reported(shell("echo KESTREL"), rules);
    expect(after).toContain('"is_error":true');
    expect(after).not.toContain('"content":"KESTREL');
  });

  it("[M3] does not answer for the person whom the maker of a tool wants asked", async () => {
    const { after } = await reported({ calls: [{ name: "careful", args: {} }] }, {});
    expect(after).toContain("not run: careful is made to ask before it runs; nobody can be asked");
  });

  it("[M3] holds in another process only for exactly the text that is loaded", async () => {
    const store = createInMemoryStore();
    const open = (skill: typeof SKILL) => {
      const model = createScriptedModel(({ messages }) =>
        messages.at(-1)?.role === "user" ? shell("echo KESTREL") : { text: "Done." },
      );
      return { model, runtime: createRuntime({ model, env: {}, store, toolPreset: "workspace", skills: [skill] }) };
    };
    const first = open(SKILL);
    const { session_id } = await first.runtime.dispatch("createSession", {
      initial_turn: "deferred",
      permissions: { otherwise: "ask" },
      preload_skills: [{ skill_name: "echoing" }],
    });
    const ranWith = async (skill: typeof SKILL): Promise<boolean> => {
      const { runtime, model } = open(skill);
      await runtime.dispatch("startTurn", { session_id, prompt: "do it" }, { unattended: "nobody can be asked" });
      const results = JSON.stringify(model.requests.at(-1)?.messages.findLast(({ role }) => role === "tool_results"));
      return !results.includes("nobody can be asked");
    };
    expect(await ranWith(SKILL)).toBe(true);
    expect(await ranWith({ ...SKILL, allowedTools: ["shell"] })).toBe(false);
    expect(await ranWith(SKILL)).toBe(true);
  });
});
