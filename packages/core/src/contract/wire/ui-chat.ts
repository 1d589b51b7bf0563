import type { AgentEventOf, AgentEventType, Usage } from "../event.ts";
import type { MemoryHit } from "../memory.ts";
import { ClientTools } from "../message.ts";
import type { Cost } from "../money.ts";
import { z } from "../schema.ts";

/** What `POST /ui/chat` takes: what the chat transport of the AI SDK sends, and fields of ours in its `body`. */

const text = { error: "write a text" };
const CHAT_ID_CHARS_MAX = 200;
const MESSAGE_ID_CHARS_MAX = 200;

/** The name a page gives a conversation; of a caller's own, so that two callers may choose the same. */
export const UiChatId = z
  .string({ error: "write the chat's id" })
  .min(1, { error: "write the chat's id" })
  .max(CHAT_ID_CHARS_MAX, { error: `write at most ${CHAT_ID_CHARS_MAX} characters` });

const MessageId = z
  .string(text)
  .max(MESSAGE_ID_CHARS_MAX, { error: `write at most ${MESSAGE_ID_CHARS_MAX} characters` });

/** A part of a message; which there are is the AI SDK's to say, and those that matter are read where they do. */
const UiPart = z.looseObject({ type: z.string({ error: "write the part's type" }) }, { error: "write a part" });
export type UiPart = z.infer<typeof UiPart>;

const UiMessage = z.looseObject(
  {
    id: MessageId.optional(),
    role: z.enum(["system", "user", "assistant"], { error: 'write "user", "assistant" or "system"' }),
    parts: z.array(UiPart, { error: "write a list of parts" }),
  },
  { error: "write a message: {id, role, parts}" },
);
export type UiMessage = z.infer<typeof UiMessage>;

export const UiChatRequest = z.strictObject({
  id: UiChatId.describe("the chat's id, which names a session of the caller's"),
  messages: z
    .array(UiMessage, { error: "write a list of messages" })
    .min(1, { error: "write at least the newest message" })
    .describe("the conversation as the page has it; what is new in it is said, the rest is known"),
  trigger: z
    .enum(["submit-message", "regenerate-message"], { error: 'write "submit-message" or "regenerate-message"' })
    .default("submit-message")
    .describe("regenerate-message answers the newest message of the user again"),
  messageId: MessageId.nullish().describe("the user's message that was edited, or the assistant's that is continued"),
  model: z.string({ error: "write the name of a model" }).min(1, { error: "write the name of a model" }).optional(),
  system_prompt: z.string(text).optional(),
  tool_preset: z
    .enum(["none", "memory", "safe", "workspace", "full"], {
      error: 'write "none", "memory", "safe", "workspace" or "full"',
    })
    .optional()
    .describe("the tools of this server's that the session has; else as configured"),
  client_tools: ClientTools.optional().describe("tools that the page runs"),
});
export type UiChatRequest = z.infer<typeof UiChatRequest>;

/** What the data parts of a stream hold, by their names: `data-session` and so on, for `UIMessage<UiChatMetadata, UiChatData>`. */
// A type and not an interface: the AI SDK asks for an index.
export type UiChatData = {
  /** The session of the chat; sent at the beginning of each answer, and not stored in the message. */
  session: { readonly session_id: string };
  /** What became of the context. */
  compaction:
    | ({ readonly phase: "started" } & Omit<AgentEventOf<"compaction_started">, "type">)
    | ({ readonly phase: "completed" } & Omit<AgentEventOf<"compaction_completed">, "type">)
    | ({ readonly phase: "evicted" } & Omit<AgentEventOf<"context_evicted">, "type">)
    | ({ readonly phase: "failed" } & Omit<AgentEventOf<"compaction_failed">, "type">);
  /** What everybody should know of the turn, in one line: a retry, a budget that runs out; not kept in the message. */
  notice: { readonly event: AgentEventType; readonly text: string };
  /** What was found in memory by a call of the model's. */
  memory: { readonly query: string; readonly hits: readonly MemoryHit[] };
  /** Calls that wait for approval; each also has its own `tool-approval-request`. */
  approval: Omit<AgentEventOf<"tool_approval_requested">, "type">;
  /** What the session has used, and what the turn cost where a price is known. */
  usage: { readonly usage: Usage; readonly turn_cost?: Cost };
};

/** What the metadata of an answer holds. */
export interface UiChatMetadata {
  readonly session_id: string;
}
