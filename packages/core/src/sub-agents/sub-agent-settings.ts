import type { EntryBody } from "../contract/entry.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import type { SessionSettings, ToolFilter } from "../contract/session.ts";
import type { ModelClient } from "../ports/model.ts";
import type { SubAgent, SubAgentBounds } from "../ports/sub-agent.ts";
import type { SessionState } from "../state/session-state.ts";
import { spentIn } from "../turn/budget.ts";
import { dollarsOf, nanosOf, totalTokens } from "../turn/cost.ts";
import { OUT_OF } from "../turn/tool-batch.ts";

type Limits = SessionSettings["budget_limits"];

const GENERAL: SubAgent = {
  name: "general",
  description: "does any task with the tools you have, and reports",
  prompt:
    "You do one task that another agent hands you, with the tools you have. You cannot ask questions: where something is " +
    "unclear, take the likeliest meaning and say so. When the task is done, or cannot be, end with a report that stands " +
    "alone: what you found or did, with the names, numbers and places that matter, and what is left. Your last message is " +
    "all that the other agent is shown.",
};

/** All sub-agents, including the general one unless another has its name. */
export function withGeneral(agents: readonly SubAgent[]): readonly SubAgent[] {
  return agents.some(({ name }) => name === GENERAL.name) ? agents : [GENERAL, ...agents];
}

export function agentNamed(agents: readonly SubAgent[], name = GENERAL.name): SubAgent {
  const found = agents.find((agent) => agent.name === name);
  if (found !== undefined) return found;
  const names = agents.map((agent) => agent.name).join(", ");
  throw invalid(`agent: there is no sub-agent ${name}; there are ${names}`);
}

/** The part of a parent's turn that limits a child. */
export interface Sharing {
  readonly state: Pick<SessionState, "settings" | "usage" | "toolCallsUsed" | "delegated" | "openCalls">;
  /** The most that running children may use. */
  readonly reserved: readonly Limits[];
  readonly leftMs: number;
  readonly bounds: Pick<SubAgentBounds, "concurrentMax">;
}

/**
 * The limits of a child: its share of the parent's remaining budget, less what other children may still use, and at
 * most its own limits. The shares of all children that could start now never exceed the parent's limit. Throws
 * BUDGET_EXHAUSTED if nothing is left.
 */
export function shareOf(sharing: Sharing, own: Limits = {}): Limits {
  const { state, reserved, leftMs, bounds } = sharing;
  const { budget_limits: limits } = state.settings;
  const spent = spentIn(state);
  const parts = Math.max(1, bounds.concurrentMax - reserved.length);
  const share = (key: keyof Limits, limit: number | undefined, used: number): number | undefined => {
    if (limit === undefined) return own[key];
    const held = reserved.reduce((sum, one) => sum + unitsOf(key, one[key] ?? 0), 0);
    const units = Math.max(0, Math.floor((unitsOf(key, limit) - used - held) / parts));
    const most = key === "max_cost" ? dollarsOf(units) : units;
    return Math.min(own[key] ?? most, most);
  };
  // The calls of the current answer are already made and counted at their end.
  const calls = spent.toolCalls + state.openCalls.length;
  const shared: Limits = {
    max_tokens: share("max_tokens", limits.max_tokens, totalTokens(spent.usage)),
    max_cost: share("max_cost", limits.max_cost, nanosOf(spent.usage.cost ?? { amount: 0 })),
    max_tool_calls: share("max_tool_calls", limits.max_tool_calls, calls),
    max_duration_ms: leastOf(own.max_duration_ms, leftMs),
  };
  if (shared.max_tokens === 0) throw new RuntimeError("BUDGET_EXHAUSTED", OUT_OF.tokens);
  if (shared.max_cost === 0) throw new RuntimeError("BUDGET_EXHAUSTED", OUT_OF.cost);
  return given(shared);
}

/** Costs are shared in whole billionths of a dollar, as they are summed. */
function unitsOf(key: keyof Limits, amount: number): number {
  return key === "max_cost" ? nanosOf({ amount }) : amount;
}

function leastOf(own: number | undefined, leftMs: number): number | undefined {
  const least = Math.min(own ?? Number.POSITIVE_INFINITY, leftMs);
  return least === Number.POSITIVE_INFINITY ? undefined : Math.max(1, Math.floor(least));
}

function given(limits: Limits): Limits {
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined));
}

/** The limits of a resumed session: its usage counts, except time, which starts anew with each turn. */
export function limitsFrom(share: Limits, state: Pick<SessionState, "usage" | "toolCallsUsed" | "delegated">): Limits {
  const { usage, toolCalls } = spentIn(state);
  const { max_tokens, max_cost, max_tool_calls, max_duration_ms } = share;
  return given({
    max_tokens: max_tokens && max_tokens + totalTokens(usage),
    max_cost: max_cost && dollarsOf(nanosOf({ amount: max_cost }) + nanosOf(usage.cost ?? { amount: 0 })),
    max_tool_calls: max_tool_calls === undefined ? undefined : max_tool_calls + toolCalls,
    max_duration_ms,
  });
}

interface Asked {
  readonly agent: SubAgent;
  readonly callId: string;
  readonly model: ModelClient;
  readonly budget_limits: Limits;
  readonly maxTurns: number;
}

/** The settings of a child session: its parent's, reduced by the sub-agent's. */
export function childSettings(
  parent: Pick<SessionState, "sessionId" | "settings" | "allowed">,
  { agent, callId, model, budget_limits, maxTurns }: Asked,
): SessionSettings {
  const {
    client_tools: _ended,
    output_schema: _result,
    turn_output_schema: _newest,
    app_context: _theirs,
    comms: _name,
    agents_md: _ofParent,
    provider_params,
    sub_agent,
    ...settings
  } = parent.settings;
  const isSame = model.modelId === settings.model && model.provider === settings.provider;
  const rules = [...new Set([...(sub_agent?.rules ?? []), ...parent.allowed])];
  return {
    ...settings,
    ...(isSame && provider_params !== undefined ? { provider_params } : {}),
    model: model.modelId,
    provider: model.provider,
    system_prompt: agent.prompt,
    max_turns: agent.maxTurns ?? maxTurns,
    budget_limits,
    tool_filter: agent.tools === undefined ? settings.tool_filter : onlyOf(settings.tool_filter, agent.tools),
    // The labels of the parent's creator come last: it must see its sessions.
    labels: {
      ...settings.labels,
      parent: parent.sessionId,
      parent_call: callId,
      agent: agent.name,
      ...settings.view,
    },
    sub_agent: {
      parent: parent.sessionId,
      parent_call: callId,
      agent: agent.name,
      depth: depthOf(parent.settings) + 1,
      ...(rules.length === 0 ? {} : { rules }),
    },
  };
}

export function depthOf({ sub_agent }: Pick<SessionSettings, "sub_agent">): number {
  return sub_agent?.depth ?? 0;
}

function onlyOf(filter: ToolFilter, names: readonly string[]): ToolFilter {
  if (filter === "All") return { Allow: [...names] };
  const isOffered = (name: string) => ("Allow" in filter ? filter.Allow.includes(name) : !filter.Deny.includes(name));
  return { Allow: names.filter(isOffered) };
}

/** A session's context as the beginning of another, without open calls. */
export function shownHistory({ shown, openCalls }: Pick<SessionState, "shown" | "openCalls">): readonly EntryBody[] {
  const open = new Set(openCalls.map(({ data }) => data.id));
  return shown.flatMap(({ message }): EntryBody[] => {
    const kept = withoutCalls(message, open);
    return kept === undefined ? [] : [{ kind: "imported", message: kept }];
  });
}

function withoutCalls(message: Message, open: ReadonlySet<string>): Message | undefined {
  if (message.role === "system") return undefined;
  if (message.role === "user") {
    const { compaction_id: _theirs, ...said } = message;
    return said;
  }
  if (message.role !== "block_assistant") return message;
  const isOpen = message.blocks.some((block) => block.block_type === "tool_use" && open.has(block.data.id));
  if (!isOpen) return message;
  // Reasoning belongs to its calls: providers reject one without the other.
  const blocks = message.blocks.filter(({ block_type }) => block_type === "text");
  return blocks.length === 0 ? undefined : { ...message, blocks, stop_reason: "end_turn" };
}
