import type { AgentEvent, AgentEventOf } from "./event.ts";

/** An event with whose it is: a sub-agent's, or of the session that is listened to. */
export interface UnwrappedEvent {
  readonly event: AgentEvent;
  /** 0 for the session that is listened to. */
  readonly depth: number;
  /** The sub-agent it happened to, and the session that works in; undefined at depth 0. */
  readonly agent: string | undefined;
  readonly childId: string | undefined;
}

const DEPTH_MAX = 64;

/** What happened, and how deep; an event that no sub-agent tells is its own. */
export function unwrapSubAgentEvent(event: AgentEvent): UnwrappedEvent {
  let unwrapped: UnwrappedEvent = { event, depth: 0, agent: undefined, childId: undefined };
  for (let level = 0; level < DEPTH_MAX && unwrapped.event.type === "sub_agent_event"; level += 1) {
    const { event: inner, depth, agent, child_id } = unwrapped.event;
    // A session tells nothing else than what the table of events has.
    unwrapped = { event: inner as AgentEvent, depth: unwrapped.depth + Math.max(1, depth), agent, childId: child_id };
  }
  return unwrapped;
}

/** The question that an event puts to a person, in the name of the session or of a sub-agent; undefined where none. */
export function questionIn(event: AgentEvent): AgentEventOf<"tool_approval_requested"> | undefined {
  const unwrapped = unwrapSubAgentEvent(event);
  return unwrapped.event.type === "tool_approval_requested" ? unwrapped.event : undefined;
}

/** Whose sub-agent works in a session. */
export interface Parentage {
  readonly parent: string;
  readonly agent: string;
}

/** The parent of a sub-agent's session, by its labels; undefined for other sessions. */
export function parentageOf({
  labels = {},
}: {
  readonly labels?: Readonly<Record<string, string>> | undefined;
}): Parentage | undefined {
  const { parent, parent_call, agent } = labels;
  // Users may set a label of one of these names; only a sub-agent's session has all three.
  return parent === undefined || parent_call === undefined || agent === undefined ? undefined : { parent, agent };
}
