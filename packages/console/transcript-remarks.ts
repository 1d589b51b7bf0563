import { describeEvent, type EventLine } from "@rkat/client/browser";
import type { AgentEvent } from "@rkat/core/contract/event";

/** What befell a turn, as a sentence between messages. */
export interface Remark {
  readonly seq: number;
  readonly atMs: number;
  readonly tone: EventLine["tone"];
  readonly text: string;
}

/** The sentence for an event; undefined for what the messages say themselves, or the card of a sub-agent. */
export function remarkOf(event: AgentEvent): Pick<Remark, "tone" | "text"> | undefined {
  const { level, tone, text } = describeEvent(event);
  if (level === "piece" || level === "step" || event.type.startsWith("sub_agent_")) return undefined;
  return { tone, text: `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}` };
}
