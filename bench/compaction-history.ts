import type { EntryBody } from "@rkat/core/contract/entry";
import type { AssistantBlock, Content, Message, ToolResult } from "@rkat/core/contract/message";
import { estimateTokens } from "@rkat/core/turn/tokens";
import { type CompactionCase, compactionCorpus } from "../test/support/corpus.ts";

export const SYSTEM_PROMPT = "You are an agent with a shell. Be brief, and name files and numbers exactly.";

/** Conversations of the corpus one after the other, each time with other numbers and paths. */
export interface History {
  readonly messages: readonly Message[];
  /** Honest summaries of the newest of them, about as long as a summary may be. */
  readonly summary: string;
}

/** A history up to the first conversation that reaches a bound. */
export function tileHistory(bound: { tokens?: number; turns?: number }): History {
  const { tokens = Number.POSITIVE_INFINITY, turns = Number.POSITIVE_INFINITY } = bound;
  const corpus = compactionCorpus();
  const messages: Message[] = [];
  const summaries: string[] = [];
  let tokensNow = 0;
  let turnsNow = 0;
  for (let tile = 0; tokensNow < tokens && turnsNow < turns; tile += 1) {
    const one = corpus[tile % corpus.length];
    if (one === undefined) throw new Error("the corpus is empty");
    const more = conversationOf(one, tile);
    messages.push(...more);
    tokensNow += estimateTokens(more);
    turnsNow += more.filter(({ role }) => role === "user").length;
    summaries.push(vary(one.honest[0] ?? "", tile));
  }
  return { messages, summary: newestWithin(summaries, SUMMARY_CHARS_MAX) };
}

/** Turns of all conversations of the corpus together. */
export function corpusTurns(): number {
  const messages = compactionCorpus().flatMap((one) => conversationOf(one, 0));
  return messages.filter(({ role }) => role === "user").length;
}

/** A summary of 4,096 tokens, which is the default. */
const SUMMARY_CHARS_MAX = 16_000;

function newestWithin(summaries: readonly string[], charsMax: number): string {
  let first = summaries.length;
  for (let left = charsMax; first > 0; first -= 1) {
    left -= summaries[first - 1]?.length ?? 0;
    if (left < 0) break;
  }
  return summaries.slice(first).join("\n\n");
}

/** The conversation to its last answer: what is asked after it has none. */
function conversationOf({ messages }: CompactionCase, tile: number): Message[] {
  const end = messages.findLastIndex(({ role }) => role === "block_assistant") + 1;
  return messages
    .slice(0, end)
    .filter(({ role }) => role !== "system")
    .map((message) => varyMessage(message, tile));
}

function varyMessage(message: Message, tile: number): Message {
  switch (message.role) {
    case "system":
    case "system_notice":
      // Kept messages are known by identity: none may stand in two places.
      return { ...message };
    case "user":
      return { ...message, content: varyContent(message.content, tile) };
    case "block_assistant":
      return { ...message, blocks: message.blocks.map((block) => varyBlock(block, tile)) };
    case "tool_results":
      return {
        ...message,
        results: message.results.map(
          (result): ToolResult => ({
            ...result,
            tool_use_id: `t${tile}_${result.tool_use_id}`,
            content: varyContent(result.content, tile),
          }),
        ),
      };
  }
}

function varyContent(content: Content, tile: number): Content {
  if (typeof content === "string") return vary(content, tile);
  return content.map((block) => (block.type === "text" ? { ...block, text: vary(block.text, tile) } : block));
}

function varyBlock(block: AssistantBlock, tile: number): AssistantBlock {
  if (block.block_type === "text") return { ...block, data: { ...block.data, text: vary(block.data.text, tile) } };
  if (block.block_type !== "tool_use") return block;
  const args = JSON.parse(vary(JSON.stringify(block.data.args), tile));
  return { ...block, data: { ...block.data, id: `t${tile}_${block.data.id}`, args } };
}

const FILE = /(?<![\w./:-])(?:[\w-]+\/)*[\w-]+\.(?:ts|py|go|sql|ya?ml|json|md|csv|log|txt|pdf|toml|conf)\b/g;
/** Not years, and nothing with leading zeros: a date stays a date, and JSON stays JSON. */
const NUMBER = /(?<![\d.,])(?!(?:19|20)\d\d(?!\d))[1-9]\d{2,8}(?!\d)/g;

/** The same text about other files and other numbers; the same change wherever a tile says the same. */
function vary(text: string, tile: number): string {
  if (tile === 0) return text;
  return text
    .replace(FILE, (path) => `pkg${tile}/${path}`)
    .replace(NUMBER, (digits) => {
      const least = 10 ** (digits.length - 1);
      return String(least + ((Number(digits) - least + tile * 7_919) % (9 * least)));
    });
}

/** The entry a message is in. */
export function bodyOf(message: Message, inputTokens: number): EntryBody {
  switch (message.role) {
    case "system":
      return { kind: "imported", message };
    case "user":
      return { kind: "turn_opened", message };
    case "system_notice":
      return { kind: "notice", message };
    case "block_assistant":
      return { kind: "assistant", message, usage: { input_tokens: inputTokens, output_tokens: 100 } };
    case "tool_results":
      return {
        kind: "tool_results",
        message,
        calls: message.results.map(() => ({ name: "shell", duration_ms: 1, counted: true })),
      };
  }
}
