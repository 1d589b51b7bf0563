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

/** The presets, with memory wherever it is on for all; `none` is none. */
export function presetsWith(hasMemory: boolean): typeof TOOL_PRESETS {
  if (!hasMemory) return TOOL_PRESETS;
  const { none, safe, workspace, full } = TOOL_PRESETS;
  return { none, safe: { ...safe, memory: true }, workspace: { ...workspace, memory: true }, full };
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
