import type { Content } from "../../contract/message.ts";
import type { Opened } from "./open-runtime.ts";

const SESSIONS_MAX = 30;
const MESSAGES_MAX = 60;

/**
 * What was asked in the realm before, the newest first. It is read from the sessions themselves, so that nothing is kept
 * twice: what is forgotten, sealed or not kept there is so here.
 */
export async function readPastPrompts({ runtime, isKept }: Opened): Promise<readonly string[]> {
  if (!isKept) return [];
  const { sessions } = await runtime.dispatch("listSessions", { limit: SESSIONS_MAX });
  const found: string[] = [];
  for (const { session_id, message_count } of sessions) {
    const offset = Math.max(0, message_count - MESSAGES_MAX);
    const { messages } = await runtime.dispatch("readHistory", { session_id, offset, limit: MESSAGES_MAX });
    const asked = messages.flatMap((message) => (message.role === "user" ? [textOf(message.content)] : []));
    found.push(...asked.reverse());
  }
  return found.filter((text) => text.trim() !== "");
}

function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}
