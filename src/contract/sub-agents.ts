import type { AgentEvent, AgentEventOf } from "./event.ts";

/** An event with whose it is: a sub-agent's, or of the session that is listened to. */
export interface HeardEvent {
  readonly event: AgentEvent;
  /** 0 for the session that is listened to. */
  readonly depth: number;
  /** The sub-agent it happened to, and the session that works in; undefined at depth 0. */
  readonly agent: string | undefined;
  readonly childId: string | undefined;
}

const DEPTH_MAX = 64;

/** What happened, and how deep; an event that no sub-agent tells is its own. */
export function heardIn(event: AgentEvent): HeardEvent {
  let heard: HeardEvent = { event, depth: 0, agent: undefined, childId: undefined };
  for (let level = 0; level < DEPTH_MAX && heard.event.type === "sub_agent_event"; level += 1) {
    const { event: inner, depth, agent, child_id } = heard.event;
    // A session tells nothing else than what the table of events has.
    heard = { event: inner as AgentEvent, depth: heard.depth + Math.max(1, depth), agent, childId: child_id };
  }
  return heard;
}

/** The question that an event puts to a person, in the name of the session or of a sub-agent; undefined where none. */
export function questionIn(event: AgentEvent): AgentEventOf<"tool_approval_requested"> | undefined {
  const heard = heardIn(event);
  return heard.event.type === "tool_approval_requested" ? heard.event : undefined;
}

/** Whose sub-agent works in a session. */
export interface Parentage {
  readonly parent: string;
  readonly agent: string;
}

/** Who handed a session its task, by the labels it was made with; undefined for one that nobody did. */
export function parentageOf({
  labels = {},
}: {
  readonly labels?: Readonly<Record<string, string>> | undefined;
}): Parentage | undefined {
  const { parent, parent_call, agent } = labels;
  // A label of one of these names may be anybody's; only a sub-agent's session has all three.
  return parent === undefined || parent_call === undefined || agent === undefined ? undefined : { parent, agent };
}
