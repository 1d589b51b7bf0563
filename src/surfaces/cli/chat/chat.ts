import { RuntimeError } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import type { LogLines } from "../agents/log-lines.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import type { Conversation } from "./conversation.ts";
import type { PromptSource } from "./prompt-source.ts";

/** What a slash command works with. */
export interface Chat {
  readonly invocation: Invocation;
  readonly opened: Opened;
  readonly conversation: Conversation;
  /** Who is talked to, when it is an agent that remembers. */
  readonly agent: string | undefined;
  readonly source: PromptSource;
  readonly log: LogLines;
}

export interface SlashCommand {
  readonly takes?: string;
  readonly meaning: string;
  /** Resolves with true when the chat is to end. */
  run(chat: Chat, rest: string): Promise<boolean>;
}

/** The session that is talked in; before the first turn there is none. */
export function currentOf({ conversation }: Chat): string {
  if (conversation.sessionId !== undefined) return conversation.sessionId;
  throw new RuntimeError("INVALID_PARAMS", "nothing was said yet");
}

/** Says something about the chat itself. */
export function tell({ invocation }: Chat, text: string): false {
  invocation.io.stderr.write(`${withoutControls(text)}\n`);
  return false;
}
