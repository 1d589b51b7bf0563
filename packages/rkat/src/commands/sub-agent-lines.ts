import { describeEvent, seconds, unwrapSubAgentEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import { oneLine } from "../io.ts";

/** A line for what sub-agents do, indented by how deep they are; undefined for what is not theirs, and for the rest. */
export type SubAgentLine = (event: AgentEvent, lineOf: (own: AgentEvent) => string | undefined) => string | undefined;

const NAME_CHARS_MAX = 100;
const LINE_CHARS_MAX = 120;
const INDENT = "  ";

/** Remembers when each sub-agent began, so that its end can say how long it took. */
export function createSubAgentLines(now: () => number): SubAgentLine {
  const begunMs = new Map<string, number>();
  return (event, lineOf) => {
    const inner = unwrapSubAgentEvent(event).event;
    if (inner.type === "sub_agent_started") begunMs.set(inner.child_id, now());
    const begun = inner.type === "sub_agent_completed" ? begunMs.get(inner.child_id) : undefined;
    if (inner.type === "sub_agent_completed") begunMs.delete(inner.child_id);
    return subAgentLine(event, lineOf, begun === undefined ? undefined : now() - begun);
  };
}

/** The same for events that were kept, which do not say how long something took. */
export function subAgentLine(
  event: AgentEvent,
  lineOf: (own: AgentEvent) => string | undefined,
  tookMs?: number,
): string | undefined {
  const { event: inner, depth, agent = "" } = unwrapSubAgentEvent(event);
  const line = lineOfInner(inner, tookMs) ?? (depth === 0 ? undefined : lineOf(inner));
  if (line === undefined || depth === 0) return line;
  return `${INDENT.repeat(depth)}${oneLine(agent, NAME_CHARS_MAX)} ${line}`;
}

function lineOfInner(event: AgentEvent, tookMs: number | undefined): string | undefined {
  if (event.type !== "sub_agent_started" && event.type !== "sub_agent_completed") return undefined;
  const took = tookMs === undefined ? "" : ` in ${seconds(tookMs)}`;
  return `${oneLine(describeEvent(event).text, LINE_CHARS_MAX)}${took}`;
}
