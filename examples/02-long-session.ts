// A long session: it compacts by itself, says what that did, and takes it back.
import assert from "node:assert/strict";
import { createInMemoryStore, createRuntime } from "rkat";

const runtime = createRuntime({
  model: "offline",
  store: createInMemoryStore(),
  // Far below what a real session needs, so that it happens at once.
  compaction: { autoCompactThreshold: 1_500, maxSummaryTokens: 300, recentTurnBudget: 2 },
});

const session = await runtime.createSession("The launch is on 12 May at pier 7. Never fly above 400 ft.");
for (let day = 1; day <= 20; day += 1) {
  const stream = session.stream(
    `Day ${day}: the drone flew ${day * 3} km, its log is in /logs/day-${day}.txt. ${"It was windy. ".repeat(12)}`,
  );
  for await (const event of stream) {
    if (event.type === "compaction_completed") {
      console.log(`day ${day}: ${event.messages_before} messages became ${event.messages_after}`);
    }
  }
}

// What each compaction did with every path, number and rule it took out of the context.
const compactions = await session.compactions();
for (const { receipt, tokensBefore: tokens_before, tokensAfter: tokens_after } of compactions) {
  const { total, inSummary: in_summary, recoverable, lost } = receipt;
  console.log(
    `${tokens_before} → ${tokens_after} tokens: ${total} specifics, ${in_summary} in the summary, ${recoverable} recoverable, ${lost} lost`,
  );
  assert.equal(lost, 0);
}
assert(compactions.length >= 2);

// The history is whole; the context is not.
const [history, context] = await Promise.all([session.history(), session.context()]);
assert(context.messages.length < history.messages.length);
assert.match((await session.turn("When is the launch?")).text, /12 May/);

// Undoing the first undoes those built on it, and keeps what was said since.
const [first] = compactions;
assert(first !== undefined);
const undone = await session.undoCompaction(first.compactionId);
assert.equal(undone.length, compactions.length);
assert.deepEqual((await session.context()).messages, (await session.history()).messages);

await runtime.close();
