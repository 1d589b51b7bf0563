import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore, type Runtime } from "@rkat/core/create-runtime";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { scriptedRuntime } from "../support/runtime.ts";

const TIMEOUT_MS = 120_000;
const root = mkdtempSync(join(tmpdir(), "rkat-hostile-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A runtime to which each text was said in a session of its own. */
async function reportedOf(texts: readonly string[]): Promise<Runtime> {
  const { runtime } = scriptedRuntime(() => ({ text: "Noted." }), { store: createInMemoryStore(), memory: {} });
  for (const text of texts) await runtime.createSession(text);
  return runtime;
}

/** What a search for a query puts first. */
async function first(runtime: Runtime, query: string): Promise<string | undefined> {
  return (await runtime.searchMemory(query, { everything: true })).results[0]?.content;
}

describe("text in every script", () => {
  const said = {
    chinese: "昨天我去了北京，在故宫附近的茶馆喝了龙井。",
    chineseToo: "今天回到上海，明天上午九点要开会。",
    japanese: "美味しいラーメンを新宿の小さな店で食べた。",
    korean: "한국어를 매일 아침 공부해요.",
    hebrew: "אבא הלך לשוק לקנות תפוחים אדומים",
    arabic: "ذهبت إلى المكتبة واشتريت كتابًا جديدًا",
    mixed: "\u202eThe \u200fשלום\u200e sign hangs above the door\u202c",
    party: "Release shipped 🎉 to 🇩🇪 and 🇫🇷 by 👩‍💻",
    sad: "The demo failed 😭 in 🇯🇵",
  };

  it.each([
    ["a question in Chinese", "你在茶馆喝了什么茶？", said.chinese],
    ["two words of Chinese", "北京 龙井", said.chinese],
    ["when, in Chinese", "明天几点开会？", said.chineseToo],
    ["Japanese", "新宿でラーメンを食べた店は？", said.japanese],
    ["Korean with another ending", "한국어는 언제 공부해요?", said.korean],
    ["Hebrew", "תפוחים", said.hebrew],
    ["Arabic", "المكتبة", said.arabic],
    ["a word between marks of direction", "שלום sign", said.mixed],
    ["an emoji", "🎉", said.party],
    ["an emoji made of several", "👩‍💻", said.party],
    ["a flag", "🇯🇵", said.sad],
    ["another flag", "🇫🇷", said.party],
  ])("[D5] is found by %s", async (_, query, text) => {
    expect(await first(await reportedOf(Object.values(said)), query)).toBe(text);
  });
});

describe("names of code", () => {
  const said = {
    camel: "The bug sits in parseTurnHeader of src/core/turnRunner.ts",
    snake: "max_retry_count is read by loadRetryPolicy in src/config/retry-policy.ts",
    shouting: "It ended with ERR_SOCKET_TIMEOUT at 10.0.0.12:8443",
    broken: "Commit 3f2a9bc1d04e5f60718293a4b5c6d7e8f9012345 broke the build",
    fixed: "Commit 9ab04c1d3f2a8e7760718293a4b5c6d7e8f90aaa mended it",
    reverted: "Commit 3f8b9bc1a04e5f60718293a4b5c6d7e8f9012999 was taken back",
    short: "The release was cut from c0ffee1b2",
    session: "Session 01a1e0a4-748b-76fa-92d4-21217285efcb hangs",
    sessionToo: "Session 01a1e0a4-b561-77bd-b66c-b93d65564dd4 works",
  };

  it.each([
    ["camel case", "parseTurnHeader", said.camel],
    ["camel case in words", "turn header", said.camel],
    ["a path", "src/core/turnRunner.ts", said.camel],
    ["the end of a path", "turnRunner.ts", said.camel],
    ["snake case", "max_retry_count", said.snake],
    ["snake case in words", "retry count", said.snake],
    ["the end of another path", "retry-policy", said.snake],
    ["capitals", "socket timeout", said.shouting],
    ["an address", "10.0.0.12", said.shouting],
    ["a hash", "3f2a9bc1d04e5f60718293a4b5c6d7e8f9012345", said.broken],
    ["an abbreviated hash", "9ab04c1", said.fixed],
    ["a hash abbreviated less", "3f8b9bc1a0", said.reverted],
    ["a hash of which the text has the beginning", "c0ffee1b2d3e4f5061728394a5b6c7d8e9f00112", said.short],
    ["the end of an id", "21217285efcb", said.session],
    ["the beginning of an id", "01a1e0a4-b561", said.sessionToo],
  ])("[D5] are found by %s", async (_, query, text) => {
    expect(await first(await reportedOf(Object.values(said)), query)).toBe(text);
  });

  it("[D3] [D5] one hash is no answer to another", async () => {
    const runtime = await reportedOf(Object.values(said));
    const { results } = await runtime.searchMemory("3f2a9bc1d04e5f60718293a4b5c6d7e8f9012345", { everything: true });
    expect(
      results.map(({ content, score }) => ({ content, isSure: score >= 0.7 })).filter(({ isSure }) => isSure),
    ).toEqual([{ content: said.broken, isSure: true }]);
  });
});

describe("text that is no text", () => {
  const said = [
    "lone \ud800 surrogate heron \udc00 end \udfff",
    "nul \u0000 byte \u0000 pelican",
    "\u202e egret \u2066",
  ];

  it("[D1] [D2] comes back as it was said, over a restart", async () => {
    const stateFolder = join(root, "state");
    const first = await openRuntime({ stateFolder, model: "offline", env: {} });
    for (const text of said) await first.createSession(text);
    await first.close();
    const second = await openRuntime({ stateFolder, model: "offline", env: {} });
    const found = ["heron surrogate", "nul \u0000 byte", "egret"].map(async (query) => {
      const { results } = await second.dispatch("searchHistory", { query });
      return results.find(({ role }) => role === "user")?.content;
    });
    expect(await Promise.all(found)).toEqual(said);
    await second.close();
  });

  it.each(["\ud800", "\u0000", "\udc00\ud800 \u202e", "?!", "…", "\u200b"])(
    "[D2] is answered with nothing when it is asked for: %j",
    async (query) => {
      expect((await (await reportedOf(said)).searchMemory(query, { everything: true })).results).toEqual([]);
    },
  );
});

describe("questions", () => {
  const said = ["To be or not to be.", "The pelican nests on the pier.", "We met on 8 May 2023 at the lake."];

  it.each(["", "  \n\t ", "\u3000"])("[D2] without anything in it are refused in a sentence: %j", async (query) => {
    await expect((await reportedOf(said)).searchMemory(query)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "query: write what to look for",
    });
  });

  it("[D2] made of stop words find what holds them all", async () => {
    expect(await first(await reportedOf(said), "to be or not to be")).toBe(said[0]);
    expect(await first(await reportedOf(said), "not to be")).toBe(said[0]);
  });

  it("[D2] [H5] of 100 kB are answered by how they begin, longer ones refused in a sentence", async () => {
    const runtime = await reportedOf(said);
    const noise = Array.from({ length: 20_000 }, (_, index) => `word${index}`).join(" ");
    const query = `${said[1]} ${noise}`.slice(0, 100_000);
    expect(await first(runtime, query)).toBe(said[1]);
    await expect(runtime.searchMemory(`${query}x`)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "query: write at most 100000 characters",
    });
  });

  it("[D2] [H5] are looked up by a bounded number of terms, whatever a model asks for", async () => {
    const memory = createMemoryStoreInMemory();
    const asked: number[] = [];
    const store = {
      ...memory,
      match: (...[query, scope]: Parameters<typeof memory.match>) => {
        asked.push(query.weights.size);
        return memory.match(query, scope);
      },
    };
    const days = Array.from({ length: 90_000 }, (_, day) =>
      new Date(Date.UTC(1900, 0, day)).toISOString().slice(0, 10),
    );
    const { runtime } = scriptedRuntime(
      ({ messages }) =>
        messages.at(-1)?.role === "user"
          ? { calls: [{ name: "search_project_history", args: { query: `lake ${days.join(" ")}` } }] }
          : { text: "Done." },
      { store: createInMemoryStore(), memory: { store } },
    );
    await runtime.createSession("When did we meet?");
    expect(asked).toHaveLength(1);
    // 128 words, and the dates of its first 20,000 characters.
    expect(asked[0]).toBeLessThan(2_100);
  });
});

describe("long texts", () => {
  it(
    "[D1] [H5] of ten megabytes are found by their beginning, middle and end, in a bounded number of parts",
    async () => {
      const line = (index: number): string => `Line ${index} says that the weather in village ${index * 7} was fair.\n`;
      const lines = Array.from({ length: 180_000 }, (_, index) => line(index));
      const places = { beginning: 3, middle: 90_000, end: 179_995 };
      for (const [name, index] of Object.entries(places)) lines[index] = `The ${name} hides a golden heron${name}.\n`;
      const text = lines.join("");
      expect(text.length).toBeGreaterThan(10 * 1_024 * 1_024);
      const runtime = await reportedOf(["A golden fleece.", text]);
      for (const name of Object.keys(places)) {
        const content = await first(runtime, `golden heron${name}`);
        expect(content).toContain(`golden heron${name}`);
        expect(content?.length).toBeLessThan(16_000);
      }
      const { entries } = await runtime.dispatch("readMemoryStatus", {});
      expect(entries).toBeLessThan(3_100);
    },
    TIMEOUT_MS,
  );

  it("[D1] are found by all that a model was shown of a tool's output", async () => {
    const noise = (lines: number): string => `${"x".repeat(63)}\n`.repeat(lines);
    const output = `${noise(760)}The golden heron sleeps.\n${noise(262)}`;
    const { runtime } = scriptedRuntime(
      ({ messages }) => (messages.at(-1)?.role === "user" ? { calls: [{ name: "look" }] } : { text: "Done." }),
      {
        store: createInMemoryStore(),
        memory: {},
        tools: [{ name: "look", description: "Looks.", inputSchema: { type: "object" }, execute: () => output }],
      },
    );
    await runtime.createSession("Look.");
    expect(await first(runtime, "golden heron")).toContain("golden heron");
  });
});
