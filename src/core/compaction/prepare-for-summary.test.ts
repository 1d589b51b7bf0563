import { describe, expect, it } from "vitest";
import type { AssistantBlock, Message } from "../../contract/message.ts";
import { prepareForSummary } from "./summary-input.ts";

const created_at = "2026-01-01T00:00:00.000Z";
const answer = (...blocks: AssistantBlock[]): Message => ({
  role: "block_assistant",
  blocks,
  stop_reason: "end_turn",
  created_at,
});
const said = (text: string): AssistantBlock => ({ block_type: "text", data: { text } });

describe("what a summariser is shown", () => {
  it("[C9] names media of users, tools and assistants instead of showing them", () => {
    const messages: Message[] = [
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image", media_type: "image/png", source: "inline", data: "AAAA" },
          { type: "video", media_type: "video/mp4", source: "inline", data: "AAAA", duration_ms: 9 },
        ],
        created_at,
      },
      answer({ block_type: "image", data: { media_type: "image/webp", data: "AAAA" } }),
      {
        role: "tool_results",
        results: [
          { tool_use_id: "a", content: "plain", is_error: false },
          {
            tool_use_id: "b",
            content: [{ type: "image", media_type: "image/gif", source: "blob", blob_id: "x" }],
            is_error: true,
          },
        ],
        created_at,
      },
    ];
    const before = structuredClone(messages);

    expect(prepareForSummary(messages)).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "text", text: "[image: image/png]" },
          { type: "text", text: "[video: video/mp4]" },
        ],
        created_at,
      },
      answer(said("[image: image/webp]")),
      {
        role: "tool_results",
        results: [
          { tool_use_id: "a", content: "plain", is_error: false },
          { tool_use_id: "b", content: [{ type: "text", text: "[image: image/gif]" }], is_error: true },
        ],
        created_at,
      },
    ]);
    expect(messages).toEqual(before);
  });

  it("[C9] drops reasoning, and what was signed together with it", () => {
    const messages = [
      answer(
        { block_type: "reasoning", data: { text: "hm", meta: { provider: "anthropic", signature: "s" } } },
        { block_type: "text", data: { text: "I look.", meta: { provider: "open_ai", id: "msg_1" } } },
        {
          block_type: "tool_use",
          data: { id: "a", name: "ls", args: {}, meta: { provider: "gemini", thoughtSignature: "t" } },
        },
      ),
      answer({ block_type: "server_tool_content", data: { name: "web", content: [1], meta: { provider: "unknown" } } }),
    ];
    expect(prepareForSummary(messages)).toEqual([
      answer(said("I look."), { block_type: "tool_use", data: { id: "a", name: "ls", args: {} } }),
      answer({ block_type: "server_tool_content", data: { name: "web", content: [1] } }),
    ]);
  });

  it("[C9] drops answers that are left empty, and keeps calls with their results", () => {
    const results: Message = {
      role: "tool_results",
      results: [{ tool_use_id: "a", content: "", is_error: false }],
      created_at,
    };
    const messages = [
      answer({ block_type: "reasoning", data: { text: "only a thought" } }),
      answer({ block_type: "text", data: { text: "", meta: { provider: "gemini", thoughtSignature: "t" } } }),
      answer(
        { block_type: "reasoning", data: { text: "a thought" } },
        { block_type: "tool_use", data: { id: "a", name: "ls", args: {} } },
      ),
      results,
    ];
    expect(prepareForSummary(messages)).toEqual([
      answer({ block_type: "tool_use", data: { id: "a", name: "ls", args: {} } }),
      results,
    ]);
  });

  it("[C9] gives back the same object where nothing was to change", () => {
    const messages: Message[] = [
      { role: "system", content: "be brief", created_at },
      { role: "system_notice", kind: "budget", created_at },
      { role: "user", content: [{ type: "text", text: "hi" }], created_at },
      answer(said("hello"), { block_type: "tool_use", data: { id: "a", name: "ls", args: {} } }),
      { role: "tool_results", results: [{ tool_use_id: "a", content: "x", is_error: false }], created_at },
    ];
    const prepared = prepareForSummary(messages);
    expect(prepared.map((message, index) => message === messages[index])).toEqual([true, true, true, true, true]);
  });
});
