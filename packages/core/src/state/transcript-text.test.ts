import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import type { Content, Message, ToolResultsMessage } from "../contract/message.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { applyPruned, cutText, findPrunable, headOf, leftOut, type Pruned, tailOf } from "./transcript-text.ts";

const utf8Bytes = (text: string) => Buffer.byteLength(text);
const anyText = fc.string({
  unit: fc.constantFrom("a", "é", "漢", "😀", "\ud83d", "\ude00", "\n"),
  maxLength: 300,
});

describe("cutting text", () => {
  it("[C9] keeps within its bytes and breaks no character", () => {
    fc.assert(
      fc.property(anyText, fc.nat({ max: 400 }), (text, bytesMax) => {
        for (const cut of [cutText(text, bytesMax), headOf(text, bytesMax), tailOf(text, bytesMax)]) {
          expect(utf8Bytes(cut)).toBeLessThanOrEqual(bytesMax);
          expect(cut.isWellFormed()).toBe(true);
        }
        const whole = text.toWellFormed();
        expect(whole.startsWith(headOf(text, bytesMax))).toBe(true);
        expect(whole.endsWith(tailOf(text, bytesMax))).toBe(true);
        if (utf8Bytes(whole) <= bytesMax) expect(cutText(text, bytesMax)).toBe(whole);
      }),
    );
  });

  it("[C9] says how many characters are missing between head and tail", () => {
    const cut = cutText(`${"a".repeat(10_000)}${"z".repeat(10_000)}`, 100);
    expect(cut).toBe(`${"a".repeat(31)}\n[… 19,938 characters left out …]\n${"z".repeat(31)}`);
    expect(leftOut(1, "message")).toBe("[… 1 message left out …]");
  });
});

const created_at = "2026-01-01T00:00:00.000Z";
const user: Message = { role: "user", content: "go on", created_at };
const calls = (...names: string[]): Message => ({
  role: "block_assistant",
  blocks: names.map((name, index) => ({ block_type: "tool_use", data: { id: `call_${index}`, name, args: {} } })),
  stop_reason: "tool_use",
  created_at,
});
const results = (...contents: Content[]): ToolResultsMessage => ({
  role: "tool_results",
  results: contents.map((content, index) => ({ tool_use_id: `call_${index}`, content, is_error: false })),
  created_at,
});
/** Seqs ten apart: 10, 20, 30 … */
const place = (...messages: Message[]) => messages.map((message, index) => ({ seq: (index + 1) * 10, message }));
const long = (letter: string) => letter.repeat(8_000);

describe("pruning results", () => {
  it("[C8] replaces a large result by its head, its tail and where the whole is", () => {
    const placed = place(user, calls("read", "ls"), results(`begin${long("x")}end`, "small"));
    expect(findPrunable(placed, { tokensMin: 1_000, keepTurns: 0 })).toEqual([
      {
        seq: 30,
        tool_use_id: "call_0",
        tokens: 2_002,
        content: [
          `begin${"x".repeat(195)}`,
          "[… the whole result of read (about 2,002 tokens) is in the log at seq 30, left out of the context …]",
          `${"x".repeat(197)}end`,
        ].join("\n"),
      },
    ]);
  });

  it("[C8] leaves the newest turns as they are", () => {
    const placed = place(
      ...[user, calls("a"), results(long("a"))],
      ...[user, calls("b"), results(long("b")), calls("c"), results(long("c"))],
      ...[user, calls("d"), results(long("d"))],
    );
    const seqs = (keepTurns: number) => findPrunable(placed, { tokensMin: 100, keepTurns }).map(({ seq }) => seq);
    expect([0, 1, 2, 3, 4].map(seqs)).toEqual([[30, 60, 80, 110], [30, 60, 80], [30], [], []]);
  });

  it("[C8] does not count a summary as a turn", () => {
    const summary: Message = { role: "user", content: "[Context compacted] …", created_at, compaction_id: "c1" };
    const placed = place(user, calls("a"), results(long("a")), summary, calls("b"), results(long("b")));
    expect(findPrunable(placed, { tokensMin: 100, keepTurns: 1 })).toEqual([]);
  });

  it("[C8] names the media of a result, each kind once, and drops them", () => {
    const shot = { type: "image", media_type: "image/png", source: "inline", data: "AAAA" } as const;
    const film = {
      type: "video",
      media_type: "video/mp4",
      source: "inline",
      data: "AAAA",
      duration_ms: 1_000,
    } as const;
    const placed = place(user, calls("look"), results([{ type: "text", text: "two views" }, shot, shot, film]));
    expect(findPrunable(placed, { tokensMin: 1_000, keepTurns: 0 }).map(({ content }) => content)).toEqual([
      [
        "two views",
        "[image: image/png] [video: video/mp4]",
        "[… the whole result of look (about 3,502 tokens) is in the log at seq 30, left out of the context …]",
      ].join("\n"),
    ]);
  });

  it("[C8] prunes nothing twice, and a result that only quotes a reference once", () => {
    const options = { tokensMin: 10, keepTurns: 0 };
    const first = results(long("x"));
    const once = applyPruned(first, findPrunable(place(user, calls("read"), first), options));
    expect(findPrunable(place(user, calls("read"), once), options)).toEqual([]);

    const quoting = results(`${once.results[0]?.content}${long("y")}`);
    expect(findPrunable(place(user, calls("read"), quoting), options)).toHaveLength(1);
  });

  it("[C8] finds the tool of the call before the result, and says so when there is none", () => {
    const placed = place(calls("a"), results(long("a")), calls("b"), results(long("b")), results("", long("c")));
    const names = findPrunable(placed, { tokensMin: 100, keepTurns: 0 }).map(
      ({ content }) => /whole result of (.*) \(/.exec(content)?.[1],
    );
    expect(names).toEqual(["a", "b", "an unknown tool"]);
  });

  it("[C8] always shrinks, keeps its edges short and breaks no character", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "漢", "😀", "\ud83d", "\n"), maxLength: 2_000 });
    fc.assert(
      fc.property(text, fc.string(), fc.nat({ max: 50 }), (content, name, tokensMin) => {
        const message = results(content);
        const pruned = findPrunable(place(calls(name), message), { tokensMin, keepTurns: 0 });
        const shown = applyPruned(message, pruned);
        if (pruned.length > 0) expect(estimateTokens([shown])).toBeLessThan(estimateTokens([message]));
        for (const one of pruned) {
          expect(one.content.isWellFormed()).toBe(true);
          expect(one.content.length).toBeLessThan(700);
        }
        expect(findPrunable(place(calls(name), shown), { tokensMin, keepTurns: 0 })).toEqual([]);
      }),
    );
  });

  it("[C8] applies to the named results only", () => {
    const message = results("a", "b");
    const pruned: Pruned = { seq: 1, tool_use_id: "call_1", tokens: 9, content: "short" };
    const shown = applyPruned(message, [pruned]);
    expect(shown).toEqual(results("a", "short"));
    expect(shown.results[0]).toBe(message.results[0]);
    expect(applyPruned(message, [{ ...pruned, tool_use_id: "call_7" }])).toBe(message);
    expect(applyPruned(message, [])).toBe(message);
    expect(message).toEqual(results("a", "b"));
  });
});
