import { z } from "zod";
import { AgentEvent } from "./event.ts";
import { SessionId } from "./session.ts";

export const ContractVersion = z.object({ major: z.number(), minor: z.number(), patch: z.number() });

const Scope = z.object({ type: z.literal("session"), session_id: SessionId });

/** A place in a session's events: everything up to `sequence` has been seen. */
export const EventCursor = z.object({ scope: Scope, sequence: z.number().int().nonnegative() });

export const OneScope = z.object({ scope: Scope });

const Source = z.object({ type: z.literal("session"), session_id: z.string() });

/** An event with its place in the session. `seq` is 0 for live-only events, which are not in the log. */
export const EventEnvelope = z.object({
  event_id: z.string(),
  source: Source,
  source_id: z.string(),
  seq: z.number().int().nonnegative(),
  timestamp_ms: z.number().int().nonnegative(),
  payload: AgentEvent,
});
export type EventEnvelope = z.infer<typeof EventEnvelope>;

export const EventPage = z.object({
  contract_version: ContractVersion,
  scope: Scope,
  from_cursor: EventCursor,
  latest_cursor: EventCursor,
  events: z.array(
    z.object({
      event_id: z.string(),
      cursor: EventCursor,
      timestamp_ms: z.number().int().nonnegative(),
      source: Source,
      session_id: z.string(),
      payload: AgentEvent,
    }),
  ),
  has_more: z.boolean(),
});
export type EventPage = z.infer<typeof EventPage>;
