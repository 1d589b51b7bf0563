import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import { estimateTokens, toolTokens } from "../core/tokens.ts";
import type { ModelRequest } from "../ports/model.ts";

/** How long providers keep what was sent, unless it is sent again. */
const CACHE_LIFE_MS = 5 * 60 * 1_000;
/** Requests whose beginnings are remembered: a turn's and those of summaries alternate. */
const REQUESTS_MAX = 4;

/** What a provider's cache makes of requests: what begins as one of those before is read, the rest is written. */
export interface PrefixCache {
  /** `counted` are the tokens of the input where somebody counted them; otherwise they are estimated. */
  take(request: ModelRequest, nowMs: number, counted?: number): Omit<Usage, "output_tokens">;
}

interface Sent {
  readonly atMs: number;
  readonly tools: string;
  readonly messages: readonly Message[];
}

export function createPrefixCache(scale: number): PrefixCache {
  let sent: readonly Sent[] = [];
  return {
    take: ({ tools, messages }, nowMs, counted) => {
      const now: Sent = { atMs: nowMs, tools: JSON.stringify(tools), messages };
      const warm = sent.filter(({ atMs }) => nowMs - atMs <= CACHE_LIFE_MS);
      const shared = Math.max(0, ...warm.map((before) => sharedTokens(before, now, toolTokens(tools))));
      const estimated = toolTokens(tools) + estimateTokens(messages);
      const input_tokens = counted ?? Math.round(estimated * scale);
      const read = estimated === 0 ? 0 : Math.floor((input_tokens * shared) / estimated);
      sent = [...warm, now].slice(-REQUESTS_MAX);
      return {
        input_tokens,
        ...(read > 0 ? { cache_read_tokens: read } : {}),
        ...(input_tokens > read ? { cache_creation_tokens: input_tokens - read } : {}),
      };
    },
  };
}

function sharedTokens(before: Sent, now: Sent, ofTools: number): number {
  if (before.tools !== now.tools) return 0;
  let tokens = ofTools;
  for (const [index, message] of now.messages.entries()) {
    const other = before.messages[index];
    if (other === undefined || !isSame(other, message)) break;
    tokens += estimateTokens([message]);
  }
  return tokens;
}

function isSame(one: Message, other: Message): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
