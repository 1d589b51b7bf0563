import type { SessionConfigOption, SessionModeState } from "@agentclientprotocol/sdk";
import type { ModelsCatalog } from "@rkat/core/contract/capability";
import { invalid } from "@rkat/core/contract/error";

/** What the tools of a session's next turn may do, by the names of the presets. */
export type Mode = keyof typeof MODES;

const MODES = {
  none: { name: "Talk", description: "No tools" },
  safe: { name: "Safe", description: "Time, tasks, memory and MCP servers; no files, no shell" },
  workspace: { name: "Workspace", description: "And files and shell, as the rules of the session allow" },
} as const;

/** Tools that reach files or run commands; those of the editor stand for them. */
const WORKSPACE_TOOLS = ["apply_patch", "shell", "shell_jobs", "shell_job_status", "shell_job_cancel"];

/** The most that a session's own tools may do, within what any may do in its folder. */
export function mostFor(tools: readonly string[], folders: Mode): Mode {
  const modes = modesUpTo(folders);
  const most =
    tools.length === 0 ? "none" : tools.some((name) => WORKSPACE_TOOLS.includes(name)) ? "workspace" : "safe";
  return modes.find((mode) => mode === most) ?? folders;
}

/** A mode in words that hold for a session with these tools. */
function describeMode(mode: Mode, tools: readonly string[]): { readonly name: string; readonly description: string } {
  const { name, description } = MODES[mode];
  if (mode !== "workspace") return { name, description };
  if (!tools.includes("shell")) return { name, description: "And files, as the rules of the session allow; no shell" };
  if (tools.includes("apply_patch")) return { name, description };
  return { name, description: "And shell, as the rules of the session allow; no patches of files" };
}

/** The modes up to the most that sessions may have here. */
function modesUpTo(most: Mode): readonly Mode[] {
  const all: readonly Mode[] = ["none", "safe", "workspace"];
  return all.slice(0, all.indexOf(most) + 1);
}

/** Which of a session's tools a turn in this mode has; the session was made with the most there are. */
export function overlayOf(mode: Mode): { readonly allowed_tools?: string[]; readonly blocked_tools?: string[] } {
  if (mode === "none") return { allowed_tools: [] };
  return mode === "safe" ? { blocked_tools: WORKSPACE_TOOLS } : {};
}

export function modeOf(given: string, most: Mode, field: string): Mode {
  const modes = modesUpTo(most);
  const mode = modes.find((known) => known === given);
  if (mode !== undefined) return mode;
  throw invalid(`${field}: there is no mode ${given}; write one of ${modes.join(", ")}`);
}

export interface Chosen {
  readonly mode: Mode;
  readonly most: Mode;
  readonly tools: readonly string[];
  readonly model: string;
  readonly catalogue: ModelsCatalog;
}

export function describeModes({ mode, most, tools }: Pick<Chosen, "mode" | "most" | "tools">): SessionModeState {
  return { currentModeId: mode, availableModes: modesUpTo(most).map((id) => ({ id, ...describeMode(id, tools) })) };
}

export function describeOptions({ mode, most, tools: names, model, catalogue }: Chosen): SessionConfigOption[] {
  const tools = modesUpTo(most).map((value) => ({ value, ...describeMode(value, names) }));
  return [
    {
      type: "select",
      id: "model",
      name: "Model",
      category: "model",
      currentValue: model,
      options: modelsOf(catalogue, model),
    },
    { type: "select", id: "tools", name: "Tools", category: "mode", currentValue: mode, options: tools },
  ];
}

/** Every usable model, and the session's own. */
function modelsOf({ providers }: ModelsCatalog, model: string) {
  const known = providers.flatMap(({ provider, models }) =>
    models.map(({ id, display_name }) => ({ value: id, name: display_name, description: provider })),
  );
  const own = known.some(({ value }) => value === model) ? [] : [{ value: model, name: model }];
  return [...own, ...known];
}

/** A model of the options; throws INVALID_PARAMS for any other. */
export function requireModel(catalogue: ModelsCatalog, given: string, current: string): string {
  if (modelsOf(catalogue, current).some(({ value }) => value === given)) return given;
  throw invalid(`value: ${given} is not one of the options of model; choose one of them`);
}

/** The context window in tokens; undefined where it is unknown. */
export function windowOf({ providers }: ModelsCatalog, model: string): number | undefined {
  return providers.flatMap(({ models }) => models).find(({ id }) => id === model)?.context_window;
}
