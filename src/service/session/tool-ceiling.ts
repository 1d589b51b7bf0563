import { RuntimeError } from "../../contract/error.ts";
import type { CreateSession, SessionSettings } from "../../contract/session.ts";

type Tools = SessionSettings["tools"];

/** The most a session may have here, whatever it asks for and whatever it has elsewhere. */
export interface ToolCeiling {
  readonly builtins: Tools["builtins"];
  readonly shell: boolean;
  readonly memory: boolean;
  readonly mcp: boolean;
  /** What of it a file of the configuration has said false to. */
  readonly forbidden: readonly ("builtins" | "shell")[];
}

const BUILTINS: readonly Tools["builtins"][] = ["none", "safe", "all"];

/** What is left of a session's tools. */
export function belowCeiling(tools: Tools, ceiling: ToolCeiling): Tools {
  const mcp = ceiling.mcp ? tools.mcp : false;
  return {
    builtins: isBeyond(tools, ceiling) ? ceiling.builtins : tools.builtins,
    shell: tools.shell && ceiling.shell,
    memory: tools.memory && ceiling.memory,
    ...(mcp === undefined ? {} : { mcp }),
  };
}

/**
 * Throws PERMISSION_DENIED for what is asked for in so many words and cannot be had. Built-in tools that are asked for
 * without a preset are those that can be.
 */
export function requireBelow(
  tools: Tools,
  ceiling: ToolCeiling,
  asked: Pick<CreateSession, "tool_preset" | "enable_builtins" | "enable_shell" | "enable_memory">,
): void {
  const preset = asked.tool_preset && `tool_preset ${asked.tool_preset}`;
  const shell = asked.enable_shell === undefined ? preset : "enable_shell";
  if (shell !== undefined && tools.shell && !ceiling.shell) throw beyond(shell, "shell", ceiling);
  const builtins = asked.enable_builtins === undefined ? preset : "enable_builtins";
  const takesLess = builtins !== preset && ceiling.builtins === "safe";
  if (builtins !== undefined && isBeyond(tools, ceiling) && !takesLess) throw beyond(builtins, "builtins", ceiling);
  const memory = asked.enable_memory === undefined ? preset : "enable_memory";
  if (memory !== undefined && tools.memory && !ceiling.memory) throw beyond(memory, "memory", ceiling);
}

function isBeyond({ builtins }: Tools, ceiling: ToolCeiling): boolean {
  return BUILTINS.indexOf(builtins) > BUILTINS.indexOf(ceiling.builtins);
}

function beyond(asked: string, kind: "builtins" | "shell" | "memory", ceiling: ToolCeiling): RuntimeError {
  if (kind !== "memory" && ceiling.forbidden.includes(kind)) {
    const why = `the configuration's file says tools.${kind}_enabled = false, which no request changes`;
    return new RuntimeError("PERMISSION_DENIED", `${asked}: ${why}`);
  }
  const isSafe = ceiling.builtins === "safe";
  const what = { shell: "no shell", memory: "no memory", builtins: isSafe ? "no file tools" : "no tools" }[kind];
  const start = kind === "shell" || isSafe ? "workspace" : "safe";
  return new RuntimeError("PERMISSION_DENIED", `${asked}: this server has ${what}; start it with --tools ${start}`);
}
