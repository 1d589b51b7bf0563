import type {
  AssistantBlock,
  BlockMeta,
  Content,
  ContentBlock,
  Message,
  StopReason,
  ToolResult,
  ToolUseBlock,
} from "@rkat/core/contract/message";
import { INTERRUPTED } from "@rkat/core/turn/tool-batch";

/** Numbers in [0, 1); `test/crash/random.ts` makes them from a seed. */
export type Random = () => number;

/**
 * A history as sessions have them, the same for the same numbers: turns on models of every provider, with parallel
 * tools, media, notices, reasoning, cut-off answers and calls a crash left open. Every provider takes it as it is.
 */
export function randomHistory(random: Random, options: { turnsMax?: number } = {}): Message[] {
  const writing: Writing = { random, messages: [], count: 0 };
  if (chance(random, 0.7)) writing.messages.push({ role: "system", content: "be brief", created_at });
  if (chance(random, 0.2)) addUser(writing, "[Context compacted] they asked for a parser in src/parse.ts");
  const turns = 1 + below(random, options.turnsMax ?? 6);
  for (let turn = 0; turn < turns; turn += 1) addTurn(writing, turn === turns - 1);
  if (chance(random, 0.1)) addNotice(writing);
  return writing.messages;
}

const created_at = "2026-01-01T00:00:00.000Z";
const STEPS_MAX = 4;
const CALLS_MAX = 3;

interface Writing {
  readonly random: Random;
  readonly messages: Message[];
  /** What ids are made of: each is used once. */
  count: number;
}

/** Whose model answers; a session may change it between turns. */
type Speaker = "anthropic" | "openai" | "google" | "plain" | "other";
const SPEAKERS: readonly Speaker[] = ["anthropic", "openai", "google", "plain", "other"];

/** A turn to its end, or, when it is the last, maybe only to the moment before a call of the model. */
function addTurn(writing: Writing, isLast: boolean): void {
  const { random } = writing;
  const speaker = pick(random, SPEAKERS);
  while (chance(random, 0.2)) addNotice(writing);
  addUser(writing, randomContent(writing));
  const steps = below(random, STEPS_MAX);
  for (let step = 0; step < steps; step += 1) {
    addExchange(writing, speaker);
    if (chance(random, 0.15)) addNotice(writing);
  }
  if (isLast && chance(random, 0.4)) return;
  addEnding(writing, speaker);
}

function addNotice({ random, messages }: Writing): void {
  const body = chance(random, 0.7) ? { body: "the budget is nearly used up" } : {};
  messages.push({ role: "system_notice", kind: "instructions", ...body, created_at });
}

function addUser({ messages }: Writing, content: Content): void {
  messages.push({ role: "user", content, created_at });
}

/** An answer with calls, and their results. */
function addExchange(writing: Writing, speaker: Speaker): void {
  const { random } = writing;
  const calls: ToolUseBlock[] = [];
  const asked = 1 + below(random, CALLS_MAX);
  for (let index = 0; index < asked; index += 1) calls.push(randomCall(writing, speaker, index));
  const said = chance(random, 0.5) ? [textBlock(writing, speaker)] : [];
  addAnswer(
    writing,
    [...thoughts(writing, speaker), ...said, ...calls],
    chance(random, 0.95) ? "tool_use" : "max_tokens",
  );
  // A crash leaves all calls of an answer open; the next turn closes them before it says anything.
  const isCrash = chance(random, 0.1);
  const results = calls.map(({ data }) => (isCrash ? interrupted(data.id) : randomResult(random, data.id)));
  writing.messages.push({ role: "tool_results", results, created_at });
}

function addAnswer({ messages }: Writing, blocks: AssistantBlock[], stop_reason: StopReason): void {
  messages.push({ role: "block_assistant", blocks, stop_reason, created_at });
}

/** How a turn ends: said all, was cut off, had nothing to add, or failed before a word. */
function addEnding(writing: Writing, speaker: Speaker): void {
  const { random } = writing;
  const share = random();
  if (share < 0.7) addAnswer(writing, finalBlocks(writing, speaker), pick(random, ENDS));
  else if (share < 0.8) addAnswer(writing, [{ block_type: "text", data: { text: "the parser is" } }], "cancelled");
  else if (share < 0.85) addAnswer(writing, [], "end_turn");
  else if (share < 0.9) addAnswer(writing, thoughts(writing, speaker), "max_tokens");
}

const ENDS: readonly StopReason[] = ["end_turn", "end_turn", "max_tokens", "stop_sequence", "content_filter"];

function finalBlocks(writing: Writing, speaker: Speaker): AssistantBlock[] {
  const { random } = writing;
  const blocks = [...thoughts(writing, speaker), textBlock(writing, speaker)];
  if (chance(random, 0.2)) {
    blocks.push(serverTool(writing), ...thoughts(writing, speaker), textBlock(writing, speaker));
  }
  if (chance(random, 0.1))
    blocks.push({ block_type: "image", data: { media_type: "image/png", data: "iVBORw0KGgo=" } });
  // Gemini ends some answers with an empty text that carries a signature.
  if (speaker === "google" && chance(random, 0.3)) {
    blocks.push({ block_type: "text", data: { text: "", meta: { provider: "gemini", thoughtSignature: "c2ln" } } });
  }
  return blocks;
}

function serverTool(writing: Writing): AssistantBlock {
  const content = { input: { query: "parser combinators" } };
  return { block_type: "server_tool_content", data: { id: newId(writing, "srvtoolu_"), name: "web_search", content } };
}

function textBlock(writing: Writing, speaker: Speaker): AssistantBlock {
  const text = pick(writing.random, TEXTS);
  if (speaker !== "openai") return { block_type: "text", data: { text } };
  return { block_type: "text", data: { text, meta: { provider: "open_ai", id: newId(writing, "msg_") } } };
}

const TEXTS: readonly string[] = ["I will look.", "The parser is in src/parse.ts, line 40.", "Done.\n", "好的 👍"];

/** What a model thought before it spoke; not every answer has any. */
function thoughts(writing: Writing, speaker: Speaker): AssistantBlock[] {
  const { random } = writing;
  if (chance(random, 0.5)) return [];
  const text = chance(random, 0.2) ? "" : "they want a parser";
  const meta = thoughtMeta(writing, speaker);
  const thought: AssistantBlock = { block_type: "reasoning", data: { text, ...(meta === undefined ? {} : { meta }) } };
  if (speaker === "openai" && chance(random, 0.3)) return [thought, thought]; // Two parts of one item.
  if (speaker !== "anthropic" || chance(random, 0.8)) return [thought];
  return [
    thought,
    { block_type: "reasoning", data: { text: "", meta: { provider: "anthropic_redacted", data: "cmVk" } } },
  ];
}

function thoughtMeta(writing: Writing, speaker: Speaker): BlockMeta | undefined {
  switch (speaker) {
    case "anthropic":
      return { provider: "anthropic", signature: "RXVZ" };
    case "openai": {
      const encrypted = chance(writing.random, 0.8) ? { encrypted_content: "gAAAA" } : {};
      return { provider: "open_ai", id: newId(writing, "rs_"), ...encrypted };
    }
    case "google":
      return { provider: "gemini", thoughtSignature: "Q2tv" };
    case "plain":
      return undefined;
    case "other":
      return { provider: "unknown", metadata: { bedrock: { signature: "c2ln" } } };
  }
}

function randomCall(writing: Writing, speaker: Speaker, index: number): ToolUseBlock {
  // Some servers make ids of characters that Anthropic does not take; the adapter replaces them.
  const id = newId(writing, speaker === "plain" ? "functions.read:" : "call_");
  const meta = callMeta(writing, speaker, index);
  const isBroken = chance(writing.random, 0.05);
  const args = isBroken ? { raw_arguments: "{pa" } : { path: "src/parse.ts" };
  const fault = isBroken ? { args_error: "the arguments are no JSON" } : {};
  return {
    block_type: "tool_use",
    data: { id, name: "read", args, ...fault, ...(meta === undefined ? {} : { meta }) },
  };
}

function callMeta(writing: Writing, speaker: Speaker, index: number): BlockMeta | undefined {
  if (speaker === "openai") return { provider: "open_ai", id: newId(writing, "fc_") };
  // Of parallel calls Gemini signs the first.
  return speaker === "google" && index === 0 ? { provider: "gemini", thoughtSignature: "Q2Fs" } : undefined;
}

function interrupted(tool_use_id: string): ToolResult {
  return { tool_use_id, content: INTERRUPTED, is_error: true };
}

function randomResult(random: Random, tool_use_id: string): ToolResult {
  if (chance(random, 0.1)) return { tool_use_id, content: "ENOENT: src/parse.ts", is_error: true };
  if (chance(random, 0.1)) return { tool_use_id, content: "", is_error: false };
  if (chance(random, 0.8)) return { tool_use_id, content: "export function parse() {}", is_error: false };
  return { tool_use_id, content: [{ type: "text", text: "a screenshot" }, randomMedia(random)], is_error: false };
}

function randomContent({ random }: Writing): Content {
  if (chance(random, 0.8)) return "please write a parser";
  return [{ type: "text", text: "what is on this?" }, randomMedia(random)];
}

function randomMedia(random: Random): ContentBlock {
  return pick(random, MEDIA);
}

const MEDIA: readonly ContentBlock[] = [
  { type: "image", source: "inline", media_type: "image/png", data: "iVBORw0KGgo=" },
  { type: "image", source: "blob", media_type: "image/jpeg", blob_id: "b1" },
  { type: "video", source: "inline", media_type: "video/mp4", data: "AAAAIGZ0eXA=", duration_ms: 1_500 },
];

function newId(writing: Writing, prefix: string): string {
  writing.count += 1;
  return `${prefix}${writing.count}`;
}

function chance(random: Random, share: number): boolean {
  return random() < share;
}

function below(random: Random, bound: number): number {
  return Math.floor(random() * bound);
}

function pick<T>(random: Random, from: readonly T[]): T {
  const picked = from[below(random, from.length)];
  if (picked === undefined) throw new Error("there is nothing to pick from");
  return picked;
}
