import { describe, expect, it } from "vitest";
import { builtinToolNames, TOOL_PRESETS } from "./presets.ts";

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
});
