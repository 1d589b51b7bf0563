import { cliFlag, nonnegative } from "./input.ts";
import {
  AssistantBlock,
  CONTENT_KINDS,
  ContentBlock,
  importedModel,
  type Message,
  messageOrigin,
  StopReason,
  ToolResult,
} from "./message.ts";
import { z } from "./schema.ts";

const count = z.number().int().nonnegative();
const timeWanted = { error: "write a time as in 2026-01-31T12:00:00Z, or leave it out" };
const created_at = z.iso
  .datetime({ offset: true, ...timeWanted })
  .nullish()
  .describe("when the message was sent; without it, the time of the rewrite, or the old time of a message that stays");
const stop_reason = StopReason.default("end_turn").describe("why the model stopped");
const whatText = "the text itself";

const roleWanted = {
  error: "write a message with a role: system, system_notice, user, assistant, block_assistant or tool_results",
};
const contentWanted = { error: "write a text or a list of content blocks" };
const NOTICE_BLOCKS = z.array(z.unknown()).max(0, { error: "notices have a body here and no blocks; leave them out" });

const LegacyAnswer = z.object({
  role: z.literal("assistant").describe("a message of the model, in the older form"),
  content: z.string().describe(whatText),
  tool_calls: z
    .array(
      z.object({
        id: z.string().describe("the call's id, which its result names"),
        name: z.string().describe("the tool's name"),
        args: z.record(z.string(), z.unknown()).describe("the arguments"),
      }),
    )
    .default([])
    .describe("the tools it calls"),
  stop_reason,
  created_at,
});

/** A message as a client writes it: its time may be left out, and an answer may have the older form. */
const WrittenMessage = z.discriminatedUnion(
  "role",
  [
    z.object({
      role: z.literal("system").describe("the system prompt"),
      content: z.string().min(1, { error: "write a text, or leave the system message out" }).describe(whatText),
      created_at,
    }),
    z.object({
      role: z.literal("system_notice").describe("a notice of the runtime to the model"),
      kind: z.string().describe("what it is about"),
      body: z.string().nullish().describe(whatText),
      content: z.string().nullish().describe("another name for its body"),
      blocks: NOTICE_BLOCKS.optional().describe("leave it out: notices have a body here"),
      created_at,
    }),
    z.object({
      role: z.literal("user").describe("a message of the user"),
      content: z.union(CONTENT_KINDS, contentWanted).describe("a text, or a list of content blocks"),
      created_at,
      origin: messageOrigin,
    }),
    LegacyAnswer,
    z.object({
      role: z.literal("block_assistant").describe("a message of the model: texts and tool calls"),
      blocks: z.array(AssistantBlock).describe("its parts, in their order"),
      stop_reason,
      created_at,
      origin: messageOrigin,
      model: importedModel,
    }),
    z.object({
      role: z.literal("tool_results").describe("the results of tools"),
      results: z.array(ToolResult).describe("one for each call, in their order"),
      created_at,
    }),
  ],
  roleWanted,
);

/** A message that may not have a time yet. */
export type Undated = Message extends infer M
  ? M extends Message
    ? Omit<M, "created_at"> & { created_at?: string }
    : never
  : never;

export const RewriteMessage = WrittenMessage.transform(({ created_at: at, ...message }): Undated => {
  const time = at === undefined || at === null ? {} : { created_at: at };
  if (message.role === "system_notice") {
    const body = message.body ?? message.content ?? undefined;
    return { role: message.role, kind: message.kind, ...(body === undefined ? {} : { body }), ...time };
  }
  if (message.role !== "assistant") return { ...message, ...time };
  const text = message.content === "" ? [] : [{ block_type: "text" as const, data: { text: message.content } }];
  const calls = message.tool_calls.map((data) => ({ block_type: "tool_use" as const, data }));
  return { role: "block_assistant", blocks: [...text, ...calls], stop_reason: message.stop_reason, ...time };
});

/** A message as a client may write it. */
export type MessageInput = z.input<typeof RewriteMessage>;
export type ReplacementInput = z.input<typeof ForkReplacing.replacement>;

export const MESSAGES_MAX = 10_000;
const TEXT_CHARS_MAX = 20_000;
const shortText = { error: "write a text of 1 to 200 characters" };

/** Messages by their places in the transcript, the system message counted, the end excluded. */
const MessageRange = z.object({
  type: z
    .literal("message_range", { error: 'write "message_range"; there is no other selection' })
    .describe("how messages are selected; there is one way"),
  start: cliFlag(
    "--from <index>",
    nonnegative.describe("the first message to replace, counted from 0 as the history has them"),
  ),
  end: cliFlag("--to <index>", nonnegative.describe("the first message after them to keep")),
});

const RewriteReason = z.object({
  kind: cliFlag(
    "--reason <kind>",
    z.string(shortText).min(1, shortText).max(200, shortText).describe("the reason, as a short name"),
  ),
  note: cliFlag(
    "--note <text>",
    z
      .string()
      .max(TEXT_CHARS_MAX, { error: `write at most ${TEXT_CHARS_MAX} characters` })
      .nullish()
      .describe("a longer explanation"),
  ),
});

/** Names a transcript by what it says: the same messages have the same revision. */
const Revision = z.string().regex(/^sha256:[0-9a-f]{64}$/, {
  error: "write a revision, sha256: and 64 hex digits, as session/transcript_revision answers it",
});
const NamedRevision = z.union([z.literal("current"), Revision], {
  error: 'write a revision (sha256: and 64 hex digits) or "current"',
});

export const running_behavior = z
  .literal("reject", { error: 'write "reject"; a running turn is never cut short' })
  .default("reject")
  .describe("what happens while a turn runs: the request is refused, since a running turn is never cut short");

/** What every change of a transcript says of itself. */
const Change = {
  reason: RewriteReason.describe("why it is changed, which the log keeps"),
  actor: cliFlag(
    "--actor <name>",
    z.string(shortText).min(1, shortText).max(200, shortText).nullish().describe("who does it"),
  ),
  expected_parent_revision: cliFlag(
    "--expect <revision>",
    Revision.nullish().describe("do nothing unless this is the revision now"),
  ),
  running_behavior,
};

export const RewriteTranscript = {
  selection: MessageRange.describe("which messages are replaced"),
  replacement: cliFlag(
    "--messages <json>",
    z
      .array(RewriteMessage)
      .max(MESSAGES_MAX, { error: `write at most ${MESSAGES_MAX} messages` })
      .describe("the messages to put there, a list")
      .meta({ examples: [[{ role: "user", content: "Hi." }]] }),
  ),
  ...Change,
};

export const RestoreRevision = {
  revision: cliFlag("REVISION", Revision.describe("the revision to restore")),
  ...Change,
};
export const ReadRevision = {
  revision: cliFlag("[REVISION]", NamedRevision.describe("the revision to read, or current")),
};

const block_index = nonnegative.describe("which of the blocks, from 0");
export const asks_again = z
  .boolean()
  .optional()
  .describe(
    "Whether the message at the index will be the first prompt of the fork. Then the compaction made before its answer is kept.",
  );

export const message_index = cliFlag(
  "--at <index>",
  nonnegative.describe("the first message to leave out, counted from 0 as the history has them"),
);

/** What a fork has in the place of a message: another one, or the same with one block changed. */
export const ForkReplacing = {
  message_index,
  replacement: cliFlag(
    "--replacement <json>",
    z
      .discriminatedUnion(
        "type",
        [
          z.object({
            type: z.literal("message").describe("another message"),
            message: RewriteMessage.describe("the message itself"),
          }),
          z.object({
            type: z.literal("user_content_block").describe("another block of a user message"),
            block_index,
            block: ContentBlock.describe("the block itself"),
          }),
          z.object({
            type: z.literal("assistant_block").describe("another block of a model message"),
            block_index,
            block: AssistantBlock.describe("the block itself"),
          }),
          z.object({
            type: z.literal("tool_result_content_block").describe("another block of a tool result"),
            result_index: nonnegative.describe("which of the results, from 0"),
            block_index,
            block: ContentBlock.describe("the block itself"),
          }),
        ],
        { error: "write a type: message, user_content_block, assistant_block or tool_result_content_block" },
      )
      .describe("the replacement of the message at the index")
      .meta({ examples: [{ type: "message", message: { role: "user", content: "Hi." } }] }),
  ),
  running_behavior,
};
export type Replacement = z.output<typeof ForkReplacing.replacement>;

/** A moment as existing clients have it. */
export const SystemTime = z.object({
  secs_since_epoch: z.number().int().describe("whole seconds of Unix time"),
  nanos_since_epoch: z.number().int().describe("and nanoseconds"),
});
export type SystemTime = z.infer<typeof SystemTime>;

/** What is recorded of a rewrite, in the log and on every wire. */
export const RewriteCommit = z.object({
  parent_revision: z.string().describe("the revision before"),
  revision: z.string().describe("the revision after"),
  selection: MessageRange.describe("which messages were replaced"),
  original_span_digest: z.string().describe("the hash of what was there"),
  replacement_digest: z.string().describe("the hash of what is there now"),
  messages_before: count.describe("messages of the transcript before"),
  messages_after: count.describe("messages of the transcript after"),
  reason: z
    .object({
      kind: z.string().describe("the reason, as a short name"),
      note: z.string().optional().describe("a longer explanation"),
    })
    .describe("why it was changed"),
  actor: z.string().optional().describe("who did it"),
  committed_at: SystemTime.describe("when it was done"),
});
export type RewriteCommit = z.infer<typeof RewriteCommit>;

/** What listeners receive about a rewrite. The messages are not repeated: a revision can be read. */
export const RewriteRecord = z.object({
  commit: RewriteCommit.describe("the recorded commit"),
  parent_body: z
    .object({ revision: z.string().describe("its revision"), message_count: count.describe("its messages") })
    .describe("the transcript before"),
  revision_body: z
    .object({
      revision: z.string().describe("its revision"),
      parent_revision: z.string().describe("the revision before"),
      message_count: count.describe("its messages"),
      last_assistant_text: z
        .string()
        .optional()
        .describe("the last text of the assistant; absent if there is none any more"),
    })
    .describe("the transcript after"),
});
