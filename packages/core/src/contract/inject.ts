import { cliFlag } from "./input.ts";
import { TextBlock } from "./message.ts";
import { z } from "./schema.ts";
import { SessionId } from "./session.ts";

const TEXT_CHARS_MAX = 1_000_000;

export const InjectContext = z.object({
  session_id: SessionId,
  text: cliFlag(
    "TEXT",
    z
      .string()
      .min(1, { error: "the text is empty" })
      .max(TEXT_CHARS_MAX)
      .describe("what the model is shown from its next call on"),
  ),
  source: z.string().optional().describe("where the text comes from, which the model is told, too"),
  idempotency_key: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("the same key again adds nothing; with another text it is refused"),
});
export type InjectContext = z.infer<typeof InjectContext>;

export const InjectedContext = z.object({
  status: z
    .enum(["applied", "staged", "duplicate"])
    .describe("staged: a turn is running, and its next model call is shown it; duplicate: it was there already"),
});

const PAYLOAD_CHARS_MAX = 65_536;
const shortText = { error: "write a text of 1 to 200 characters" };

/** Something that happened outside; the model is shown it as data, never as what the user said. */
export const ExternalEvent = z.object({
  session_id: SessionId,
  kind: z
    .literal("generic_json", { error: 'write "generic_json"; there is no other kind' })
    .default("generic_json")
    .describe("the form of the payload; there is one"),
  event_type: cliFlag(
    "TYPE",
    z
      .string(shortText)
      .min(1, shortText)
      .max(200, shortText)
      .describe("what happened, in a word of 1 to 200 characters")
      .meta({ examples: ["build.finished"] }),
  ),
  payload: cliFlag(
    "[JSON]",
    z
      .unknown()
      .refine((payload) => (JSON.stringify(payload) ?? "").length <= PAYLOAD_CHARS_MAX, {
        error: `write at most ${PAYLOAD_CHARS_MAX} characters of JSON`,
      })
      .optional()
      .describe(`facts of the event, any JSON of at most ${PAYLOAD_CHARS_MAX} characters`)
      .meta({ examples: [{ green: true }] }),
  ),
  blocks: z
    .array(TextBlock, { error: "write a list of text blocks; other media go into a prompt" })
    .refine((blocks) => blocks.reduce((sum, { text }) => sum + text.length, 0) <= PAYLOAD_CHARS_MAX, {
      error: `write at most ${PAYLOAD_CHARS_MAX} characters`,
    })
    .nullish()
    .describe("more of it, in words"),
  idempotency_key: z
    .string(shortText)
    .min(1, shortText)
    .max(200, shortText)
    .nullish()
    .describe("the same key again is the same event"),
});
export type ExternalEvent = z.infer<typeof ExternalEvent>;

export const ExternalEventOutcome = z.object({
  outcome_type: z
    .enum(["accepted", "deduplicated", "rejected"])
    .describe("deduplicated: the event was there already; rejected: its key was used for another"),
  input_id: z.string().optional().describe("the id of the event that was accepted"),
  existing_id: z.string().optional().describe("the id of the event that was there already"),
  reason: z.string().optional().describe("why it was rejected"),
});
export type ExternalEventOutcome = z.infer<typeof ExternalEventOutcome>;
