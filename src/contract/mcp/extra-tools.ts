import { z } from "zod";
import { nonnegative } from "../input/whole-number.ts";
import { SkillRow } from "../memory.ts";
import { SessionId } from "../session.ts";

const StreamId = z.string().min(1);
const READ_MS_MAX = 600_000;

/** The tools that are no rows of the table: a model cannot be sent events, so it asks for them one by one. */
export const EXTRA_TOOLS = {
  meerkat_event_stream_open: {
    summary: "Begin to listen to a session's events; meerkat_event_stream_read reads them one by one.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ stream_id: z.string(), session_id: z.string() }),
  },
  meerkat_event_stream_read: {
    summary: "Read the next event of a stream, waiting for one as long as is asked.",
    input: z.strictObject({
      stream_id: StreamId,
      timeout_ms: nonnegative.max(READ_MS_MAX, { error: `write at most ${READ_MS_MAX}` }).default(5_000),
      no_timeout: z.boolean({ error: "write true or false" }).default(false),
    }),
    output: z.object({
      stream_id: z.string(),
      status: z.enum(["event", "timeout", "closed"]),
      event: z.record(z.string(), z.unknown()).optional(),
    }),
  },
  meerkat_event_stream_close: {
    summary: "Stop listening to a session's events.",
    input: z.strictObject({ stream_id: StreamId }),
    output: z.object({ stream_id: z.string(), closed: z.literal(true), already_closed: z.boolean() }),
  },
  meerkat_skills: {
    summary: "List the skills of this server, or read the one a key of the list names.",
    input: z.strictObject({
      action: z.enum(["list", "inspect"], { error: 'write "list" or "inspect"' }),
      skill_key: SkillRow.shape.key.optional(),
      /** The `source_uuid` whose skills are meant. */
      source: z.string().optional(),
    }),
    output: z.union([z.object({ skills: z.array(SkillRow) }), SkillRow.extend({ body: z.string() })]),
  },
} as const;

export type ExtraTool = keyof typeof EXTRA_TOOLS;
