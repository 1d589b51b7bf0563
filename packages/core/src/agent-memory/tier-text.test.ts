import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { assembleAgentPrompt, extractTier, summaryPrompt } from "./tier-text.ts";

const DAYS = Array.from({ length: 65 }, (_, at) => `Day ${at + 1}: I watered row ${at % 12} and saw the heron.`);

describe("a summary of a tier's own sentences", () => {
  it("[E3] [E4] reaches back to the first memory, however often it is made of itself", () => {
    let longterm = extractTier(["On my first day Mara gave me the brass key.", ...DAYS], 800);
    for (let round = 0; round < 200; round += 1) {
      longterm = extractTier([longterm, extractTier(DAYS, 800)], 800);
      expect(longterm.startsWith("On my first day Mara gave me the brass key.")).toBe(true);
    }
  });

  it("[E4] never joins two memories into one, with full stops or without, however often it is made of itself", () => {
    const said = Array.from(
      { length: 65 },
      (_, at) => `I saw bird number ${at * 137} near gate ${at * 31} with friend ${at}`,
    );
    let longterm = extractTier(said, 800);
    for (let round = 0; round < 20; round += 1) {
      longterm = extractTier(
        [
          longterm,
          extractTier(
            said.map((one) => `${one} of round ${round}`),
            800,
          ),
        ],
        800,
      );
      for (const line of longterm.split("\n"))
        expect(line).toMatch(/^I saw bird number \d+ near gate \d+ with friend \d+(?: of round \d+)?$/);
    }
    expect(extractTier([`A ${"very ".repeat(500)}long day`, "Short"], 200)).toMatch(/^A very .* …\nShort$/);
  });

  it("[E4] keeps what is said once before what is said every day", () => {
    const texts = [...DAYS.slice(0, 30), "Cara's locker has the code 4471.", ...DAYS.slice(30)];
    expect(extractTier(texts, 400)).toContain("Cara's locker has the code 4471.");
  });

  it("[E4] says nothing but sentences it was given, in their order, and stays within its bound", () => {
    const text = fc.array(
      fc.constantFrom("A fox came.", "It rained!", "下雨了。", "No end", "x".repeat(300), "", "- a\n- b"),
      {
        maxLength: 5,
      },
    );
    fc.assert(
      fc.property(
        fc.array(
          text.map((parts) => parts.join(" ")),
          { maxLength: 40 },
        ),
        fc.integer({ min: 50, max: 2_000 }),
        (texts, charsMax) => {
          const summary = extractTier(texts, charsMax);
          expect(summary.length).toBeLessThanOrEqual(charsMax);
          if (texts.some((one) => /[\p{L}\p{N}]/u.test(one))) expect(summary).not.toBe("");
          for (const line of summary === "" ? [] : summary.split("\n")) {
            const said = line.replace(/ …$/, "");
            expect(texts.some((one) => one.includes(said))).toBe(true);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("an agent's prompt", () => {
  it("[E5] says who it is, what it can do, its notes, older memories, the recent past, then the newest memories", () => {
    const prompt = assembleAgentPrompt({
      name: "Ada",
      profile: "A gardener who counts bees.",
      commands: ["look", "go EXIT"],
      notes: ["The pond freezes in January."],
      longtermSummary: "Ada planted the orchard.",
      recentSummary: "Ada fixed the gate.",
      immediate: ["I saw a heron.", "It flew away."],
      situation: "You are Ada in the Garden. Bees hum.\nExits: north\nAlso here: Bo",
    });
    expect(prompt).toBe(
      [
        "You are Ada. A gardener who counts bees.",
        "",
        "BASIC COMMANDS:",
        "- look",
        "- go EXIT",
        "",
        "## Relevant Private Notes",
        "The pond freezes in January.",
        "",
        "## Older Memories (Summary)",
        "Ada planted the orchard.",
        "",
        "## Recent Past (Summary)",
        "Ada fixed the gate.",
        "",
        "---",
        "I saw a heron.",
        "It flew away.",
        "---",
        "",
        "You are Ada in the Garden. Bees hum.",
        "Exits: north",
        "Also here: Bo",
        "~Ada>",
      ].join("\n"),
    );
  });

  it("[E5] leaves out headings that would stand alone", () => {
    expect(assembleAgentPrompt({ name: "Ada", commands: [], notes: [], recentSummary: " ", immediate: [] })).toBe(
      "You are Ada.\n\n---\n---",
    );
  });
});

describe("the request for a summary", () => {
  it("[E4] is a text that a base model goes on from", () => {
    expect(summaryPrompt(["I saw a heron.", "It flew away.\n"])).toBe(
      "Summarize these memories in 2-3 sentences:\n\nI saw a heron.\nIt flew away.\n\nSUMMARY:\n",
    );
  });
});
