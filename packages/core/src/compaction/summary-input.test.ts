import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import type { AssistantBlock, Message } from "../contract/message.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { boundInput, prepareForSummary } from "./summary-input.ts";

const created_at = "2026-01-01T00:00:00.000Z";
const system = (content: string): Message => ({ role: "system", content, created_at });
const user = (content: string): Message => ({ role: "user", content, created_at });
const answer = (...blocks: AssistantBlock[]): Message => ({
  role: "block_assistant",
  blocks,
  stop_reason: "end_turn",
  created_at,
});
const said = (text: string): AssistantBlock => ({ block_type: "text", data: { text } });
const call = (id: string, name: string, args: Record<string, unknown> = {}): AssistantBlock => ({
  block_type: "tool_use",
  data: { id, name, args },
});
const result = (tool_use_id: string, content: string, is_error = false): Message => ({
  role: "tool_results",
  results: [{ tool_use_id, content, is_error }],
  created_at,
});
/** The text of the one user message of a bounded input. */
function excerptIn(bounded: readonly Message[]): string {
  const last = bounded.at(-1);
  return last?.role === "user" && typeof last.content === "string" ? last.content : "";
}

const anyText = fc.oneof(
  fc.string({
    unit: fc.constantFrom("a", " ", "é", "漢", "😀", "\ud83d", "\ude00", "\n", '"', "\u0001"),
    maxLength: 400,
  }),
  fc.nat({ max: 5_000 }).map((length) => "x😀".repeat(length)),
);
const anyMessage: fc.Arbitrary<Message> = fc.oneof(
  anyText.map(user),
  anyText.map((text) => user(`[Context compacted]${text}`)),
  anyText.map((body): Message => ({ role: "system_notice", kind: "note", body, created_at })),
  anyText.map((text) => answer(said(text), call("a", "shell", { text }))),
  anyText.map((text) => answer({ block_type: "server_tool_content", data: { name: "web", content: { text } } })),
  anyText.map((text) => result("a", text)),
);
const anyMessages = fc
  .tuple(fc.option(anyText.map(system)), fc.array(anyMessage, { maxLength: 40 }))
  .map(([first, rest]) => (first === null ? rest : [first, ...rest]));

describe("a bounded input", () => {
  it("[C9] is never estimated over its bound, has no broken character, and no tool pair to break", () => {
    fc.assert(
      fc.property(anyMessages, fc.oneof(fc.nat({ max: 80 }), fc.nat({ max: 3_000 })), (messages, tokensMax) => {
        const bounded = boundInput(messages, tokensMax);
        expect(estimateTokens(bounded)).toBeLessThanOrEqual(tokensMax);
        if (estimateTokens(messages) <= tokensMax) {
          expect(bounded).toEqual(messages);
          return;
        }
        expect(bounded.map(({ role }) => role).join()).toBeOneOf(["", "system", "user", "system,user"]);
        // A system message that was small enough is not ours to mend.
        const made = bounded.filter((message) => message !== messages[0]);
        expect(made.every((message) => "content" in message && String(message.content).isWellFormed())).toBe(true);
        if (tokensMax >= 50 && messages.some(({ role }) => role === "tool_results")) {
          expect(excerptIn(bounded)).not.toBe("");
        }
      }),
      { numRuns: 500 },
    );
  });

  it("[C9] is the messages themselves when they fit", () => {
    const messages = [system("be brief"), user("hi"), answer(call("a", "ls")), result("a", "x")];
    const bounded = boundInput(messages, estimateTokens(messages));
    expect(bounded.map((message, index) => message === messages[index])).toEqual([true, true, true, true]);
  });

  it("[C9] gives one huge result the room that the other messages leave", () => {
    const messages = [
      system("be brief"),
      user("count the lines"),
      answer(said("I look."), call("a", "shell", { command: "cat big" })),
      result("a", `first line\n${"x".repeat(1_000_000)}\nlast line`, true),
      { role: "system_notice", kind: "budget", body: "80 % used", created_at } as const,
      answer(said("There are three.")),
    ];
    const bounded = boundInput(messages, 1_000);
    const left = /\n\[… ([\d,]+) characters left out …\]\n/.exec(excerptIn(bounded))?.[1];
    expect(bounded[0]).toBe(messages[0]);
    expect(excerptIn(bounded).replace(/x{100,}/g, "xxx")).toBe(
      [
        "User: count the lines",
        'Assistant: I look.\nAssistant called shell with {"command":"cat big"}',
        `Result of shell (failed): first line\nxxx\n[… ${left} characters left out …]\nxxx\nlast line`,
        "Note: budget: 80 % used",
        "Assistant: There are three.",
      ].join("\n\n"),
    );
    expect(estimateTokens(bounded)).toBeGreaterThan(900);
  });

  it("[C9] shows head and tail of a long conversation, two thirds of it tail", () => {
    const messages = Array.from({ length: 3_000 }, (_, index) => user(`message ${String(index).padStart(4, "0")}`));
    const [head, missing, tail] = excerptIn(boundInput(messages, 3_000)).split(
      /\n\n\[… ([\d,]+) messages left out …\]\n\n/,
    );
    const shown = { head: head?.split("\n\n") ?? [], tail: tail?.split("\n\n") ?? [] };
    expect(shown.head[0]).toBe("User: message 0000");
    expect(shown.tail.at(-1)).toBe("User: message 2999");
    expect(Number(missing?.replace(",", ""))).toBe(3_000 - shown.head.length - shown.tail.length);
    expect(shown.tail.length / (shown.head.length + shown.tail.length)).toBeCloseTo(2 / 3, 2);
  });

  it("[C9] cuts every large message, so that several are seen", () => {
    const messages = Array.from({ length: 30 }, (_, index) => user(`${index}:${"x".repeat(50_000)}:${index}`));
    const excerpt = excerptIn(boundInput(messages, 5_000));
    expect(excerpt.match(/^User: \d+/gm)).toEqual([0, 1, 2, 24, 25, 26, 27, 28, 29].map((index) => `User: ${index}`));
    expect(excerpt).toContain("\n\n[… 21 messages left out …]\n\n");
    expect(excerpt.match(/characters left out/g)).toHaveLength(9);
    expect(excerpt.endsWith(":29")).toBe(true);
  });

  it("[C9] shows something of the newest message in the smallest room", () => {
    const messages = [user("fix the parser"), user("x".repeat(9_000)), user(`newest ${"y".repeat(9_000)}`)];
    expect(excerptIn(boundInput(messages, 50)).replace(/y{9,}/g, "yyy")).toBe(
      [
        "User: fix the parser",
        "[… 1 message left out …]",
        "User: newest yyy\n[… 8,905 characters left out …]\nyyy",
      ].join("\n\n"),
    );
  });

  it("[C9] keeps an earlier summary whole in a third of the bound, and cuts one that is larger", () => {
    const rest = Array.from({ length: 500 }, (_, index) => user(`question ${index}`));
    const small = `[Context compacted] so far:\n\n${"s".repeat(1_000)}`;
    const large = `[Context compacted] so far:\n\n${"s".repeat(9_000)} the end`;
    const ofSmall = excerptIn(boundInput([system("be brief"), user(small), ...rest], 1_000));
    const ofLarge = excerptIn(boundInput([system("be brief"), user(large), ...rest], 1_000));

    expect(ofSmall.startsWith(`${small}\n\nUser: question 0\n\n`)).toBe(true);
    const cut = ofLarge.slice(0, ofLarge.indexOf("\n\nUser: question 0\n\n"));
    expect(cut).toMatch(/^\[Context compacted\] so far:\n\ns+\n\[… [\d,]+ characters left out …\]\ns+ the end$/);
    expect(cut.length).toBeGreaterThan(1_300);
    expect(cut.length).toBeLessThanOrEqual(1_334);
  });

  it("[C9] cuts a system message that is over a quarter of the bound", () => {
    const messages = [system(`Be brief.\n${'"\n\t'.repeat(10_000)}Never lie.`), user("x".repeat(9_000))];
    const [cut] = boundInput(messages, 1_000);
    expect(cut?.role === "system" && cut.content).toMatch(
      /^Be brief\.[\s\S]+ characters left out …\][\s\S]+Never lie\.$/,
    );
    expect(estimateTokens(cut === undefined ? [] : [cut])).toBeGreaterThan(200);
    expect(estimateTokens(cut === undefined ? [] : [cut])).toBeLessThanOrEqual(250);
  });

  it("[C9] names the tool of the nearest call when ids are used twice", () => {
    const messages = [
      ...[answer(call("1", "ls")), result("1", "a")],
      ...[answer(call("1", "cat")), result("1", "b".repeat(9_000))],
      result("2", "c"),
    ];
    const labels = excerptIn(boundInput(messages, 500)).match(/^Result of [^:]+/gm);
    expect(labels).toEqual(["Result of ls", "Result of cat", "Result of an unknown tool"]);
  });

  // Quadratic time would be minutes, and no test has them.
  it("[C9] takes time in proportion to its input, also for one message of 50 MB", () => {
    const messages = [user("a"), answer(call("a", "shell")), result("a", "漢x".repeat(50 * 250_000))];
    expect(estimateTokens(boundInput(messages, 100_000))).toBeLessThanOrEqual(100_000);
  });

  it("[C9] takes time in proportion to its input, also for 200,000 messages", () => {
    const messages = Array.from({ length: 200_000 }, (_, index) => result("a", `result ${index}`));
    expect(estimateTokens(boundInput(messages, 100_000))).toBeLessThanOrEqual(100_000);
  });
});

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
