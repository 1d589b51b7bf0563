import { describe, expect, it } from "vitest";
import { compactionCorpus } from "../../../../test/support/corpus.ts";
import { fc } from "../../../../test/support/property.ts";
import type { Message } from "../contract/message.ts";
import { blocksOf } from "./cut-sentences.ts";
import { checkSummary, cutInvented, type Invented } from "./groundedness.ts";

const corpus = compactionCorpus();
const user = (content: string): Message => ({ role: "user", content, created_at: "2026-01-05T00:00:00.000Z" });
const answered = (text: string): Message => ({
  role: "block_assistant",
  blocks: [{ block_type: "text", data: { text } }],
  stop_reason: "end_turn",
  created_at: "2026-01-05T00:00:00.000Z",
});
const checked = async (summary: string, source: readonly Message[]) => {
  const { invented, unverified } = await checkSummary(summary, source, () => undefined);
  return { invented, unverified };
};
const doubtful = async (summary: string, source: readonly Message[]) =>
  (await checkSummary(summary, source, () => undefined)).doubtful;
const invented = async (summary: string, source: readonly Message[]) => (await checked(summary, source)).invented;
const claim = (sentence: string): Invented => ({ kind: "claim", text: sentence, sentence });
const isCaught = (piece: string, { kind, text, sentence }: Invented): boolean =>
  kind === "claim" ? sentence.includes(piece) : text.includes(piece) || piece.includes(text);

describe("groundedness", () => {
  it.each(corpus)("[C16] cuts nothing of the honest summaries of $name", async ({ honest, messages }) => {
    for (const summary of honest) {
      const found = await invented(summary, messages);
      expect(found).toEqual([]);
      expect(cutInvented(summary, found)).toBe(summary);
    }
  });

  it.each(corpus)(
    "[C16] catches all that is exact of what was planted in $name, lists the rest, and cuts nothing else",
    async ({ planted, messages }) => {
      for (const { summary, invented: pieces } of planted) {
        const { invented: found, unverified } = await checked(summary, messages);
        expect(found.filter(({ sentence }) => !pieces.some((piece) => sentence.includes(piece)))).toEqual([]);
        const rest = cutInvented(summary, found);
        const standing = pieces.filter((piece) => rest.includes(piece));
        expect(standing.filter((piece) => found.some((one) => isCaught(piece, one)))).toEqual([]);
        expect(standing.filter((piece) => !unverified.some((sentence) => sentence.includes(piece)))).toEqual([]);
        expect(await invented(rest, messages)).toEqual([]);
      }
    },
  );

  it("[C16] says kind, text and sentence of what it found", async () => {
    const summary = "The port is 7443. See src/ghost.ts. He said “burn it all down”.";
    expect(await invented(summary, [user("The port is 7443")])).toEqual([
      { kind: "path", text: "src/ghost.ts", sentence: "See src/ghost.ts." },
      { kind: "quote", text: "burn it all down", sentence: "He said “burn it all down”." },
    ]);
  });

  it.each([
    ["480 ms and 120 ms", "It fell from 480 ms to 120 ms, 75 % less."],
    ["4 of 7 passed", "4 of 7 (57 %) passed."],
    ["rows: 48213", "About 48k rows."],
    ["loss 45.7 %", "A loss of 46 %."],
    ["from 02:14 until 03:11", "Down from 02:14 to 03:11 (57 minutes)."],
    ["two thousand euros", "A budget of €2,000."],
    ["`src` holds turn.ts", "`src/turn.ts` was read."],
    ["see turn-runner.ts", "`TurnRunner` was read."],
    ["saved (1600x1000)", "The chart has 1600×1000 pixels."],
    ["3 things", "5 files in 2 folders, the 3rd time."],
    ["hello", "On 5 January 2026 they said hello."],
  ])("[C16] takes what follows from %j for granted: %j", async (source, summary) => {
    expect(await invented(summary, [user(source)])).toEqual([]);
  });

  it("[C16] does not take thousands for a decimal", async () => {
    const found = await invented("The outage hit 19,000 customers.", [
      user("19 pods failed in the outage, customers wrote"),
    ]);
    expect(found.map(({ text }) => text)).toEqual([expect.stringContaining("19,000")]);
  });

  it("[C16] believes a total only beside its parts", async () => {
    const source = [user("rent 1200 €"), user("food 320 €")];
    expect(await invented("1200 € + 320 € = 1520 €", source)).toEqual([]);
    expect(await invented("Total: 1520 €", source)).toHaveLength(1);
  });

  it("[C16] does not say what the user agreed to, and lists it", async () => {
    const summary = "The user asked to delete the stale branches of the repository.";
    const asked = [user("What is in the repository here?"), answered("Shall I delete the stale branches?")];
    const listed = { invented: [], unverified: [summary] };
    expect(await checked(summary, [...asked, user("yes to that, please do it")])).toEqual(listed);
    expect(await checked(summary, asked)).toEqual(listed);
  });

  it.each([
    "The port is 8443.",
    "# The user approved all of it",
    "- Port: 8443",
    "Files: src/turn.ts, src/agent.ts",
    "```\nall of it was approved\n```",
  ])("[C16] lists no sentence of the source, no heading, no label and no code: %j", async (summary) => {
    const source = [user("Hello there. The port is 8443. See src/turn.ts and src/agent.ts.")];
    expect(await checked(summary, source)).toEqual({ invented: [], unverified: [] });
  });

  it("[C16] leaves claims and quotations alone that are in another language than the source", async () => {
    const source = [user("请不要在白天发布新版本，必须先通知老王。")];
    expect(await invented("The user said “never release at daytime” and wants Lao Wang told first.", source)).toEqual(
      [],
    );
  });

  it("[C16] cannot tell a claim that only joins words that were said, and lets it pass", async () => {
    const source = [
      user("Please cancel the TV package on my contract, I never ordered it."),
      user("Is the contract fine?"),
    ];
    expect(await invented("The user asked to cancel the entire contract immediately.", source)).toEqual([]);
  });
});

describe("a summary that loops", () => {
  it("[J5] is read in time that grows with what was said, whatever it repeats", async () => {
    const source = [user("```\n a\n".repeat(100_000))];
    // If each sentence were looked for in the whole text, this would take minutes, and no test has them.
    expect(await invented("```\n a\n".repeat(3_000), source)).toEqual([]);
  });
});

describe("what the user forbade", () => {
  const forbidding = [
    user(
      "Never delete the backups in /var/backups/heron. I prefer tabs over spaces. Do not push to main. Always ask me before you deploy.",
    ),
    answered("Noted."),
    user("Use port 8443."),
  ];

  it.each([
    "Delete the backups in /var/backups/heron.",
    "Next: delete the backups in /var/backups/heron.",
    "Backups in /var/backups/heron may be deleted.",
    "Push to main.",
    "The plan is to push to main.",
    "The user asked to delete the backups in /var/backups/heron and to push to main.",
    "The user wants the backups in /var/backups/heron deleted.",
    "The user gave permission to push to main.",
    "The user said that it is fine to deploy without asking.",
    "The user prefers spaces over tabs.",
    "User's rule: always force-push to main.",
    "The user approved the deployment.",
    "The user confirmed that the migration succeeded.",
  ])("[C16] lists, and does not cut: %j", async (sentence) => {
    expect(await checked(sentence, forbidding)).toEqual({ invented: [], unverified: [sentence] });
  });

  it.each([
    "Never delete the backups in /var/backups/heron.",
    "The user asked not to delete the backups in /var/backups/heron or push to main.",
    "Do not delete the backups, push to main, or deploy without asking.",
    "Backups in /var/backups/heron must not be deleted.",
    "Deleting the backups in /var/backups/heron is forbidden; so is pushing to main.",
    "Avoid: delete the backups.",
    "The user forbade deleting the backups and wants no push to main.",
    "The user wants to be asked before a deployment.",
    "The user prefers tabs over spaces.",
    "Ask before you push to main or deploy.",
    "A push to main was refused by the hook.",
    "Push to main only after approval.",
    "Next: push to main once the user approves.",
    "The user confirmed port 8443.",
    "## Never do\n\n- Delete the backups\n- Push to main",
  ])("[C16] keeps what says it as the user did: %j", async (summary) => {
    expect(await invented(summary, forbidding)).toEqual([]);
  });

  it("[C16] hears a user who allows later what was forbidden before", async () => {
    const allowed = [...forbidding, answered("Shall I push to main now?"), user("yes")];
    expect(await invented("The user approved the push to main. Push to main.", allowed)).toEqual([]);
    const reported = [...forbidding, user("Now push the release to main, and delete the old backups of last year.")];
    expect(await invented("Push to main. The user asked to delete old backups.", reported)).toEqual([]);
    const until = [user("Do not push to main until I have read it."), answered("It is ready."), user("Go ahead.")];
    expect(await invented("The user wants the branch pushed: push to main.", until)).toEqual([]);
  });

  it.each(["Email the customer list to the partners.", "TODO: drop table orders.", "The Acme invoice should be paid."])(
    "[C16] lists a forbidden deed, by whatever word: %j",
    async (sentence) => {
      const source = [user("Do not email the customer list. Never drop the orders table. Don't pay the Acme invoice.")];
      expect(await checked(sentence, source)).toEqual({ invented: [], unverified: [sentence] });
    },
  );

  it("[C16] does not take a request for a confirmation that it was done", async () => {
    const source = [user("Run the migration on the staging host."), answered("The user is told when it is done.")];
    const sentence = "The user confirmed that the migration succeeded.";
    expect(await checked(sentence, source)).toEqual({ invented: [], unverified: [sentence] });
    expect(await invented("The user approved the migration.", source)).toEqual([]);
  });

  it.each([
    ["Bitte niemals die Backups auf dem Server löschen.", "Die Backups auf dem Server löschen."],
    ["Ne supprime jamais les archives du serveur.", "Supprimer les archives du serveur."],
    ["Nunca borre las copias del servidor.", "Borre las copias del servidor."],
    ["不要删除生产环境的日志。", "删除生产环境的日志。"],
    ["元の写真は削除しないでください。", "元の写真を削除してください。"],
  ])("[C16] lists the opposite of %j and not the rule itself: %j", async (source, summary) => {
    expect(await checked(summary, [user(source)])).toEqual({ invented: [], unverified: [summary] });
    expect(await checked(source, [user(source)])).toEqual({ invented: [], unverified: [] });
    expect(await doubtful(summary, [user(source)])).toEqual([summary]);
  });
});

describe("names, commands and counts without a mark", () => {
  const source = [
    user(
      "We deploy heron on port 8443 in eu-west-1, hosts host 1 and gpt-4o. Run `npm run migrate --env=prod`, git push.",
    ),
  ];

  it.each([
    ["The deploy failed with error E1234.", "identifier", "E1234"],
    ["The password is hunter2.", "identifier", "hunter2"],
    ["It runs on host-2.", "identifier", "host-2"],
    ["It runs on heron-7.", "identifier", "heron-7"],
    ["Run npm run destroy.", "command", "npm run destroy"],
    ["Run npm run migrate --env=staging.", "command", "--env=staging"],
    ["Run npm run migrate --force.", "command", "--force"],
    ["Run rm -rf on it.", "command", "rm -rf"],
    ["Then git rebase it.", "command", "git rebase"],
    ["There are 37 servers.", "number", "37 servers"],
    ["There are forty-two servers.", "number", "42 servers"],
  ])("[C16] finds in %j the %s %j", async (sentence, kind, text) => {
    expect(await invented(sentence, source)).toEqual([{ kind, text, sentence }]);
  });

  it.each([
    "Run npm run migrate --env=prod.",
    "It runs on host-1 with gpt-4o, p95 is fine in Q3, utf8 and sha256.",
    "The git history and the docker image are fine - really.",
    "12 files changed in 14 steps.",
    "3 servers, phase-2, top-10, mid-2026, fig-3 and aes256.",
    "The ports of 18 hosts, and paper of size A3 boxes.",
  ])("[C16] keeps %j", async (summary) => {
    expect(await invented(summary, source)).toEqual([]);
  });
});

describe("counts", () => {
  it("[C16] believes a count that somebody may have counted in the source", async () => {
    const listed = Array.from({ length: 14 }, (_, at) => `clause about ${"abcdefghijklmn"[at]}`).join("\n");
    expect(await invented("Fourteen articles were pasted.", [user(listed)])).toEqual([]);
    expect(await invented("Forty articles were pasted.", [user(listed)])).toHaveLength(1);
  });
});

describe("cutting", () => {
  it.each([
    ["one sentence of a line", "A stays. B goes. C stays.", ["B goes."], "A stays. C stays."],
    ["the last sentence", "- A stays. B goes.\n- C", ["B goes."], "- A stays.\n- C"],
    ["a bullet with its line", "- A\n- B\n- C\n", ["B"], "- A\n- C\n"],
    ["a bullet and what it announces", "- A\n- B:\n  - b1\n  - b2\n- C", ["B:"], "- A\n- C"],
    ["an announcement with nothing left to announce", "Files:\n- A\n\nRest.", ["A"], "Rest."],
    ["a heading with nothing left below", "# T\n\n## A\na\n\n## B\nb\n", ["a"], "# T\n\n## B\nb\n"],
    ["all headings above what goes", "# T\n## A\n- a\n", ["a"], ""],
    ["a row", "| h |\n|---|\n| a |\n| b |\n", ["| a |"], "| h |\n|---|\n| b |\n"],
    ["a table without rows", "x\n\n| h |\n|---|\n| a |\n\ny", ["| a |"], "x\n\ny"],
    ["a fence without lines", "x\n```sh\nrm all\n```\ny", ["rm all"], "x\ny"],
    ["a frame around nothing", "<summary>\na\n</summary>", ["a"], ""],
    ["a sentence over two lines", "A stays. B\ngoes here. C stays.", ["B\ngoes here."], "A stays. C stays."],
    ["emphasis as a whole", "**A goes. Really.** B stays.", ["**A goes. Really.**"], "B stays."],
    ["a sentence without spaces", "一句。二句。三句。", ["二句。"], "一句。三句。"],
  ])("[C16] takes out %s", async (_, summary, sentences, rest) => {
    expect(cutInvented(summary, sentences.map(claim))).toBe(rest);
  });

  it("[C16] changes nothing when nothing is invented, and blocks are the text byte for byte", async () => {
    const line = fc.constantFrom(
      "# h",
      "- a. B c.",
      "  - b:",
      "text. More",
      "",
      "| a |",
      "|---|",
      "```",
      "**x**:",
      "1. y",
      "中。文",
      "\t",
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 30 }), (lines) => {
        const summary = lines.join("\n");
        const blocks = blocksOf(summary);
        expect(cutInvented(summary, [])).toBe(summary);
        expect(blocks.map(({ start, end }) => summary.slice(start, end)).join("")).toBe(summary);
      }),
    );
  });

  it("[C16] leaves only lines that were there, whatever is cut", async () => {
    const line = fc.constantFrom("# h", "## i", "- a", "- b", "  - c", "d:", "", "e.");
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), fc.subarray(["a", "b", "c", "d:", "e."]), (lines, cut) => {
        const rest = cutInvented(lines.join("\n"), cut.map(claim)).split("\n");
        expect(rest.filter((one) => !["", ...lines].includes(one))).toEqual([]);
        expect(rest.filter((one) => cut.includes(one.replace(/^\s*- /u, "")))).toEqual([]);
      }),
    );
  });
});
