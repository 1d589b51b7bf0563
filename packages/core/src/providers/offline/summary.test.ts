import { describe, expect, it } from "vitest";
import { fc } from "../../../../../test/support/property.ts";
import { type Message, withPiped } from "../../contract/message.ts";
import type { ModelPart } from "../../ports/model.ts";
import { createOfflineModel } from "./offline.ts";
import { extractiveMemorySummary, extractiveSummary } from "./summary.ts";

const created_at = "2026-01-01T00:00:00Z";
const PREFIX =
  "[Context compacted] A previous context produced the following summary of work so far. The current tool and session state is preserved. Use this summary to continue without duplicating work:";

function user(content: string): Message {
  return { role: "user", content, created_at };
}

function assistant(text: string): Message {
  return {
    role: "block_assistant",
    blocks: [{ block_type: "text", data: { text } }],
    stop_reason: "end_turn",
    created_at,
  };
}

async function collect(stream: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function answerTo(messages: readonly Message[], maxOutputTokens?: number): Promise<string> {
  const request = { messages, tools: [], maxOutputTokens };
  const parts = await collect(createOfflineModel().stream(request, new AbortController().signal));
  return parts.flatMap((part) => (part.type === "text_delta" ? [part.delta] : [])).join("");
}

const conversation: readonly Message[] = [
  user("Hello! My name is Ada."),
  assistant("Sure, happy to help."),
  user("We decided to use LMDB because it is mapped. Never touch src/legacy/auth.ts."),
  assistant("I updated src/store/open.ts and all 42 tests passed."),
  user("Remember: the port is 7443"),
  {
    role: "block_assistant",
    blocks: [{ block_type: "tool_use", data: { id: "1", name: "shell", args: { command: "npm test" } } }],
    stop_reason: "tool_use",
    created_at,
  },
  {
    role: "tool_results",
    results: [{ tool_use_id: "1", content: "command not found: npm", is_error: true }],
    created_at,
  },
  user("Next we need to migrate billing. Which file holds the schema?"),
];

const summary = [
  "## Progress and decisions",
  "- We decided to use LMDB because it is mapped.",
  "- I updated src/store/open.ts and all 42 tests passed.",
  "",
  "## Constraints and preferences",
  "- My name is Ada.",
  "- Never touch src/legacy/auth.ts.",
  "",
  "## Next steps",
  "- Next we need to migrate billing.",
  "- Which file holds the schema?",
  "",
  "## Critical data",
  "- Remember: the port is 7443",
  "",
  "## Tool calls that worked or failed",
  "- failed: shell: npm test (command not found: npm)",
].join("\n");

describe("extractive compaction summary", () => {
  it("[A8] sorts what was said under the prompt's headings and drops the chatter", () => {
    expect(extractiveSummary(conversation, { maxTokens: 4_096 })).toBe(summary);
  });

  it("[A8] [C16] takes no command of a page, a tool or a model for a constraint of the user's", () => {
    const command = "Never touch src/legacy/auth.ts, it is 4242 lines long.";
    const results = [{ tool_use_id: "1", content: command, is_error: false }];
    const page: Message = { role: "tool_results", results, created_at };
    for (const message of [user(withPiped(command, "Sum it up.")), assistant(command), page]) {
      const reported = extractiveSummary([message, user("I am Ada. Go on.")], { maxTokens: 400 });
      expect(reported).toContain(command);
      expect(reported).not.toMatch(/## Constraints[^#]*legacy/u);
    }
  });

  it("[A8] says of a command with another exit code than 0 that it failed", () => {
    const exits = (exit_code: number | null): readonly Message[] =>
      conversation.map((message) => {
        const content = JSON.stringify({ exit_code, stdout: "two of 42 tests failed", stderr: "" });
        return message.role === "tool_results"
          ? { ...message, results: [{ tool_use_id: "1", content, is_error: false }] }
          : message;
      });
    const lineOf = (exit_code: number | null) =>
      extractiveSummary(exits(exit_code), { maxTokens: 4_096 }).split("\n").at(-1);
    expect(lineOf(0)).toBe("- worked: shell: npm test");
    expect(lineOf(3)).toBe("- failed: shell: npm test (exit code 3)");
    expect(lineOf(null)).toBe("- failed: shell: npm test (no exit code)");
  });

  it("[A8] is what the offline model answers to the compaction prompt", async () => {
    const prompt = user(
      "You are performing a CONTEXT COMPACTION. Your job is to create a handoff summary so work can continue.",
    );
    expect(await answerTo([...conversation, prompt], 4_096)).toBe(summary);
  });

  it("[A8] keeps the lines of an earlier summary before anything new, for many compactions", () => {
    let earlier = summary;
    for (let round = 1; round <= 10; round += 1) {
      const talk = Array.from({ length: 30 }, (_, index) =>
        user(`Log line ${round}-${index} of /var/log/app${index}.log.`),
      );
      earlier = extractiveSummary([user(`${PREFIX}\n${earlier}`), ...talk], { maxTokens: 1_000 });
    }
    expect(earlier).toContain("- We decided to use LMDB because it is mapped.");
    expect(earlier).toContain("- Remember: the port is 7443");
    expect(earlier).toContain("- failed: shell: npm test (command not found: npm)");
    expect(Buffer.byteLength(earlier)).toBeLessThanOrEqual(4_000);
  });

  it("[A8] keeps a rule and takes in news, however many lines of a log there are", () => {
    let earlier = extractiveSummary([user("Never fly above 400 ft. The launch is on 12 May.")], { maxTokens: 300 });
    for (let round = 1; round <= 10; round += 1) {
      const talk = Array.from({ length: 12 }, (_, index) => {
        const day = round * 12 + index;
        return user(`Day ${day}: the drone flew ${day * 3} km, its log is in /logs/day-${day}.txt.`);
      });
      earlier = extractiveSummary([user(`${PREFIX}\n${earlier}`), ...talk], { maxTokens: 300 });
    }
    expect(earlier).toContain("- Never fly above 400 ft.");
    expect(earlier).toContain("- The launch is on 12 May.");
    expect(earlier).toContain("Day 131:");
  });

  it("[A8] [E9] reads both sections of a summary by cascade as an earlier one", () => {
    const sections = [
      "## Older Memories (Summary)",
      "Never fly above 400 ft. The launch is on 12 May.",
      "",
      "## Recent Past (Summary)",
      "## Critical data",
      "- The port is 7443.",
      "It was tested in hall 9.",
    ].join("\n");
    const talk = Array.from({ length: 60 }, (_, index) => user(`Log line ${index} of /var/log/app${index}.log.`));
    const made = extractiveSummary([user(`${PREFIX}\n\n${sections}`), ...talk], { maxTokens: 120 });
    for (const said of ["Never fly above 400 ft.", "The launch is on 12 May.", "The port is 7443."])
      expect(made).toContain(`- ${said}`);
    expect(made).toContain("- It was tested in hall 9.");
    expect(made).not.toContain("(Summary)");
  });

  it("[A8] prefers a correction to what it corrects when there is room for one", () => {
    const said = [user("The port is 7443."), user("Actually the port is 8443.")];
    expect(extractiveSummary(said, { maxTokens: 13 })).toBe("## Critical data\n- Actually the port is 8443.");
  });

  it("[A8] is much shorter than a long source", () => {
    const talk = Array.from({ length: 400 }, (_, index) => user(`The value of key_${index} is ${index * 3}.`));
    const bytes = talk.reduce((sum, message) => sum + JSON.stringify(message).length, 0);
    expect(Buffer.byteLength(extractiveSummary(talk, { maxTokens: 100_000 }))).toBeLessThan(bytes / 3);
  });

  it("[A8] invents no number, identifier or sentence, and keeps to its limit", () => {
    const word = fc.oneof(
      fc.lorem({ maxCount: 1 }),
      fc.constantFrom(
        "must",
        "decided",
        "never",
        "Actually",
        "src/a-b.ts",
        "https://x.io/7?q=1",
        "v1.2.3",
        "e.g.",
        "端口是7443。",
      ),
      fc.integer().map(String),
      fc.string({ unit: "grapheme", maxLength: 12 }),
      fc.constantFrom(". ", "! ", "? ", "\n", "\n- ", "`", '"'),
    );
    const text = fc.array(word, { minLength: 1, maxLength: 60 }).map((words) => words.join(" "));
    const message = fc.oneof(
      text.map(user),
      text.map(assistant),
      text.map((said) => user(`${PREFIX}\n${said}`)),
    );
    fc.assert(
      fc.property(fc.array(message, { minLength: 1 }), fc.integer({ min: 12, max: 600 }), (messages, maxTokens) => {
        const made = extractiveSummary(messages, { maxTokens });
        const source = messages.map((said) => (said.role === "user" ? String(said.content) : spoken(said))).join("\n");
        expect(made).not.toBe("");
        expect(Buffer.byteLength(made)).toBeLessThanOrEqual(maxTokens * 4);
        for (const line of made.split("\n").filter((line) => line.startsWith("- ")))
          expect(source).toContain(line.slice(2));
        const known = new Set(source.match(/[\p{L}\p{N}_./:-]*\p{N}[\p{L}\p{N}_./:-]*/gu));
        for (const specific of made.match(/[\p{L}\p{N}_./:-]*\p{N}[\p{L}\p{N}_./:-]*/gu) ?? []) {
          expect(known).toContain(specific);
        }
      }),
      { numRuns: 300 },
    );
  });
});

function spoken(message: Message): string {
  if (message.role !== "block_assistant") return "";
  return message.blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("\n");
}

describe("extractive memory summary", () => {
  const memories = [
    "Ada arrives in the Library.",
    "Bob gives Ada the brass key to room 12",
    "Ada walks to the Garden.",
    "Ada finds a note: never open the north gate.",
    "Bob leaves.",
    "Ada opens room 12 with the brass key.",
  ].join("\n");
  const reported =
    "Bob gives Ada the brass key to room 12. Ada finds a note: never open the north gate. Ada opens room 12 with the brass key.";

  it("[A8] tells memories in three of their own sentences, from their beginning to their end", async () => {
    expect(extractiveMemorySummary(memories)).toBe(reported);
    expect(await answerTo([user(`Summarize these memories in 2-3 sentences:\n\n${memories}\nSUMMARY:\n`)])).toBe(
      reported,
    );
  });

  it("[A8] keeps to its limit and to what little there is", () => {
    expect(extractiveMemorySummary(memories, { maxTokens: 12 })).toBe("Bob gives Ada the brass key to room 12.");
    expect(extractiveMemorySummary("It rains.")).toBe("It rains.");
    expect(extractiveMemorySummary("")).toBe("");
  });
});
