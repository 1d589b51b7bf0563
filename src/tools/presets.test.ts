import { describe, expect, it } from "vitest";
import { builtinToolNames, hasMcpTools, presetsWith, TOOL_PRESETS } from "./builtin.ts";

const SAFE = ["datetime", "task_create", "task_get", "task_list", "task_update"];
const SHELL = ["shell", "shell_jobs", "shell_job_status", "shell_job_cancel"];

describe("tool presets", () => {
  it("[H4] give file and shell tools only to those who ask", () => {
    expect(builtinToolNames(TOOL_PRESETS.none)).toEqual([]);
    expect(builtinToolNames(TOOL_PRESETS.safe)).toEqual(SAFE);
    expect(builtinToolNames(TOOL_PRESETS.workspace)).toEqual([...SAFE, "apply_patch", ...SHELL]);
    expect(builtinToolNames(TOOL_PRESETS.full)).toEqual([...SAFE, "apply_patch", ...SHELL]);
  });

  it("[H4] switch memory on with full alone", () => {
    const withMemory = Object.entries(TOOL_PRESETS).filter(([, settings]) => settings.memory);
    expect(withMemory.map(([name]) => name)).toEqual(["full"]);
  });

  it("[H4] keep shell and built-ins apart", () => {
    expect(builtinToolNames({ builtins: "none", shell: true, memory: false })).toEqual(SHELL);
    expect(builtinToolNames({ builtins: "all", shell: false, memory: false })).toEqual([...SAFE, "apply_patch"]);
  });

  it("[G9] give the tools of MCP servers to all but none, whatever else is switched on or off", () => {
    const presets = presetsWith({ memory: true, mcp: true });
    const others = { builtins: "none", shell: false, memory: false } as const;
    const chosen = Object.entries(presets).filter(([, settings]) => hasMcpTools({ ...settings, ...others }));
    expect(chosen.map(([name]) => name)).toEqual(["safe", "workspace", "full"]);
    expect(hasMcpTools({ ...presets.none, memory: true })).toBe(false);
    // Of sessions from before there were servers, those that have any tool.
    expect(Object.entries(TOOL_PRESETS).filter(([, settings]) => !hasMcpTools(settings))).toMatchObject([["none", {}]]);
  });
});
