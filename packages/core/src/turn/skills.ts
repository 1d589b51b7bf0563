import type { AgentEvent } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";

type Notice = Extract<Message, { role: "system_notice" }>;
type Stamp = NonNullable<Notice["skill"]>;

interface Placed {
  readonly seq: number;
  readonly message: Message;
}

/** The skill that a message contains, if any. */
export function skillIn(message: Message | undefined): Stamp | undefined {
  return message?.role === "system_notice" ? message.skill : undefined;
}

/** The version of AGENTS.md that a message contains, if any. */
export function agentsMdIn(message: Message | undefined): Notice["agents_md"] {
  return message?.role === "system_notice" ? message.agents_md : undefined;
}

/** Whether a message is pinned from the start and complete without its turn: the text of a skill or of AGENTS.md. */
export function isStanding(message: Message | undefined): boolean {
  return skillIn(message) !== undefined || agentsMdIn(message) !== undefined;
}

/** Whether a message is a version of AGENTS.md that a later one replaced, or that was unloaded. */
export function isReplaced({ seq, message }: Placed, pins: ReadonlySet<number>): boolean {
  return agentsMdIn(message) !== undefined && !pins.has(seq);
}

/** A notice has no events unless it contains a skill. */
export function skillEvents({ skill, body = "" }: Notice): readonly AgentEvent[] {
  if (skill === undefined) return [];
  const { source_uuid, skill_name } = skill;
  const injection_bytes = new TextEncoder().encode(body).length;
  return [{ type: "skills_resolved", skills: [{ source_uuid, skill_name }], injection_bytes }];
}

/** The loaded skills: their texts are in the context, or will be once open calls have results, and are pinned. */
export function loadedSkills(state: {
  readonly shown: readonly Placed[];
  readonly heldNotices: readonly Placed[];
  readonly pins: ReadonlySet<number>;
}): readonly (Stamp & { readonly seq: number })[] {
  if (state.pins.size === 0) return [];
  return [...state.shown, ...state.heldNotices].flatMap(({ seq, message }) => {
    const skill = state.pins.has(seq) ? skillIn(message) : undefined;
    return skill === undefined ? [] : [{ ...skill, seq }];
  });
}
