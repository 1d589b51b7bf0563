import { ContractVersion } from "./capability.ts";
import { AgentEvent } from "./event.ts";
import { cliFlag, positive } from "./input.ts";
import { z } from "./schema.ts";
import { SessionId } from "./session.ts";

const ofSession = z.literal("session").describe("of one session; there is nothing else");
const Scope = z.object({ type: ofSession, session_id: SessionId }).describe("whose events are meant");

/** A place in a session's events. */
export const EventCursor = z.object({
  scope: Scope,
  sequence: cliFlag(
    "--after <seq>",
    z.number().int().nonnegative().describe("the number of the last event that was seen"),
  ),
});
export type EventCursor = z.infer<typeof EventCursor>;

const OneScope = z.object({ scope: Scope });

/** Events of one page; a reader asks again for the next. */
const EVENTS_PAGE_MAX = 1_000;

const ListEvents = OneScope.extend({
  cursor: EventCursor.optional().describe("only what came after this place; without it, everything"),
  limit: positive
    .max(EVENTS_PAGE_MAX, { error: `write at most ${EVENTS_PAGE_MAX}` })
    .default(EVENTS_PAGE_MAX)
    .describe(`events of a page; ${EVENTS_PAGE_MAX} at most`),
});

const session_id = z.string().describe("the session's id");
const Source = z.object({ type: ofSession, session_id }).describe("what the event comes from");
const event_id = z.string().describe("the event's own id");
const timestamp_ms = z.number().int().nonnegative().describe("when it happened, in milliseconds of Unix time");
const payload = AgentEvent.describe("the event itself");

/** An event with its place in the session. */
export const EventEnvelope = z.object({
  event_id,
  source: Source,
  source_id: z.string().describe("the id of what it comes from"),
  seq: z.number().int().nonnegative().describe("its number; 0 for live-only events, which are not in the log"),
  timestamp_ms,
  payload,
});
export type EventEnvelope = z.infer<typeof EventEnvelope>;

export const EventPage = z.object({
  contract_version: ContractVersion,
  scope: Scope,
  from_cursor: EventCursor.describe("the place after which the page begins"),
  latest_cursor: EventCursor.describe("the place of the newest event there is"),
  events: z
    .array(
      z.object({
        event_id,
        cursor: EventCursor.describe("the place of the event"),
        timestamp_ms,
        source: Source,
        session_id,
        payload,
      }),
    )
    .describe("the events, oldest first"),
  has_more: z.boolean().describe("whether newer ones follow"),
});
export type EventPage = z.infer<typeof EventPage>;

/** The rows of the table about events. */
export const EVENT_OPERATIONS = {
  readEventCursor: {
    summary: "Read the number of a session's newest durable event; 0 when it has none.",
    input: OneScope,
    output: z.object({
      contract_version: ContractVersion,
      cursor: EventCursor.describe("the place of the newest event"),
    }),
    rpc: "events/latest_cursor",
    http: "GET /sessions/{session_id}/events/cursor",
    mcp: "meerkat_events_cursor",
    mcpListed: false,
    cli: "rkat session events ID",
    scope: "read",
    requires: "session-store",
  },
  listEvents: {
    summary: "List a session's durable events after a cursor, oldest first.",
    input: ListEvents,
    output: EventPage,
    rpc: "events/list_since",
    http: "GET /sessions/{session_id}/events/list",
    mcp: "meerkat_events_list",
    mcpListed: false,
    cli: "rkat session events ID",
    scope: "read",
    requires: "session-store",
  },
} as const;
