import type { Clock } from "../ports/clock.ts";
import type { Tool } from "../ports/tool.ts";
import { createDatetimeTool } from "./datetime.ts";
import { createApplyPatchTool } from "./patch/apply-patch.ts";
import { builtinToolNames, type ToolSettings } from "./presets.ts";
import { createShellTools } from "./shell/shell.ts";
import { createTaskTools } from "./tasks.ts";

export interface BuiltinOptions {
  /** The project's folder; file tools stay inside it, commands start in it. */
  readonly root: string;
  readonly clock: Clock;
  /** What commands inherit, less the secrets in it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The program that runs command lines; bash where there is one, else sh. */
  readonly shellProgram?: string | undefined;
  /** How long a command may run where the model does not say; 30 unless given. */
  readonly shellTimeoutSecs?: number | undefined;
}

export interface BuiltinTools {
  /** The tools a session with these settings has; what they remember is shared by all sessions. */
  toolsFor(settings: ToolSettings): readonly Tool[];
  /** Kills every command that still runs. */
  close(): Promise<void>;
}

/** The tools that come with the runtime. Nothing is touched before one of them is called. */
export function createBuiltinTools(options: BuiltinOptions): BuiltinTools {
  const { root, clock, env, shellProgram, shellTimeoutSecs } = options;
  const shell = createShellTools({ root, clock, env, program: shellProgram, timeoutSecs: shellTimeoutSecs });
  const all = [
    createDatetimeTool({ now: () => clock.now() }),
    ...createTaskTools({ clock }),
    createApplyPatchTool({ root, clock }),
    ...shell.tools,
  ];
  return {
    toolsFor: (settings) => {
      const names: readonly string[] = builtinToolNames(settings);
      return all.filter((tool) => names.includes(tool.name));
    },
    close: () => shell.close(),
  };
}
