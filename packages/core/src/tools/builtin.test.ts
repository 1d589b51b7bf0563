import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { env } from "node:process";
import { setTimeout } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { NO_JOBS, toolContext } from "../../../../test/support/tool-context.ts";
import type { Clock } from "../ports/clock.ts";
import {
  createBuiltinTools,
  createDatetimeTool,
  hasMcpTools,
  presetsWith,
  TOOL_PRESETS,
  type ToolSettings,
} from "./builtin.ts";

const clock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => setTimeout(ms, undefined, { signal }).catch(() => undefined),
  random: () => 0,
  newId: () => randomUUID(),
  yieldToEventLoop: () => undefined,
};

describe("built-in tools", () => {
  it("[H4] are the same ones however often they are asked for", async () => {
    const builtin = createBuiltinTools({ root: tmpdir(), clock, env, jobs: NO_JOBS });
    for (const settings of Object.values(TOOL_PRESETS)) {
      const again = builtin.toolsFor(settings);
      expect(builtin.toolsFor(settings).map((tool, index) => tool === again[index])).not.toContain(false);
    }
    await builtin.close();
    await builtin.close();
  });

  it("[A5] describe every input in a plain JSON schema that refuses unknown fields", () => {
    const tools = createBuiltinTools({ root: tmpdir(), clock, env, jobs: NO_JOBS }).toolsFor(TOOL_PRESETS.full);
    for (const { name, inputSchema } of tools) {
      expect(JSON.parse(JSON.stringify(inputSchema)), name).toEqual(inputSchema);
      expect(inputSchema, name).toMatchObject({ type: "object", additionalProperties: false });
      expect(inputSchema.$schema, name).toBeUndefined();
      const properties = Object.entries(Object(inputSchema.properties));
      for (const [field, schema] of properties) expect(schema, `${name}.${field}`).toHaveProperty("description");
    }
  });

  it("remember tasks across sessions", async () => {
    const builtin = createBuiltinTools({ root: tmpdir(), clock, env, jobs: NO_JOBS });
    const contextOf = (sessionId: string) => toolContext({ sessionId });
    const toolOf = (name: string) => builtin.toolsFor(TOOL_PRESETS.safe).find((tool) => tool.name === name);
    await toolOf("task_create")?.execute({ subject: "Shared", description: "" }, contextOf("a"));
    const listed = JSON.parse(String(await toolOf("task_list")?.execute({}, contextOf("b"))));
    expect(listed).toMatchObject([{ subject: "Shared", created_by_session: "a" }]);
  });
});

const context = toolContext();

describe("datetime", () => {
  it("tells the moment in its zone, with the zone's offset", async () => {
    const now = () => Date.UTC(2026, 0, 31, 23, 5, 9, 250);

    const kolkata = await createDatetimeTool({ now, timezone: "Asia/Kolkata" }).execute({}, context);
    expect(JSON.parse(String(kolkata))).toEqual({
      iso8601: "2026-02-01T04:35:09+05:30",
      date: "2026-02-01",
      time: "04:35:09",
      timezone: "Asia/Kolkata",
      unix_timestamp: 1_769_900_709,
      year: 2026,
      month: 2,
      day: 1,
      weekday: "Sunday",
    });
  });

  it("writes midnight as 00 and the zero offset in full", async () => {
    const output = await createDatetimeTool({ now: () => 0, timezone: "UTC" }).execute({}, context);
    expect(JSON.parse(String(output))).toMatchObject({ iso8601: "1970-01-01T00:00:00+00:00", time: "00:00:00" });
  });

  it("names the machine's zone unless told another", async () => {
    const output = await createDatetimeTool({ now: () => 0 }).execute({}, context);
    expect(JSON.parse(String(output)).timezone).toBe(new Intl.DateTimeFormat().resolvedOptions().timeZone);
  });

  it("[A5] refuses fields it does not know", async () => {
    const tool = createDatetimeTool({ now: () => 0 });
    await expect(tool.execute({ zone: "UTC" }, context)).rejects.toThrow(/^zone: there is no such field/);
  });
});

const SAFE = ["datetime", "task_create", "task_get", "task_list", "task_update"];
const SHELL = ["shell", "shell_jobs", "shell_job_status", "shell_job_cancel"];

const namesFor = (settings: ToolSettings) =>
  createBuiltinTools({ root: tmpdir(), clock, env, jobs: NO_JOBS })
    .toolsFor(settings)
    .map(({ name }) => name);

describe("tool presets", () => {
  it("[H4] give file and shell tools only to those who ask", () => {
    expect(namesFor(TOOL_PRESETS.none)).toEqual([]);
    expect(namesFor(TOOL_PRESETS.safe)).toEqual(SAFE);
    expect(namesFor(TOOL_PRESETS.workspace)).toEqual([...SAFE, "apply_patch", ...SHELL]);
    expect(namesFor(TOOL_PRESETS.full)).toEqual([...SAFE, "apply_patch", ...SHELL]);
  });

  it("[H4] switch memory on with full alone", () => {
    const withMemory = Object.entries(TOOL_PRESETS).filter(([, settings]) => settings.memory);
    expect(withMemory.map(([name]) => name)).toEqual(["full"]);
  });

  it("[H4] keep shell and built-ins apart", () => {
    expect(namesFor({ builtins: "none", shell: true, memory: false })).toEqual(SHELL);
    expect(namesFor({ builtins: "all", shell: false, memory: false })).toEqual([...SAFE, "apply_patch"]);
  });

  it("[G9] give the tools of MCP servers to all but none, whatever else is switched on or off", () => {
    const presets = presetsWith({ memory: true, mcp: true, skills: false });
    const others = { builtins: "none", shell: false, memory: false } as const;
    const chosen = Object.entries(presets).filter(([, settings]) => hasMcpTools({ ...settings, ...others }));
    expect(chosen.map(([name]) => name)).toEqual(["safe", "workspace", "full"]);
    expect(hasMcpTools({ ...presets.none, memory: true })).toBe(false);
    // Of sessions from before there were servers, those that have any tool.
    expect(Object.entries(TOOL_PRESETS).filter(([, settings]) => !hasMcpTools(settings))).toMatchObject([["none", {}]]);
  });
});
