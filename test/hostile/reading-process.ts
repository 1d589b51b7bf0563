// A process of its own that reads hostile texts as a compaction, a memory, a tool and the offline model do, and prints
// how often it let others have their turn for each kind of reader. Something that outgrows its text never gets there.

import { cleanSummary } from "@rkat/core/agent-memory/clean-summary";
import type { Message } from "@rkat/core/contract/message";
import { piecesOf } from "@rkat/core/grounding/exactness";
import { checkSummary, cutInvented } from "@rkat/core/grounding/groundedness";
import { indexTexts } from "@rkat/core/grounding/occurrence";
import { specificsOf } from "@rkat/core/grounding/specifics";
import { extractiveSummary } from "@rkat/core/providers/offline/summary";
import { chunksOf } from "@rkat/core/recall/chunk";
import { createRedactor, redactSlowly } from "@rkat/core/turn/redact";
import { hostileTexts } from "./texts.ts";

const user = (content: string): Message => ({ role: "user", content, created_at: "2026-01-05T10:30:00.000Z" });
const SUMMARY = "The user asked for 777 things in `foo`. The user prefers A over B. They deployed 4.5 GB.";
const RULE = "Never restart the payments of Acme on weekdays.";

type Reader = (text: string, yieldToEventLoop: () => undefined) => unknown;

const READERS: Readonly<Record<string, Reader>> = {
  specifics: (text, yieldToEventLoop) => specificsOf([{ seq: 1, message: user(text) }], yieldToEventLoop),
  occurrence: async (text, yieldToEventLoop) =>
    indexTexts(piecesOf(text), yieldToEventLoop).has({ kind: "rule", text: RULE }),
  "groundedness in a source": (text, yieldToEventLoop) => checkSummary(SUMMARY, [user(text)], yieldToEventLoop),
  "groundedness of a summary": async (text, yieldToEventLoop) =>
    cutInvented(text, (await checkSummary(text, [user("Please fix it.")], yieldToEventLoop)).invented),
  redaction: (text, yieldToEventLoop) => redactSlowly(createRedactor(["hunter2-hunter2"]), text, yieldToEventLoop),
  memory: (text) => [...chunksOf(user(text), { session_id: "s", turn: 1, seq: 1, created_at_ms: 0 })],
  "a summary of sentences": (text) => extractiveSummary([user(text)], { maxTokens: 1_000 }),
  "a tier's summary": (text) => cleanSummary(text),
};

const [chars = "0", only] = process.argv.slice(2);
for (const [name, read] of Object.entries(READERS)) {
  let yields = 0;
  let texts = 0;
  for (const { name: which, text } of hostileTexts(Number(chars))) {
    if (only !== undefined && !only.split("|").includes(which)) continue;
    texts += 1;
    await read(text, () => {
      yields += 1;
      return undefined;
    });
  }
  process.stdout.write(`${JSON.stringify({ reader: name, texts, yields })}\n`);
}
