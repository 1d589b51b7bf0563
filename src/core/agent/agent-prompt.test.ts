import { describe, expect, it } from "vitest";
import { assembleAgentPrompt, summaryPrompt } from "./tier-text.ts";

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
