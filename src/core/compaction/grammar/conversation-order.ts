import type { Content, Message } from "../../../contract/message.ts";
import type { Fault } from "./fault.ts";

/**
 * The system prompt stands before the conversation. Qwen's and Mistral's templates refuse a later one, Gemini has no
 * place for it, and our AI SDK adapter would send it as a user's words: instructions that lost their authority.
 */
export function systemFault(messages: readonly Message[]): Fault | undefined {
  let hasBegun = false;
  for (let at = 0; at < messages.length; at += 1) {
    const isSystem = messages[at]?.role === "system";
    if (isSystem && hasBegun) return { at, fault: "a system message stands in the middle of the conversation" };
    hasBegun ||= !isSystem;
  }
  return undefined;
}

/**
 * The conversation begins on the user's side, where notices are too: a summary put first as an answer, or a tail that
 * begins with one, is refused by Anthropic, by Gemini and by the templates of open models.
 */
export function openingFault(messages: readonly Message[], isSent: (message: Message) => boolean): Fault | undefined {
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined || message.role === "system" || !isSent(message)) continue;
    if (message.role !== "block_assistant") return undefined;
    return { at, fault: "the conversation begins with an answer instead of a user message" };
  }
  return undefined;
}

/**
 * Inline media without data: what is left when bytes are dropped to save tokens and the block is kept. Anthropic says
 * that an image cannot be empty, OpenAI that the data url is invalid, Gemini that a part has no data.
 */
export function mediaFault(messages: readonly Message[], wire: MediaWire): Fault | undefined {
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message?.role === "user" && hasEmptyMedia(message.content, wire)) return emptyMedia(at);
    if (message?.role !== "tool_results" || !wire.takesToolMedia) continue;
    for (const { content, is_error } of message.results) {
      // Of a failed call only the text is sent.
      if (!is_error && hasEmptyMedia(content, { takesVideo: false })) return emptyMedia(at);
    }
  }
  return undefined;
}

/** Which media a wire is sent as such; the rest arrives as a text that names it. */
interface MediaWire {
  readonly takesVideo: boolean;
  readonly takesToolMedia: boolean;
}

function hasEmptyMedia(content: Content, { takesVideo }: Pick<MediaWire, "takesVideo">): boolean {
  if (typeof content === "string") return false;
  return content.some(
    (block) =>
      block.type !== "text" && block.source === "inline" && block.data === "" && (block.type === "image" || takesVideo),
  );
}

function emptyMedia(at: number): Fault {
  return { at, fault: "an inline image or video has no data" };
}
