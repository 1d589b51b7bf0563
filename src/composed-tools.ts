import { agentOf } from "./config/agents-schema.ts";
import type { Config } from "./config/config-schema.ts";
import { requireSound } from "./core/json-schema.ts";
import type { McpServerConfig } from "./ports/mcp-server.ts";
import type { SubAgent } from "./ports/sub-agent.ts";
import { lowerOf, requireBelow, type ToolCeiling } from "./service/ceiling.ts";
import { presetsWith, TOOL_PRESETS, type ToolPreset } from "./tools/builtin.ts";
import { createMcpTools, type McpTools, type SlotParts } from "./tools/mcp/mcp-tools.ts";

/** As much of a runtime's options as decides which tools its sessions have. */
interface ComposedTools {
  readonly memory?: object;
  readonly mcpServers?: readonly McpServerConfig[];
  readonly skills?: readonly object[];
  readonly toolPreset?: ToolPreset;
  readonly ceiling?: ToolPreset;
}

export function presetsOf({ memory, mcpServers = [], skills = [] }: ComposedTools, config: Config) {
  const { tools } = config;
  const hasMemory = memory !== undefined && tools.memory;
  const hasSkills = skills.length > 0 && config.skills.enabled;
  return presetsWith({ memory: hasMemory, mcp: mcpServers.length > 0, skills: hasSkills });
}

/** The most sessions may have: what the server was started with, less what the configuration's file forbids. */
export function ceilingOf({ ceiling: given = "full", toolPreset }: ComposedTools, config: Config): ToolCeiling {
  const { forbidden } = config;
  const preset = lowerOf(given, config.ceiling.tools ?? given);
  const { builtins, shell } = TOOL_PRESETS[preset];
  const ceiling = {
    builtins: forbidden.includes("builtins") ? "none" : builtins,
    shell: shell && !forbidden.includes("shell"),
    memory: preset !== "none",
    mcp: preset !== "none",
    agents: preset !== "none",
    forbidden,
    configured: preset === given ? undefined : preset,
  } as const;
  if (toolPreset !== undefined) requireBelow(TOOL_PRESETS[toolPreset], ceiling, { tool_preset: toolPreset });
  return ceiling;
}

export function defaultTools(options: ComposedTools, config: Config) {
  const { toolPreset, memory, mcpServers = [], skills = [] } = options;
  const { tools, sub_agents } = config;
  const agents = sub_agents.enabled ? { agents: true as const } : {};
  if (toolPreset !== undefined) return { ...presetsOf(options, config)[toolPreset], ...agents };
  return {
    builtins: tools.builtins_enabled ? "all" : "none",
    shell: tools.shell_enabled,
    memory: memory !== undefined && tools.memory,
    ...(mcpServers.length === 0 ? {} : { mcp: true }),
    ...agents,
    ...(skills.length === 0 || !config.skills.enabled ? {} : { skills: true }),
  } as const;
}

/** How long an MCP server may take to list its tools, unless its configuration says otherwise. */
const MCP_CONNECT_TIMEOUT_MS = 10_000;

export function mcpToolsOf(
  servers: readonly McpServerConfig[],
  parts: Pick<SlotParts, "env" | "root" | "clock" | "warn">,
): McpTools {
  return createMcpTools(servers, { ...parts, requireSound, connectTimeoutMs: MCP_CONNECT_TIMEOUT_MS });
}

/** The sub-agents a model can delegate to: of two with one name the nearer wins, code, then the project, then the user. */
export function subAgentsOf(
  { subAgents = [] }: { readonly subAgents?: readonly SubAgent[] },
  { sub_agents }: Config,
): readonly SubAgent[] {
  const configured = Object.entries(sub_agents.named).map(([name, row]) => agentOf(name, row));
  const nearFirst = [
    ...subAgents.filter(({ from }) => from !== "user"),
    ...configured,
    ...subAgents.filter(({ from }) => from === "user"),
  ];
  const named = new Map(nearFirst.toReversed().map((agent) => [agent.name, agent]));
  return [...named.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1));
}
