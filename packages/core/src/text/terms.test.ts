import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { lettersOf, plainWords, queryTerms, termsOf } from "./terms.ts";

const found = (query: string, text: string): readonly string[] => {
  const terms = termsOf(text);
  return [...queryTerms(query).keys()].filter((term) => terms.has(term));
};

describe("terms", () => {
  it("[D5] count the words of a text by their stems, irregular forms included", () => {
    expect(termsOf("Dogs run; the dog ran.")).toEqual(
      new Map([
        ["dog", 2],
        ["run", 2],
        ["the", 1],
      ]),
    );
  });

  it("[D5] are the same for any case, width and accent", () => {
    expect(termsOf("CAFÉ Ｎａïｖｅ Straße")).toEqual(termsOf("cafe naive strasse"));
  });

  it.each([
    ["an identifier", "turnRunner", ["turnrunn", "turn", "runner"]],
    ["a path", "src/core/turn.ts", ["src/core/turn.ts", "src", "core", "turn", "ts"]],
    ["an address", "ada@example.org", ["ada@example.org", "ada", "exampl", "org"]],
    ["a version", "v2.8.1", ["v2.8.1", "v", "2", "8", "1"]],
    ["snake case", "retention_days", ["retention_days", "retent", "dai"]],
    ["a hash, and as it is abbreviated", "9ab04c1d3f2a", ["9ab04c1d3f2a", "9ab04c1"]],
    ["a short hash", "9AB04C1", ["9ab04c1"]],
    ["a word with numbers in it", "face2face", ["face2face", "face", "2"]],
  ])("[D5] keep %s whole and in its parts", (_, text, terms) => {
    expect([...termsOf(text).keys()]).toEqual(terms);
  });

  it.each([
    ["Chinese", "北京", "昨天我去了北京"],
    ["one sign of Chinese", "京", "昨天我去了北京"],
    ["Japanese", "ラーメン", "美味しいラーメンを食べた"],
    ["Korean with another ending", "한국어는", "한국어를 공부해요"],
    ["Thai", "ทะเล", "ไปเที่ยวทะเล"],
    ["Arabic without points", "كتاب", "كِتَاب جديد"],
    ["emoji", "🎉", "we did it 🎉"],
    ["a flag", "🇩🇪", "shipped to 🇫🇷 and 🇩🇪"],
  ])("[D5] find %s", (_, query, text) => {
    expect(found(query, text)).not.toEqual([]);
  });

  it.each([
    ["one flag by another", "🇩🇪", "shipped to 🇫🇷"],
    ["one emoji by how another is drawn", "❤️", "the bell ☎️ rang"],
    ["one hash by pieces of another", "3f2a9bc1d04e5f60", "9ab04c1d3f2a8e77"],
  ])("[D5] do not find %s", (_, query, text) => {
    expect(found(query, text)).toEqual([]);
  });

  it("[D5] weigh stop words little and keep them", () => {
    const weights = queryTerms("where is the harbour");
    expect(weights.get("harbour")).toBe(1);
    expect(weights.get("the")).toBeLessThan(0.5);
    expect(queryTerms("to be or not to be").size).toBe(4);
  });

  it("[D5] of a question are bounded, and none for an empty one", () => {
    const long = Array.from({ length: 50_000 }, (_, index) => `word${index}`).join(" ");
    expect(queryTerms(long).size).toBeLessThanOrEqual(128);
    expect(queryTerms(" ?! ").size).toBe(0);
  });

  it("[D5] take time in proportion to ten megabytes of one token or many", () => {
    const startedMs = performance.now();
    termsOf("x".repeat(10_000_000));
    termsOf("a/".repeat(1_000_000));
    termsOf("hello wörld src/a.ts ".repeat(200_000));
    expect(performance.now() - startedMs).toBeLessThan(20_000);
  });
});

describe("plain words", () => {
  it("[D3] are the same for texts that differ in case, spaces and marks", () => {
    expect(plainWords("  Hello,   WORLD! ")).toBe(plainWords("hello world"));
  });

  it("[L5] have other letters wherever they differ in more than case, spaces and marks", () => {
    const pieces = [
      "Caf\u00e9",
      "cafe",
      "e\u0301",
      "don't",
      "dont",
      "\u2019s",
      "STRASSE",
      "Stra\u00dfe",
      "a.b",
      "_x$",
      "\u7aef\u53e3",
      "\uff21",
      "--",
      "\ud83d\ude00",
      "42",
      "\n",
    ];
    const random = createRandom(7);
    const pick = (): string =>
      Array.from({ length: 1 + random() * 3 }, () => pieces[Math.floor(random() * pieces.length)]).join(
        random() < 0.5 ? " " : "",
      );
    for (let run = 0; run < 20_000; run += 1) {
      const [one, other] = [pick(), pick()];
      const [words, others] = [plainWords(one), plainWords(other)];
      const said = `${one} => ${other}`;
      if (words === others) expect(lettersOf(one), said).toBe(lettersOf(other));
      if (` ${words} `.includes(` ${others} `)) expect(lettersOf(one), said).toContain(lettersOf(other));
    }
    const long = "x".repeat(5_000);
    expect(lettersOf(`${long}1`)).toBe(lettersOf(`${long}2`));
  });
});
