import { z } from "zod";
import { nonnegative } from "../input/whole-number.ts";
import { AssistantBlock, Content, ContentBlock, type Message, StopReason, ToolResult } from "../message.ts";

const count = z.number().int().nonnegative();
const timeWanted = { error: "write a time as in 2026-01-31T12:00:00Z, or leave it out" };
/** Left out, it is the time of the rewrite, or stays where the message does. */
const created_at = z.iso.datetime({ offset: true, ...timeWanted }).nullish();
const stop_reason = StopReason.default("end_turn");

const roleWanted = {
  error: "write a message with a role: system, system_notice, user, assistant, block_assistant or tool_results",
};
const contentWanted = { error: "write a text or a list of content blocks" };
const NOTICE_BLOCKS = z.array(z.unknown()).max(0, { error: "notices have a body here and no blocks; leave them out" });

const LegacyAnswer = z.object({
  role: z.literal("assistant"),
  content: z.string(),
  tool_calls: z
    .array(z.object({ id: z.string(), name: z.string(), args: z.record(z.string(), z.unknown()) }))
    .default([]),
  stop_reason,
  created_at,
});

/** A message as a client writes it: its time may be left out, and an answer may have the older form. */
const WrittenMessage = z.discriminatedUnion(
  "role",
  [
    z.object({
      role: z.literal("system"),
      content: z.string().min(1, { error: "write a text, or leave the system message out" }),
      created_at,
    }),
    z.object({
      role: z.literal("system_notice"),
      kind: z.string(),
      body: z.string().nullish(),
      /** What some clients call its body. */
      content: z.string().nullish(),
      blocks: NOTICE_BLOCKS.optional(),
      created_at,
    }),
    z.object({ role: z.literal("user"), content: z.union(Content.options, contentWanted), created_at }),
    LegacyAnswer,
    z.object({ role: z.literal("block_assistant"), blocks: z.array(AssistantBlock), stop_reason, created_at }),
    z.object({ role: z.literal("tool_results"), results: z.array(ToolResult), created_at }),
  ],
  roleWanted,
);

/** A message that may not have a time yet. */
export type Undated = Message extends infer M
  ? M extends Message
    ? Omit<M, "created_at"> & { created_at?: string }
    : never
  : never;

const RewriteMessage = WrittenMessage.transform(({ created_at: at, ...message }): Undated => {
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

const MESSAGES_MAX = 10_000;
const TEXT_CHARS_MAX = 20_000;
const shortText = { error: "write a text of 1 to 200 characters" };

/** Messages by their places in the transcript, the system message counted, the end excluded. */
const MessageRange = z.object({
  type: z.literal("message_range", { error: 'write "message_range"; there is no other selection' }),
  start: nonnegative,
  end: nonnegative,
});

const RewriteReason = z.object({
  kind: z.string(shortText).min(1, shortText).max(200, shortText),
  note: z
    .string()
    .max(TEXT_CHARS_MAX, { error: `write at most ${TEXT_CHARS_MAX} characters` })
    .nullish(),
});

/** Names a transcript by what it says: the same messages have the same revision. */
const Revision = z.string().regex(/^sha256:[0-9a-f]{64}$/, {
  error: "write a revision, sha256: and 64 hex digits, as session/transcript_revision answers it",
});
const NamedRevision = z.union([z.literal("current"), Revision], {
  error: 'write a revision (sha256: and 64 hex digits) or "current"',
});

const running_behavior = z
  .literal("reject", { error: 'write "reject"; a running turn is never cut short' })
  .default("reject");

/** What every change of a transcript says of itself. */
const Change = {
  reason: RewriteReason,
  actor: z.string(shortText).min(1, shortText).max(200, shortText).nullish(),
  /** Refused when the transcript is another by now. */
  expected_parent_revision: Revision.nullish(),
  running_behavior,
};

export const RewriteTranscript = {
  selection: MessageRange,
  replacement: z.array(RewriteMessage).max(MESSAGES_MAX, { error: `write at most ${MESSAGES_MAX} messages` }),
  ...Change,
};

export const RestoreRevision = { revision: Revision, ...Change };
export const ReadRevision = { revision: NamedRevision };

/** What a fork has in the place of a message: another one, or the same with one block changed. */
export const ForkReplacing = {
  message_index: nonnegative,
  replacement: z.discriminatedUnion(
    "type",
    [
      z.object({ type: z.literal("message"), message: RewriteMessage }),
      z.object({ type: z.literal("user_content_block"), block_index: nonnegative, block: ContentBlock }),
      z.object({ type: z.literal("assistant_block"), block_index: nonnegative, block: AssistantBlock }),
      z.object({
        type: z.literal("tool_result_content_block"),
        result_index: nonnegative,
        block_index: nonnegative,
        block: ContentBlock,
      }),
    ],
    { error: "write a type: message, user_content_block, assistant_block or tool_result_content_block" },
  ),
  running_behavior,
};
export type Replacement = z.output<typeof ForkReplacing.replacement>;

/** What is recorded of a rewrite, in the log and on every wire. */
export const RewriteCommit = z.object({
  parent_revision: z.string(),
  revision: z.string(),
  selection: MessageRange,
  original_span_digest: z.string(),
  replacement_digest: z.string(),
  messages_before: count,
  messages_after: count,
  reason: z.object({ kind: z.string(), note: z.string().optional() }),
  actor: z.string().optional(),
  committed_at: z.object({ secs_since_epoch: count, nanos_since_epoch: count }),
});
export type RewriteCommit = z.infer<typeof RewriteCommit>;

/** What listeners are told of a rewrite. The messages are not repeated: a revision can be read. */
export const RewriteRecord = z.object({
  commit: RewriteCommit,
  parent_body: z.object({ revision: z.string(), message_count: count }),
  revision_body: z.object({
    revision: z.string(),
    parent_revision: z.string(),
    message_count: count,
    /** What the assistant said last; absent when it says nothing any more. */
    last_assistant_text: z.string().optional(),
  }),
});
