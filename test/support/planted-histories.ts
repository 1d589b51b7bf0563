import type { Grammar } from "@rkat/core/compaction/grammar";
import type { AssistantBlock, BlockMeta, Content, Message, StopReason, ToolResult } from "@rkat/core/contract/message";

/** A history of a kind that bricked sessions somewhere, and who refuses it. */
interface Planted {
  readonly name: string;
  readonly refusedBy: readonly Grammar[];
  readonly messages: readonly Message[];
}

const created_at = "2026-01-01T00:00:00.000Z";

export const system = (content = "be brief"): Message => ({ role: "system", content, created_at });
export const notice = (body = "the budget is nearly used up"): Message => {
  return { role: "system_notice", kind: "budget", body, created_at };
};
export const user = (content: Content = "write a parser"): Message => ({ role: "user", content, created_at });
export const answer = (...blocks: AssistantBlock[]): Message => answerThat("end_turn", ...blocks);
export const answerThat = (stop_reason: StopReason, ...blocks: AssistantBlock[]): Message => {
  return { role: "block_assistant", blocks, stop_reason, created_at };
};
export const results = (...given: (string | ToolResult)[]): Message => {
  const all = given.map((one) =>
    typeof one === "string" ? { tool_use_id: one, content: "ok", is_error: false } : one,
  );
  return { role: "tool_results", results: all, created_at };
};
export const says = (text = "done", meta?: BlockMeta): AssistantBlock => {
  return { block_type: "text", data: { text, ...(meta === undefined ? {} : { meta }) } };
};
export const thinks = (meta?: BlockMeta, text = "they want a parser"): AssistantBlock => {
  return { block_type: "reasoning", data: { text, ...(meta === undefined ? {} : { meta }) } };
};
export const calls = (id: string, meta?: BlockMeta): AssistantBlock => {
  return { block_type: "tool_use", data: { id, name: "read", args: {}, ...(meta === undefined ? {} : { meta }) } };
};

export const SIGNED: BlockMeta = { provider: "anthropic", signature: "RXVZ" };
export const GEMINI: BlockMeta = { provider: "gemini", thoughtSignature: "Q2tv" };
export const ITEM: BlockMeta = { provider: "open_ai", id: "rs_1", encrypted_content: "gAAAA" };

const SUMMARY = user("[Context compacted] they asked for a parser");
const EVERYBODY: readonly Grammar[] = ["anthropic", "openai-chat", "openai-responses", "gemini"];

/** Calls and results that do not belong together. */
const BROKEN_PAIRS: readonly Planted[] = [
  {
    // openclaw#7527, pi#4570, claude-code#14173, langchain#38352
    name: "a cut between a call and its result",
    refusedBy: EVERYBODY,
    messages: [system(), SUMMARY, results("a"), answer(says())],
  },
  {
    // vscode-unify-chat-provider#152
    name: "a call that outlived its result",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a")), user("go on")],
  },
  { name: "an open call at the end", refusedBy: EVERYBODY, messages: [user(), answer(says(), calls("a"))] },
  {
    name: "a parallel batch with one result missing",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a"), calls("b")), results("a"), answer(says())],
  },
  {
    // kimi-code#1053
    name: "a parallel batch split into two answers",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a")), answer(calls("b")), results("a", "b")],
  },
  {
    name: "the results of a batch split into two messages",
    refusedBy: ["gemini"],
    messages: [user(), answer(calls("a"), calls("b")), results("a"), results("b")],
  },
  {
    name: "a notice between the results of a batch",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a"), calls("b")), results("a"), notice(), results("b")],
  },
  {
    name: "a notice between a call and its result",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a")), notice(), results("a")],
  },
  {
    name: "a blank user message between a call and its result, which only one adapter sends",
    refusedBy: ["openai-chat"],
    messages: [user(), answer(calls("a")), user([{ type: "text", text: " " }]), results("a")],
  },
  {
    // nanobot#4442
    name: "two results of a call",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a")), results("a", "a")],
  },
  {
    // opencode#1211: "Tool execution aborted" beside the result
    name: "a second result of a call in a message of its own",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a")), results("a"), results("a")],
  },
  {
    name: "a result before its call",
    refusedBy: EVERYBODY,
    messages: [user(), results("a"), answer(calls("a")), user("go on")],
  },
  {
    name: "results of calls that were cut off and never sent",
    refusedBy: EVERYBODY,
    messages: [user(), answerThat("cancelled", says(), calls("a")), results("a")],
  },
  {
    name: "one id for two calls of a batch",
    refusedBy: EVERYBODY,
    messages: [user(), answer(calls("a"), calls("a")), results("a")],
  },
  {
    // hermes-agent#102629
    name: "one id for calls of two answers",
    refusedBy: ["anthropic", "openai-responses"],
    messages: [user(), answer(calls("a")), results("a"), answer(calls("a")), results("a")],
  },
  {
    name: "ids that become one where characters are replaced",
    refusedBy: ["anthropic"],
    messages: [user(), answer(calls("read.1"), calls("read:1")), results("read.1", "read:1")],
  },
  {
    // opencode#1279
    name: "a call without an id",
    refusedBy: ["anthropic"],
    messages: [user(), answer(calls("")), results("")],
  },
];

/** Messages where their role may not stand. */
const BROKEN_ORDER: readonly Planted[] = [
  {
    // Rapid-MLX#1543
    name: "a system message in the middle",
    refusedBy: EVERYBODY,
    messages: [system(), user(), answer(says()), system("a summary"), user("go on")],
  },
  {
    // hermes-lcm#280, hermes-agent#55427
    name: "a summary that stands first as an answer",
    refusedBy: ["anthropic", "openai-chat", "gemini"],
    messages: [system(), answer(says("a summary")), user("go on")],
  },
  {
    // coder#22819, gemini-cli#11814
    name: "a summary beside the system prompt and a tail that begins with a call",
    refusedBy: ["anthropic", "openai-chat", "gemini"],
    messages: [system(), system("a summary"), answer(calls("a")), results("a")],
  },
  {
    // gemini-cli#26956
    name: "a call right after another answer",
    refusedBy: ["gemini"],
    messages: [user(), answer(says("I will look")), answer(calls("a")), results("a")],
  },
];

/** Reasoning that is not where it was made. */
const BROKEN_REASONING: readonly Planted[] = [
  {
    name: "thinking after the call it led to",
    refusedBy: ["anthropic"],
    messages: [user(), answer(calls("a"), thinks(SIGNED), says()), results("a")],
  },
  {
    // openclaw#90108, opencode#3077
    name: "thinking after the words it led to",
    refusedBy: ["anthropic"],
    messages: [user(), answer(says("I will look"), thinks(SIGNED), calls("a")), results("a")],
  },
  {
    name: "two answers that become one when what stood between them is gone",
    refusedBy: ["anthropic"],
    messages: [user(), answer(says("I will look")), answer(thinks(SIGNED), says())],
  },
  {
    // atomic#1386, pi#9391
    name: "thinking of a running tool cycle without its signature",
    refusedBy: ["anthropic"],
    messages: [user(), answer(thinks(SIGNED), calls("a")), results("a"), answer(thinks(), calls("b")), results("b")],
  },
  {
    // vercel/ai#7883, OpenRouterTeam/ai-sdk-provider#254
    name: "a batch split into two answers that both keep the reasoning",
    refusedBy: ["openai-responses"],
    messages: [user(), answer(thinks(ITEM), calls("a")), results("a"), answer(thinks(ITEM), calls("b")), results("b")],
  },
  {
    name: "an answer that is kept twice",
    refusedBy: ["openai-responses"],
    messages: [user(), answer(thinks(ITEM), says()), user("go on"), answer(thinks(ITEM), says())],
  },
  {
    name: "two steps put together to a batch that is signed in its middle",
    refusedBy: ["gemini"],
    messages: [user(), answer(calls("a"), calls("b", GEMINI)), results("a", "b")],
  },
];

/** Content that was emptied to save tokens. */
const BROKEN_CONTENT: readonly Planted[] = [
  {
    // claude-agent-sdk-python#248
    name: "a failed call whose result was emptied",
    refusedBy: ["anthropic"],
    messages: [user(), answer(calls("a")), results({ tool_use_id: "a", content: "", is_error: true })],
  },
  {
    name: "a result with an image and a text that was emptied",
    refusedBy: ["anthropic"],
    messages: [
      user(),
      answer(calls("a")),
      results({
        tool_use_id: "a",
        content: [
          { type: "text", text: "" },
          { type: "image", source: "inline", media_type: "image/png", data: "iVBORw0KGgo=" },
        ],
        is_error: false,
      }),
    ],
  },
  {
    // openai-agents-js#1176
    name: "an image of the user without its data",
    refusedBy: EVERYBODY,
    messages: [user([{ type: "image", source: "inline", media_type: "image/png", data: "" }])],
  },
  {
    name: "an image of a tool without its data, which only one wire does not send",
    refusedBy: ["anthropic", "openai-responses", "gemini"],
    messages: [
      user(),
      answer(calls("a")),
      results({
        tool_use_id: "a",
        content: [{ type: "image", source: "inline", media_type: "image/png", data: "" }],
        is_error: false,
      }),
    ],
  },
  {
    name: "a video without its data, which only one wire is sent",
    refusedBy: ["gemini"],
    messages: [user([{ type: "video", source: "inline", media_type: "video/mp4", data: "", duration_ms: 1 }])],
  },
];

/** Histories of the kinds that bricked sessions; `docs/spec.md` C14 says that none can be committed. */
export const PLANTED: readonly Planted[] = [...BROKEN_PAIRS, ...BROKEN_ORDER, ...BROKEN_REASONING, ...BROKEN_CONTENT];
