import { type CompactionPart, evicts } from "./compactions/compaction-part.ts";
import { agentOf } from "./config/agents-schema.ts";
import type { Config } from "./config/config-schema.ts";
import type { SessionSettings } from "./contract/session.ts";
import type { searchForTools } from "./memory/memory-operations.ts";
import type { SubAgent } from "./ports/sub-agent.ts";
import { configOf, type McpServerConfig, type Tool } from "./ports/tool.ts";
import { belowCeiling, lowerOf, requireBelow, type ToolCeiling } from "./runtime/ceiling.ts";
import type { SessionServerTools } from "./runtime/mcp-servers.ts";
import type { SessionService } from "./sessions/session-service.ts";
import type { Configured } from "./sessions/turn-operations.ts";
import type { SkillCatalogue } from "./skills/skill-catalogue.ts";
import {
  createBuiltinTools,
  createLoadSkill,
  createMemoryTools,
  createRecallOutput,
  hasMcpTools,
  hasSkillTools,
  presetsWith,
  TOOL_PRESETS,
  type ToolPreset,
} from "./tools/builtin.ts";
import { createCommsTools } from "./tools/comms.ts";
import { createMcpTools, type McpTools, type SlotParts } from "./tools/mcp/mcp-tools.ts";
import { createSessionServers } from "./tools/mcp/session-servers.ts";
import { plainSecretOf, secretsOf } from "./tools/mcp/variables.ts";
import { requireSound } from "./turn/json-schema.ts";
import { createRedactor } from "./turn/redact.ts";

/** As much of a runtime's options as decides which tools its sessions have. */
interface ToolOptions {
  readonly memory?: object;
  readonly mcpServers?: readonly McpServerConfig[];
  readonly skills?: readonly object[];
  readonly toolPreset?: ToolPreset;
  readonly ceiling?: ToolPreset;
  readonly tools?: readonly Tool[];
}

interface ToolParts extends Pick<SlotParts, "env" | "root" | "clock" | "warn" | "logins"> {
  readonly shell: Config["shell"];
  readonly ceiling: ToolCeiling;
  readonly catalogue: SkillCatalogue;
  /** Tools read sessions, which are created after them. */
  readonly sessions: () => Pick<SessionService, "live" | "loadSkill" | "jobs" | "comms">;
}

export interface ComposedTools {
  /** What sessions have under a configuration. */
  under(
    config: Config,
    parts: { readonly recall: Recall | undefined; readonly compaction: CompactionPart | undefined },
  ): Pick<Configured, "toolsFor" | "recallOutputFor" | "codeTools" | "mcpServersOf">;
  /** Connects to MCP servers before a turn of a session that has their tools; resolves with what lets go of them. */
  prepare(settings: SessionSettings, signal: AbortSignal): Promise<() => void>;
  readonly servers: SessionServerTools;
  close(): Promise<void>;
  closeServers(): Promise<void>;
}

type Recall = ReturnType<typeof searchForTools>;

/** The tools of sessions: built-in ones, those of memory, MCP servers and skills, and those of the program. */
export function composeTools(options: ToolOptions, parts: ToolParts): ComposedTools {
  const { root, clock, env, ceiling, catalogue, sessions } = parts;
  const { program: shellProgram, timeout_ms } = parts.shell;
  const jobs = () => sessions().jobs;
  const builtins = createBuiltinTools({ root, clock, env, shellProgram, shellTimeoutSecs: timeout_ms / 1_000, jobs });
  const mcp = mcpToolsOf(options.mcpServers ?? [], parts);
  const own = createSessionServers((server) => {
    const secrets = secretsOf([server], env);
    const warn = (sentence: string) => parts.warn(createRedactor(secrets)(sentence));
    const opened = mcpToolsOf([server], { ...parts, warn });
    const tools = () => opened.tools().map((tool) => ({ ...tool, secrets: [...secrets, ...(tool.secrets ?? [])] }));
    return { ...opened, tools };
  });
  /** The servers a session added, as far as it may have them here: one of another door may allow more. */
  const addedBy = ({ tools, mcp_servers: { added = [] } = {} }: SessionSettings) =>
    added.filter(({ command }) => ceiling.mcp && tools.mcp !== false && (command === undefined || ceiling.shell));
  const wholeOf = async (id: string) => {
    const { live } = sessions();
    return live.whole(await live.find(id));
  };
  const recallOutput = createRecallOutput(
    async (id) => (await wholeOf(id)).transcript,
    async (id) => {
      const { allWork } = await import("./compaction/work-state.ts");
      // Like every output it is redacted when it is recorded.
      const work = await allWork(await wholeOf(id), (text) => text, clock.yieldToEventLoop);
      return work.map(({ text }) => text);
    },
  );
  let made: readonly Tool[] | undefined;
  const commsTools = (): readonly Tool[] => {
    made ??= createCommsTools(() => sessions().comms);
    return made;
  };
  const loadSkillTool = createLoadSkill((...asked) => sessions().loadSkill(...asked));
  return {
    under: ({ skills, tools: { comms_enabled } }, { recall, compaction }) => {
      const memoryToolsFor = memoryTools(recall);
      return {
        codeTools: options.tools ?? [],
        mcpServersOf: (settings) => {
          const { removed = [] } = settings.mcp_servers ?? {};
          const configured = (options.mcpServers ?? []).filter(({ name }) => !removed.includes(name));
          return [...(ceiling.mcp ? configured : []), ...addedBy(settings)].map(({ name }) => name);
        },
        toolsFor: (settings, caller) => {
          const { tools: had, view, memory_scope, mcp_servers: { removed = [] } = {} } = settings;
          // A session that another door gave more is given no more than this here.
          const tools = belowCeiling(had, ceiling);
          const labels = { ...view, ...caller?.labels };
          const sorted = Object.entries(labels).sort();
          const isLeft = (tool: Tool) => !removed.includes(tool.mcp?.server ?? "");
          return [
            ...builtins.toolsFor(tools, JSON.stringify(sorted)),
            ...(settings.comms !== undefined && comms_enabled && ceiling.agents ? commsTools() : []),
            ...(tools.memory ? memoryToolsFor(labels, memory_scope) : []),
            ...(ceiling.mcp && hasMcpTools(had) ? mcp.tools().filter(isLeft) : []),
            ...own.tools(addedBy(settings)),
            ...(skills.enabled && catalogue.hasAny && hasSkillTools(tools) ? [loadSkillTool()] : []),
            ...(options.tools ?? []),
          ];
        },
        recallOutputFor: (settings, wasEvicted = false) =>
          wasEvicted || (compaction && evicts(compaction, settings))
            ? recallOutput(belowCeiling(settings.tools, ceiling))
            : undefined,
      };
    },
    prepare: async (settings, signal) => {
      const connected = ceiling.mcp && hasMcpTools(settings.tools) && mcp.prepare(signal, settings.mcp_servers);
      const letGo = await own.hold(addedBy(settings), signal);
      await connected;
      return letGo;
    },
    servers: {
      plainSecretOf: (server) => plainSecretOf(configOf(server)),
      drop: (before, now) => own.drop(before.mcp_servers?.added ?? [], now?.mcp_servers?.added ?? []),
    },
    close: builtins.close,
    closeServers: async () => {
      await Promise.all([mcp.close(), own.close()]);
    },
  };
}

/** The tools of memory; sessions without labels share those of their scope. */
function memoryTools(recall: Recall | undefined) {
  const shared = new Map<SessionSettings["memory_scope"], readonly Tool[]>();
  return (labels: Record<string, string>, scope: SessionSettings["memory_scope"]): readonly Tool[] => {
    if (recall === undefined) return [];
    const known = Object.keys(labels).length > 0 ? undefined : shared.get(scope);
    const tools = known ?? createMemoryTools((asked) => recall(asked, labels, scope));
    if (Object.keys(labels).length === 0) shared.set(scope, tools);
    return tools;
  };
}

export function presetsOf({ memory, mcpServers = [], skills = [] }: ToolOptions, config: Config) {
  const { tools } = config;
  const hasMemory = memory !== undefined && tools.memory;
  const hasSkills = skills.length > 0 && config.skills.enabled;
  return presetsWith({ memory: hasMemory, mcp: mcpServers.length > 0, skills: hasSkills });
}

/** The most sessions may have: what the server was started with, less what the configuration's file forbids. */
export function ceilingOf({ ceiling: given = "full", toolPreset }: ToolOptions, config: Config): ToolCeiling {
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

export function defaultTools(options: ToolOptions, config: Config) {
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
  parts: Pick<SlotParts, "env" | "root" | "clock" | "warn" | "logins">,
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
