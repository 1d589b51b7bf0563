import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { cleanSummary } from "./clean-summary.ts";
import { summaryPrompt } from "./tier-text.ts";

const ADA = "Ada found the brass key in the garden. Bob told her never to open the north gate.";

describe("a summary a model wrote", () => {
  const used: readonly (readonly [string, string, string])[] = [
    ["is trimmed", `  \n${ADA}\n\n`, ADA],
    ["loses the cue it begins with", `SUMMARY:\n${ADA}`, ADA],
    ["loses the cue in another dress", `**Summary:** ${ADA}`, ADA],
    ["loses a heading that says summary", `### Summary\n${ADA}`, ADA],
    ["loses a title, where it would be taken for a new task", `### The garden\n${ADA}`, ADA],
    ["ends where the prompt begins again", `${ADA}\n\n${summaryPrompt(["Cleo came."])}Cleo came.`, ADA],
    ["ends where the cue comes again", `${ADA}\nSUMMARY:\nAda is a cat.`, ADA],
    ["ends where a transcript begins", `${ADA}\nUser: and then?\nAssistant: I do not know.`, ADA],
    ["ends where a transcript begins on its line", `${ADA} User: and then? Assistant: I do not know.`, ADA],
    ["ends where a question begins", `${ADA}\n\nQ: Who found the key?\nA: Ada.`, ADA],
    ["ends where an exercise begins", `${ADA}\n### Instruction:\nWrite a poem.`, ADA],
    ["ends where another task begins", `${ADA}\nSummarize the following text: Once upon a time`, ADA],
    [
      "keeps what is finished before another task, full stop or not",
      "It rained. Ada left\nUser: hi",
      "It rained. Ada left",
    ],
    ["loses an announcement", `Here is a summary of the memories:\n\n${ADA}`, ADA],
    ["loses an announcement on its line", `Sure! Here's a 2-3 sentence summary: ${ADA}`, ADA],
    ["loses an announcement without a colon", `Here is a summary of these memories in 2-3 sentences. ${ADA}`, ADA],
    ["loses a yes", `Certainly!\n\n${ADA}`, ADA],
    ["loses a yes before the cue", `Sure!\nSUMMARY:\n${ADA}`, ADA],
    ["loses an announcement with its ground", `Based on the memories, here is a summary:\n${ADA}`, ADA],
    ["loses what a model says of itself", `As an AI language model, I do not have memories. ${ADA}`, ADA],
    ["loses a wish", `${ADA} I hope this helps!`, ADA],
    ["loses an offer", `${ADA}\n\nLet me know if you need anything else.`, ADA],
    ["loses a note on itself", `${ADA}\n\n(Note that this summary leaves out the weather.)`, ADA],
    ["loses a praise of itself", `${ADA} This summary captures the key points of the memories.`, ADA],
    ["loses several of them", `Sure. ${ADA} Note: This summary is short. Is there anything else you need?`, ADA],
    ["says a sentence once", `${ADA} ${ADA}\nbob told her  never to open the NORTH gate.`, ADA],
    [
      "says an item once",
      "- Ada left.\n- Bob left.\n- Ada left.\n- Cleo came.",
      "- Ada left.\n- Bob left.\n- Cleo came.",
    ],
    ["says a numbered item once", "1. Ada left.\n2. Ada left.\n3. Bob left.", "1. Ada left.\n3. Bob left."],
    ["keeps two sentences before a loop", `${ADA} ${"She was happy. ".repeat(90)}She was ha`, `${ADA} She was happy.`],
    ["folds a word", "Ada said no, no, no, no, no. Then she left.", "Ada said no. Then she left."],
    ["folds a phrase", `It rained. They ran ${"on and on and ".repeat(4)}away.`, "It rained. They ran on and away."],
    ["folds a phrase up to its end", `${ADA} They walked ${"and they talked ".repeat(50)}and they ta`, ADA],
    ["drops a sentence without an end", `${ADA} The next day they`, ADA],
    [
      "drops an item without an end where the others have one",
      "- Ada left.\n- Bob left.\n- Cleo we",
      "- Ada left.\n- Bob left.",
    ],
    ["keeps the only sentence, ended or not", "Ada found the brass key in the", "Ada found the brass key in the"],
    [
      "drops a sentence without an end in Chinese",
      "艾达找到了钥匙。鲍勃离开了。然后她",
      "艾达找到了钥匙。鲍勃离开了。",
    ],
    ["says a sentence once in Japanese", "雨が降った。彼女は去った。雨が降った。", "雨が降った。彼女は去った。"],
    ["folds a phrase in Chinese", "她说不要，不要，不要，不要，不要！然后她走了。", "她说不要！然后她走了。"],
    ["keeps a line break where a sentence stood", "A came. B came.\n\nA came. C came.", "A came. B came.\n\nC came."],
  ];
  it.each(used)("[E4] %s", (_name, written, summary) => {
    expect(cleanSummary(written)).toBe(summary);
  });

  const useless: readonly (readonly [string, string])[] = [
    ["nothing", ""],
    ["blanks", " \n\t "],
    ["signs alone", "--- *** … ！"],
    ["the prompt itself", summaryPrompt(["Ada found the key."])],
    ["the cue alone", "SUMMARY:"],
    ["a transcript", "User: hello\nAssistant: hello"],
    ["an exercise", "### Instruction:\nWrite a poem about a key."],
    ["a yes alone", "Sure!"],
    ["an announcement alone", "Here is a summary of the memories:"],
    ["a refusal", "I'm sorry, but I can't help with that."],
    ["talk of itself alone", "As an AI language model, I have no memories. I hope this helps."],
    ["one word in a loop", "the ".repeat(500)],
    ["one sentence in a loop", "I do not know. ".repeat(200)],
    ["an unended loop", `They ran ${"and ran ".repeat(400)}`],
    ["a loop in Chinese", "我不知道。".repeat(50)],
  ];
  it.each(useless)("[E4] is unusable when it is %s", (_name, written) => {
    expect(cleanSummary(written)).toBe("");
  });

  const honest: readonly (readonly [string, string])[] = [
    ["a list", "They did three things:\n- read the notes\n- opened room 12\n- told Bob"],
    ["a sentence and a list without full stops", "Two things are open. Next:\n- the parser\n- the lexer"],
    ["a numbered list", "1. Ada read the notes.\n2. Bob opened room 12.\n3. They left."],
    ["a quotation", 'Bob said: "Let me know if you need the key." Ada said no. "I hope this helps," said Bob.'],
    ["abbreviations", "Dr. Lovelace met Mr. Bob, e.g. in the garden. They left at approx. 9 p.m. on 12 May."],
    ["numbers", "The pump runs at 1.5 bar and 0.25 l/s. Version 1.5.2 binds to 0.0.0.0:8080."],
    ["rows of numbers", "The mask is 0 0 0 0 1 1 1 1. It is 1.5 1.5 1.5 1.5 wide."],
    ["a note that is one", "Note that the key is under the mat. Note: the summary page is broken."],
    ["a user in a sentence", "The user: Ada. She asked the user group to summarize these things for Q: the quarter."],
    ["a word said three times", "Location, location, location. Ada said no, no, no."],
    ["an AI engineer", "As an AI engineer, Ada trains models. She is sure of it: great things take time."],
    ["a plain beginning", "Sure enough, Ada came. Great care was taken. This is a summary offence."],
    ["a summary somebody sent", "Ada wrote the summary of the trial. This summary was sent to Bob."],
    ["paragraphs", "Ada came.\n\nBob left.  He took the key!\n\nWho has it now?"],
    ["a table", "| who | where |\n| --- | --- |\n| Ada | garden |\n| Bob | gate |"],
    ["code", "Run this first.\n```sh\nnpm ci\nnpm test\n```"],
    ["two codes", "```\na\n```\n```\nb\n```"],
    ["German", "Ada fand z. B. den Schlüssel. Am 3. Mai ging sie."],
    ["Chinese", "艾达找到了钥匙。鲍勃说：“不要打开北门！”她走了。"],
    ["Arabic", "وجدت آدا المفتاح. ثم غادرت."],
    ["emoji", "Ada smiled 😀. Bob did not."],
    ["one word", "Rain"],
  ];
  it.each(honest)("[E4] is left as it is: %s", (_name, written) => {
    expect(cleanSummary(written)).toBe(written);
  });

  it("[E4] is at most 4,000 characters long and ends with a sentence", () => {
    const sentences = Array.from({ length: 400 }, (_, index) => `On day ${index} they walked.`);
    const cleaned = cleanSummary(sentences.join(" "));
    expect(cleaned.length).toBeGreaterThan(3_900);
    expect(cleaned.length).toBeLessThanOrEqual(4_000);
    expect(sentences.join(" ").startsWith(cleaned)).toBe(true);
    expect(cleaned.endsWith("walked.")).toBe(true);
    const words = Array.from({ length: 2_000 }, (_, index) => `word${index}`).join(" ");
    expect(cleanSummary(words)).toMatch(/^word0 word1 .* word\d+$/);
    expect(cleanSummary("𝔘".repeat(2_100)).isWellFormed()).toBe(true);
  });

  const large: readonly (readonly [string, string])[] = [
    ["words", "lorem ipsum dolor "],
    ["open brackets", "(a. "],
    ["quotes", '"a. '],
    ["full stops", "."],
    ["blanks", " "],
    ["lines", "a\n"],
    ["marks that are none", "xUser: "],
    ["one letter", "a"],
    ["nearly a loop", "a a a b a a a c "],
    ["signs", "我我我不"],
    ["introductions", "here is here is "],
    ["open quotes", "「a。"],
  ];
  it.each(large)("[E4] takes a megabyte of %s in its stride", (_name, piece) => {
    const text = piece.repeat(Math.ceil(1_000_000 / piece.length));
    // Work that is not linear would not end within the time of a test.
    expect(cleanSummary(text).length).toBeLessThanOrEqual(4_000);
    expect(cleanSummary(`${ADA} ${text}`).length).toBeLessThanOrEqual(4_000);
  });

  it("[E4] says nothing the model did not", () => {
    const word = fc.constantFrom(
      "Ada",
      "no",
      "key.",
      "User:",
      "###",
      "SUMMARY:",
      "Sure!",
      "\n",
      "- ",
      "我",
      "。",
      '"',
      "(",
      "1.5",
    );
    const text = fc.oneof(
      fc.string(),
      fc.array(word, { maxLength: 60 }).map((words) => words.join(" ")),
    );
    fc.assert(
      fc.property(text, (written) => {
        const cleaned = cleanSummary(written);
        expect(cleaned).toBe(cleaned.trim());
        expect(cleaned.length).toBeLessThanOrEqual(written.trim().length);
        const said = new Set(written.match(/\p{L}+/gu));
        for (const known of cleaned.match(/\p{L}+/gu) ?? []) expect(said).toContain(known);
      }),
    );
  });
});
