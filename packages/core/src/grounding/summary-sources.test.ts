import { describe, expect, it } from "vitest";
import { answer, results, says, user } from "../../../../test/support/planted-histories.ts";
import type { Message } from "../contract/message.ts";
import { summarySources } from "./summary-sources.ts";

const numbered = (...messages: Message[]) => messages.map((message, at) => ({ seq: (at + 1) * 10, message }));
const sourcesIn = (summary: string, ...messages: Message[]) =>
  summarySources({ summary, messages: numbered(...messages) }, () => undefined);
const seqsIn = async (summary: string, ...messages: Message[]) =>
  (await sourcesIn(summary, ...messages)).map(({ seqs }) => seqs);

const TALK = [
  user("The staging host is stage-7.internal and its database listens on port 4711."),
  answer(says("I will write that down, and look at the migrations next.")),
  user("Please stay with PostgreSQL for the ledger; nobody on the team wants to run another database."),
  answer(says("Agreed. The migration 0042_ledger.sql failed because a column was renamed twice.")),
  results({
    tool_use_id: "t1",
    content: "error: column total_cents was renamed twice in 0042_ledger.sql",
    is_error: true,
  }),
  user("Invoices go out on the first Monday of each month, after Marta has signed them."),
];

describe("where the sentences of a summary come from", () => {
  it("[C21] finds the message a sentence was taken from, word for word", async () => {
    const summary = "Invoices go out on the first Monday of each month, after Marta has signed them.";
    expect(await sourcesIn(summary, ...TALK)).toEqual([{ text: summary, seqs: [60] }]);
  });

  it("[C21] finds it by what it names, and each name's own message", async () => {
    const summary = "Staging is stage-7.internal, port 4711. Migration 0042_ledger.sql failed on total_cents.";
    expect(await seqsIn(summary, ...TALK)).toEqual([[10], [50, 40]]);
  });

  it("[C21] finds it in other words", async () => {
    const summary =
      "# Decisions\n\n- The ledger stays on Postgres: the team does not want to run a second database.\n- Marta signs invoices before they go out each month.";
    expect(await seqsIn(summary, ...TALK)).toEqual([[30], [60]]);
  });

  it("[C21] finds both messages of a sentence that was made of two", async () => {
    const summary =
      "The database on port 4711 stays PostgreSQL, and invoices go out on the first Monday after Marta has signed.";
    const [seqs] = await seqsIn(summary, ...TALK);
    expect(seqs?.toSorted()).toEqual([10, 30, 60]);
  });

  it("[C21] finds nothing for what nobody said", async () => {
    const summary = [
      "The customer moved to Oslo and wants a refund of 900 euros.",
      "The production cluster runs on prod-9.internal with port 9999.",
      "They plan to rewrite the frontend in Elm.",
      "The team celebrated the launch with a long dinner by the harbour.",
    ].join(" ");
    expect(await seqsIn(summary, ...TALK)).toEqual([[], [], [], []]);
  });

  it("[C21] names a few messages at most, and is done with a summary of nothing", async () => {
    const same = Array.from({ length: 50 }, (_, at) =>
      user(`Build ${at} is red because of the linker, the linter and the clock.`),
    );
    const [seqs] = await seqsIn("Builds are red because of the linker, the linter and the clock.", ...same);
    expect(seqs).toEqual([10]);
    expect(await seqsIn("", ...TALK)).toEqual([]);
    expect(await seqsIn("Nothing was said.")).toEqual([[]]);
  });
});
