import type { CreateSession, SessionSettings } from "../contract/session.ts";

export type ToolSettings = Readonly<SessionSettings["tools"]>;
export type ToolPreset = NonNullable<CreateSession["tool_preset"]>;

/** What each preset of `--tools` and `tool_preset` switches on. */
export const TOOL_PRESETS: Readonly<Record<ToolPreset, ToolSettings>> = {
  none: { builtins: "none", shell: false, memory: false },
  safe: { builtins: "safe", shell: false, memory: false },
  workspace: { builtins: "all", shell: true, memory: false },
  full: { builtins: "all", shell: true, memory: true },
};

/** The presets, with memory and the tools of MCP servers wherever they are on for all; `none` is none. */
export function presetsWith(on: { readonly memory: boolean; readonly mcp: boolean }): typeof TOOL_PRESETS {
  const { none, safe, workspace, full } = TOOL_PRESETS;
  const added = { ...(on.memory ? { memory: true } : {}), ...(on.mcp ? { mcp: true } : {}) };
  return {
    none: { ...none, ...(on.mcp ? { mcp: false } : {}) },
    safe: { ...safe, ...added },
    workspace: { ...workspace, ...added },
    full: { ...full, ...added },
  };
}

/** Whether a session has the tools of MCP servers; one that began before there were any has, unless it has no tools. */
export function hasMcpTools({ mcp, builtins, shell, memory }: ToolSettings): boolean {
  return mcp ?? (builtins !== "none" || shell || memory);
}

const SAFE_TOOLS = ["datetime", "task_create", "task_get", "task_list", "task_update"] as const;
const FILE_TOOLS = ["apply_patch"] as const;
const SHELL_TOOLS = ["shell", "shell_jobs", "shell_job_status", "shell_job_cancel"] as const;

type BuiltinToolName = (typeof SAFE_TOOLS | typeof FILE_TOOLS | typeof SHELL_TOOLS)[number];

/** The built-in tools a session has; `memory` names none here, its tool comes with the memory store. */
export function builtinToolNames(settings: ToolSettings): readonly BuiltinToolName[] {
  return [
    ...(settings.builtins === "none" ? [] : SAFE_TOOLS),
    ...(settings.builtins === "all" ? FILE_TOOLS : []),
    ...(settings.shell ? SHELL_TOOLS : []),
  ];
}
