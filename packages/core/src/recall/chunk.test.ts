import { describe, expect, it } from "vitest";
import type { Message } from "../contract/message.ts";
import { chunksOf, isProse, passageFor, splitText } from "./chunk.ts";

const created_at = "2026-11-15T12:00:00.000Z";
const place = { session_id: "s1", turn: 2, seq: 7, created_at_ms: Date.parse(created_at) };

describe("chunks of a message", () => {
  it("[D1] say where they come from", () => {
    const [chunk] = chunksOf({ role: "user", content: "The port is 6543.", created_at }, place);
    expect({ ...chunk, terms: undefined }).toEqual({
      ...place,
      part: 0,
      role: "user",
      kind: "text",
      text: "The port is 6543.",
      terms: undefined,
    });
    expect(chunk?.terms.get("6543")).toBe(1);
    expect(chunk?.terms.get("@2026-11-15")).toBe(1);
  });

  it("[D1] hold what was said and what tools were asked, and not the reasoning", () => {
    const message: Message = {
      role: "block_assistant",
      stop_reason: "tool_use",
      created_at,
      blocks: [
        { block_type: "reasoning", data: { text: "hmm" } },
        { block_type: "text", data: { text: "Let me look." } },
        { block_type: "tool_use", data: { id: "c1", name: "read", args: { path: "src/a.ts", lines: 3 } } },
      ],
    };
    expect([...chunksOf(message, place)].map(({ part, kind, text }) => ({ part, kind, text }))).toEqual([
      { part: 0, kind: "text", text: "Let me look." },
      { part: 1, kind: "tool_call", text: "read path: src/a.ts\nlines: 3" },
    ]);
  });

  it("[D1] [H5] of an endless text are its beginning and its end", () => {
    const content = `first\n${"noise and more noise\n".repeat(1_000_000)}last`;
    const chunks = [
      ...chunksOf(
        { role: "tool_results", results: [{ tool_use_id: "c1", content, is_error: false }], created_at },
        place,
      ),
    ];
    expect(chunks.length).toBeLessThan(2 * 2_048 * 1.5);
    expect(chunks.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(18_000_000);
    expect(chunks[0]?.text.startsWith("first")).toBe(true);
    expect(chunks.at(-1)?.text.endsWith("last")).toBe(true);
    expect(chunks.map(({ part }) => part)).toEqual([...chunks.keys()]);
  });
});

describe("the passage of a chunk", () => {
  const where = { ...place, part: 0, role: "user", kind: "text" } as const;
  const chunk = { ...where, id: 2, before: 1, after: 0, text: "Yes, at eight." };

  it("[D5] begins with what was said before it in its session", () => {
    const before = { ...chunk, id: 1, text: "Shall we meet tonight?" };
    expect(passageFor(chunk, before)).toBe("Shall we meet tonight?\nYes, at eight.");
    expect(passageFor(chunk, { ...before, session_id: "s2" })).toBe("Yes, at eight.");
    expect(passageFor(chunk, undefined)).toBe("Yes, at eight.");
  });

  it("[D5] takes only the end of a long one", () => {
    const passage = passageFor(chunk, { ...chunk, id: 1, text: "word ".repeat(1_000) });
    expect(passage.length).toBeLessThan(450);
  });
});

describe("prose", () => {
  it.each([
    ["English", "The clerk wrote that the sum of the month was right, and that nobody had asked for it again."],
    ["German", "Der Schreiber hielt fest, dass die Summe des Monats stimmt und niemand mehr danach gefragt hat."],
    ["Russian", "Писарь записал, что сумма за месяц верна и что больше никто о ней не спрашивал."],
    ["Arabic", "كتب الكاتب أن مجموع الشهر صحيح وأن أحدا لم يسأل عنه مرة أخرى."],
    ["Chinese", "书记员写道，本月的总额是正确的，此后再也没有人问起过这件事情，大家都放心了。"],
    ["Japanese", "書記は、その月の合計は正しく、もう誰も尋ねてこなかったと書き残していました。"],
    ["with a number", "On the third of May the port of the staging server was moved from 8080 to 9090, as agreed."],
  ])("[D5] is what is said in %s", (_, text) => {
    expect(isProse(text)).toBe(true);
  });

  it.each([
    ["a log", "2026-03-04T10:22:31.120Z INFO ledger.store row=17 amount=119.50 took=3ms trace=ab12\n".repeat(4)],
    ["code", "export function isBusy(): boolean {\n  return turns.size > 0 || now() - endedMs < CALM_MS;\n}\n"],
    ["JSON", '{"account":"savings","row":7,"sum":"12.50","currency":"EUR","tags":["a","b"]}'],
    ["a list of files", "README\nLICENSE\nsrc\ntest\ndocs\nassets\npackage\n"],
    ["a table", "name | size | time\nalpha | 12 | 3\nbeta | 9 | 4\n"],
    ["a stack", "Error: no room\n    at add (/srv/app/store.js:12:7)\n    at run (/srv/app/main.js:40:3)\n"],
    ["nothing", "  \n "],
  ])("[D5] is not %s", (_, text) => {
    expect(isProse(text)).toBe(false);
  });
});

const sentence = (index: number): string => `This is sentence number ${index} of a long message about nothing much.`;

describe("splitting a text", () => {
  it("[D1] leaves a short one whole and makes nothing of nothing", () => {
    expect(splitText("  one line ")).toEqual(["one line"]);
    expect(splitText(" \n ")).toEqual([]);
  });

  it("[D1] cuts a long one at the ends of sentences and loses none", () => {
    const sentences = Array.from({ length: 100 }, (_, index) => sentence(index));
    const parts = splitText(sentences.join(" "));
    expect(parts.every((part) => part.endsWith("."))).toBe(true);
    expect(parts.every((part) => part.length <= 960)).toBe(true);
    expect(sentences.filter((one) => !parts.some((part) => part.includes(one)))).toEqual([]);
  });

  it.each([
    ["English", "The kettle boiled, and nobody had brought any tea for the afternoon. "],
    ["Chinese", "昨天我去了北京，今天回到上海。天气很好，我们去公园散步。"],
    ["Chinese of long sentences", `${"天气很好我们去公园散步".repeat(9)}。`],
  ])("[D1] says little of %s twice", (_, text) => {
    const parts = splitText(text.repeat(1_000));
    const chars = parts.reduce((sum, part) => sum + part.length, 0);
    expect(chars / (text.length * 1_000)).toBeLessThan(1.5);
  });

  it("[D1] [H5] makes longer parts of a text without end, not more of them", () => {
    const sentences = Array.from({ length: 150_000 }, (_, index) => sentence(index));
    const parts = splitText(sentences.join(" "));
    expect(parts.length).toBeLessThan(2_048 * 1.5);
    expect(Math.max(...parts.map(({ length }) => length))).toBeLessThan(8_000);
    expect(parts.some((part) => part.includes(sentence(75_000)))).toBe(true);
  });

  it("[D1] cuts what has no ends, and no sign in two", () => {
    for (const sign of ["x", "漢", "🎉"]) {
      const parts = splitText(sign.repeat(5_000));
      expect(parts.length).toBeGreaterThan(5);
      expect(parts.join("")).toBe(sign.repeat(5_000));
      expect(parts.every((part) => part.isWellFormed())).toBe(true);
    }
  });
});
