import { z } from "zod";
import { nonnegative } from "../input/whole-number.ts";
import { SkillRow } from "../memory.ts";
import { SessionId } from "../session.ts";

const StreamId = z.string().min(1).describe("the stream, as meerkat_event_stream_open answered");
const stream_id = z.string().describe("the stream's id");
const READ_MS_MAX = 600_000;

/** The tools that are no rows of the table: a model cannot be sent events, so it asks for them one by one. */
export const EXTRA_TOOLS = {
  meerkat_event_stream_open: {
    summary: "Begin to listen to a session's events; meerkat_event_stream_read reads them one by one.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ stream_id, session_id: z.string().describe("the session it tells of") }),
  },
  meerkat_event_stream_read: {
    summary: "Read the next event of a stream, waiting for one as long as is asked.",
    input: z.strictObject({
      stream_id: StreamId,
      timeout_ms: nonnegative
        .max(READ_MS_MAX, { error: `write at most ${READ_MS_MAX}` })
        .default(5_000)
        .describe("how long to wait for an event, in milliseconds"),
      no_timeout: z.boolean({ error: "write true or false" }).default(false).describe("wait as long as it takes"),
    }),
    output: z.object({
      stream_id,
      status: z.enum(["event", "timeout", "closed"]).describe("whether there was one in time, or none can come"),
      event: z.record(z.string(), z.unknown()).optional().describe("the event with its envelope"),
    }),
  },
  meerkat_event_stream_close: {
    summary: "Stop listening to a session's events.",
    input: z.strictObject({ stream_id: StreamId }),
    output: z.object({
      stream_id,
      closed: z.literal(true).describe("that it is closed"),
      already_closed: z.boolean().describe("whether it was before"),
    }),
  },
  meerkat_skills: {
    summary: "List the skills of this server, or read the one a key of the list names.",
    input: z.strictObject({
      action: z.enum(["list", "inspect"], { error: 'write "list" or "inspect"' }).describe("list them, or read one"),
      skill_key: SkillRow.shape.key.optional().describe("which to read, by its key of the list"),
      source: z.string().optional().describe("list only those of this source_uuid"),
    }),
    output: z.union([
      z.object({ skills: z.array(SkillRow).describe("the skills") }),
      SkillRow.extend({ body: z.string().describe("the skill itself, as a text") }),
    ]),
  },
} as const;

export type ExtraTool = keyof typeof EXTRA_TOOLS;
