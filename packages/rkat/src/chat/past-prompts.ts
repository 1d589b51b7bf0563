import { parentageOf } from "@rkat/core/contract/describe-event";
import type { Content } from "@rkat/core/contract/message";
import type { Opened } from "../open-runtime.ts";

const SESSIONS_MAX = 30;
const MESSAGES_MAX = 60;

/**
 * The earlier prompts of the realm, newest first. They are read from the sessions, so that nothing is stored
 * twice: erased, encrypted or unstored prompts are so here, too.
 */
export async function readPastPrompts({ runtime, isKept }: Opened): Promise<readonly string[]> {
  if (!isKept) return [];
  const { sessions } = await runtime.dispatch("listSessions", { limit: SESSIONS_MAX });
  const found: string[] = [];
  for (const session of sessions) {
    // Tasks of sub-agents were written by a model.
    if (parentageOf(session) !== undefined) continue;
    const { session_id, message_count } = session;
    const offset = Math.max(0, message_count - MESSAGES_MAX);
    const { messages } = await runtime.dispatch("readHistory", { session_id, offset, limit: MESSAGES_MAX });
    const asked = messages.flatMap((message) => (message.role === "user" ? [typedText(message.content)] : []));
    found.push(...asked.reverse());
  }
  return found.filter((text) => text.trim() !== "");
}

/** The beginning of the note that the model gets about a command. */
export const RAN = "The user ran `";

/** The typed text of a message, without its files. */
export function typedText(content: Content): string {
  if (typeof content === "string") return content;
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  return texts.filter((text) => !isFile(text) && !text.startsWith(RAN)).join("\n");
}

export function isFile(text: string): boolean {
  return /^<(?:file|folder) name="/.test(text);
}

const PAST_MAX = 500;

/** The prompts of this chat and of earlier ones. */
interface Past {
  add(text: string): void;
  all(): Promise<readonly string[]>;
  /** One further back or forth; what was being typed is at the end. Undefined where there is no more. */
  step(by: -1 | 1, typed: string): Promise<string | undefined>;
}

export function createPast(load: () => Promise<readonly string[]>): Past {
  const own: string[] = [];
  let earlier: Promise<readonly string[]> | undefined;
  /** How far back one is; -1 is what is being typed. */
  let at = -1;
  let draft = "";
  const all = async (): Promise<readonly string[]> => {
    // History that cannot be read is no reason to be unable to type.
    earlier ??= load().catch(() => []);
    return [...new Set([...own, ...(await earlier)])].slice(0, PAST_MAX);
  };
  return {
    add: (text) => {
      at = -1;
      if (text.trim() === "" || own[0] === text) return;
      own.unshift(text);
      own.length = Math.min(own.length, PAST_MAX);
    },
    all,
    step: async (by, typed) => {
      const texts = await all();
      const next = at - by;
      if (next < -1 || next >= texts.length) return undefined;
      if (at === -1) draft = typed;
      at = next;
      return at === -1 ? draft : texts[at];
    },
  };
}
