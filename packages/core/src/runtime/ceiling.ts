import { type Caller, hasScope } from "../contract/caller.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import { spellDuration } from "../contract/input.ts";
import type { CreateSession, SessionSettings } from "../contract/session.ts";
import type { ModelResolver } from "../ports/model.ts";

type Tools = SessionSettings["tools"];

/** The most a session may have on this server, whatever it requests. */
export interface ToolCeiling {
  readonly builtins: Tools["builtins"];
  readonly shell: boolean;
  readonly memory: boolean;
  readonly mcp: boolean;
  readonly agents: boolean;
  /** Parts that a configuration file switched off. */
  readonly forbidden: readonly Kind[];
  /** Parts that exist but need a scope the caller lacks. */
  readonly withheld?: readonly Kind[];
  /** The preset of `[ceiling]`, if that applies. */
  readonly configured?: string | undefined;
}

type Kind = "builtins" | "shell";
type Preset = NonNullable<CreateSession["tool_preset"]>;

const PRESETS: readonly Preset[] = ["none", "safe", "workspace", "full"];

/** A file can only lower the ceiling the server was started with. */
export function lowerOf(one: Preset, other: Preset): Preset {
  return PRESETS.indexOf(one) <= PRESETS.indexOf(other) ? one : other;
}

const BUILTINS: readonly Tools["builtins"][] = ["none", "safe", "all"];

export function belowCeiling(tools: Tools, ceiling: ToolCeiling): Tools {
  const mcp = ceiling.mcp ? tools.mcp : false;
  // Without tools, the tool that loads skills is absent, too.
  const skills = ceiling.mcp ? tools.skills : false;
  const builtins = isBeyond(tools, ceiling) ? ceiling.builtins : tools.builtins;
  return {
    builtins,
    ...(tools.files === true && builtins === "all" ? { files: true as const } : {}),
    shell: tools.shell && ceiling.shell,
    memory: tools.memory && ceiling.memory,
    ...(mcp === undefined ? {} : { mcp }),
    ...(tools.agents === true && ceiling.agents ? { agents: true as const } : {}),
    ...(skills === undefined || tools.skills === undefined ? {} : { skills }),
  };
}

/**
 * Throws PERMISSION_DENIED for an explicit request beyond the ceiling. Built-in tools requested without a preset are
 * reduced to it.
 */
export function requireBelow(
  tools: Tools,
  ceiling: ToolCeiling,
  asked: Pick<CreateSession, "tool_preset" | "enable_builtins" | "enable_shell" | "enable_memory" | "enable_agents">,
): void {
  const preset = asked.tool_preset && `tool_preset ${asked.tool_preset}`;
  const shell = asked.enable_shell === undefined ? preset : "enable_shell";
  if (shell !== undefined && tools.shell && !ceiling.shell) throw beyond(shell, "shell", ceiling);
  const builtins = asked.enable_builtins === undefined ? preset : "enable_builtins";
  const takesLess = builtins !== preset && ceiling.builtins === "safe";
  if (builtins !== undefined && isBeyond(tools, ceiling) && !takesLess) throw beyond(builtins, "builtins", ceiling);
  if (asked.enable_agents === true && !ceiling.agents) {
    throw new RuntimeError("PERMISSION_DENIED", "enable_agents: sessions have no tools here, so no sub-agents either");
  }
  const memory = asked.enable_memory === undefined ? preset : "enable_memory";
  if (memory !== undefined && tools.memory && !ceiling.memory) throw beyond(memory, "memory", ceiling);
}

/** Throws PERMISSION_DENIED for a server that sessions cannot have here: a program does what a shell does. */
export function requireServerBelow(server: object, ceiling: ToolCeiling): void {
  if (!ceiling.mcp) throw new RuntimeError("PERMISSION_DENIED", "server_config: sessions have no tools here");
  if ("command" in server && !ceiling.shell) throw beyond("server_config.command", "shell", ceiling);
}

function isBeyond({ builtins }: Tools, ceiling: ToolCeiling): boolean {
  return BUILTINS.indexOf(builtins) > BUILTINS.indexOf(ceiling.builtins);
}

function beyond(asked: string, kind: Kind | "memory", ceiling: ToolCeiling): RuntimeError {
  if (kind !== "memory" && ceiling.forbidden.includes(kind)) {
    const why = `the configuration's file says tools.${kind}_enabled = false, which no request changes`;
    return new RuntimeError("PERMISSION_DENIED", `${asked}: ${why}`);
  }
  if (kind !== "memory" && ceiling.withheld?.includes(kind)) {
    return new RuntimeError("PERMISSION_DENIED", `${asked}: shell and file tools need the scope tools`);
  }
  if (ceiling.configured !== undefined) {
    const why = `the configuration's [ceiling] says tools = "${ceiling.configured}", which no request passes`;
    return new RuntimeError("PERMISSION_DENIED", `${asked}: ${why}`);
  }
  const isSafe = ceiling.builtins === "safe";
  const what = { shell: "no shell", memory: "no memory", builtins: isSafe ? "no file tools" : "no tools" }[kind];
  const start = kind === "shell" || isSafe ? "workspace" : "safe";
  return new RuntimeError("PERMISSION_DENIED", `${asked}: this server has ${what}; start it with --tools ${start}`);
}

/** The ceiling of a caller: without the scope it has neither shell nor file tools. */
export function ceilingFor(caller: Caller | undefined, ceiling: ToolCeiling): ToolCeiling {
  if (hasScope(caller, "tools") || !reaches(ceiling)) return ceiling;
  const withheld: readonly Kind[] = [
    ...(ceiling.builtins === "all" ? ["builtins" as const] : []),
    ...(ceiling.shell ? ["shell" as const] : []),
  ];
  return { ...ceiling, builtins: ceiling.builtins === "all" ? "safe" : ceiling.builtins, shell: false, withheld };
}

/** Throws PERMISSION_DENIED for a turn with tools the caller may not use. */
export function requireToolScope(caller: Caller | undefined, tools: Tools, ceiling: ToolCeiling): void {
  if (hasScope(caller, "tools") || !reaches(belowCeiling(tools, ceiling))) return;
  const message = `this session has shell or file tools, so a turn of it needs the scope tools, which ${caller?.name} does not have`;
  throw new RuntimeError("PERMISSION_DENIED", message);
}

function reaches({ builtins, shell }: Pick<Tools, Kind>): boolean {
  return shell || builtins === "all";
}

export type Limits = SessionSettings["budget_limits"];

/**
 * The session's limits within the ceiling, or the ceiling's own. Throws PERMISSION_DENIED for an explicit limit above
 * it.
 */
export function withinLimits(had: Limits, most: Limits, asked: Pick<CreateSession, "budget_limits"> = {}): Limits {
  const within: Limits = { ...had };
  // The keys of a ceiling are those of the limits.
  for (const key of Object.keys(most) as (keyof Limits)[]) {
    const limit = most[key] ?? Number.POSITIVE_INFINITY;
    if ((asked.budget_limits?.[key] ?? 0) > limit) {
      const [field, shown] = key === "max_duration_ms" ? ["max_duration", spellDuration(limit)] : [key, limit];
      throw new RuntimeError("PERMISSION_DENIED", `budget_limits.${field}: at most ${shown} is allowed here`);
    }
    within[key] = Math.min(had[key] ?? limit, limit);
  }
  return within;
}

/** The models that a glob allows; the resolved model is checked, not its name in the request. */
export function belowModelCeiling(
  models: ModelResolver,
  globs: readonly string[] | undefined,
  isOurs: (url: string) => boolean = () => false,
): ModelResolver {
  return {
    resolve: async (name, provider) => {
      const model = await models.resolve(name, provider);
      if (model.url !== undefined && isOurs(model.url)) {
        const why = `is served at ${model.url}, which is this server itself; set another base_url`;
        throw invalid(`model ${model.provider}/${model.modelId} ${why}`);
      }
      if (globs === undefined) return model;
      const names = [model.modelId, `${model.provider}/${model.modelId}`];
      if (globs.some((glob) => names.some((one) => matchesGlob(one, glob)))) return model;
      const allowed = globs.length === 0 ? "none is allowed here" : `allowed here are ${globs.join(", ")}`;
      throw new RuntimeError("PERMISSION_DENIED", `model ${names[1]}: ${allowed}`);
    },
  };
}

/** A star matches any characters, or none; it gives back one at a time, so matching stays linear per star. */
function matchesGlob(text: string, glob: string): boolean {
  let [at, place, star, mark] = [0, 0, -1, 0];
  while (at < text.length) {
    if (glob[place] === "*") {
      star = place;
      mark = at;
      place += 1;
    } else if (glob[place] === text[at]) {
      place += 1;
      at += 1;
    } else if (star >= 0) {
      mark += 1;
      at = mark;
      place = star + 1;
    } else return false;
  }
  return /^\**$/.test(glob.slice(place));
}
