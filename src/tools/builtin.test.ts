import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { env } from "node:process";
import { setTimeout } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Clock } from "../ports/clock.ts";
import { builtinToolNames, createBuiltinTools, TOOL_PRESETS } from "./builtin.ts";

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => setTimeout(ms, undefined, { signal }).catch(() => undefined),
  random: () => 0,
  newId: () => randomUUID(),
  breathe: () => undefined,
};

describe("built-in tools", () => {
  it("[H4] are exactly those the settings name", async () => {
    const builtin = createBuiltinTools({ root: tmpdir(), clock, env });
    for (const settings of Object.values(TOOL_PRESETS)) {
      const names = builtin.toolsFor(settings).map((tool) => tool.name);
      expect(names).toEqual(builtinToolNames(settings));
    }
    await builtin.close();
    await builtin.close();
  });

  it("[A5] describe every input in a plain JSON schema that refuses unknown fields", () => {
    const tools = createBuiltinTools({ root: tmpdir(), clock, env }).toolsFor(TOOL_PRESETS.full);
    for (const { name, inputSchema } of tools) {
      expect(JSON.parse(JSON.stringify(inputSchema)), name).toEqual(inputSchema);
      expect(inputSchema, name).toMatchObject({ type: "object", additionalProperties: false });
      expect(inputSchema.$schema, name).toBeUndefined();
      const properties = Object.entries(Object(inputSchema.properties));
      for (const [field, schema] of properties) expect(schema, `${name}.${field}`).toHaveProperty("description");
    }
  });

  it("remember tasks across sessions", async () => {
    const builtin = createBuiltinTools({ root: tmpdir(), clock, env });
    const contextOf = (sessionId: string) => ({
      sessionId,
      toolUseId: "t",
      signal: new AbortController().signal,
      shellEnv: {},
    });
    const toolOf = (name: string) => builtin.toolsFor(TOOL_PRESETS.safe).find((tool) => tool.name === name);
    await toolOf("task_create")?.execute({ subject: "Shared", description: "" }, contextOf("a"));
    const listed = JSON.parse(String(await toolOf("task_list")?.execute({}, contextOf("b"))));
    expect(listed).toMatchObject([{ subject: "Shared", created_by_session: "a" }]);
  });
});
