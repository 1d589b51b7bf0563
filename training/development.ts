// Writes what training is measured by: the passages and questions of the development sets as memory forms them, and which
// passages are of a message that answers a question.
//   node training/development.ts FOLDER_OF_SETS dev.json && xz dev.json
import { writeFileSync } from "node:fs";
import { passageFor, splitText, toChunk } from "@rkat/core/recall/chunk";
import { STRANGERS } from "@rkat/core/recall/rank";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { type Case, loadDataSets } from "../bench/recall-data.ts";

const [folder = "", to = ""] = process.argv.slice(2);
const passages = new Map<string, number>();
const queries = new Map<string, number>();

function numberOf(texts: Map<string, number>, text: string): number {
  const number = texts.get(text) ?? texts.size;
  texts.set(text, number);
  return number;
}

/** Each step's questions with the keys that answer them, then the passages that are learnt with theirs. */
async function stepsOf(steps: Case) {
  const store = createMemoryStoreInMemory();
  const keys: string[] = [];
  const received = new Map<string, number>();
  const out = [];
  for (const { questions, session } of steps) {
    const asked = questions.map(({ text, gold }) => [numberOf(queries, text.slice(0, 2_000)), [...gold]]);
    const learnt: [number, string][] = [];
    if (session !== undefined) {
      const before = received.get(session.id) ?? 0;
      const chunks = session.said.flatMap(({ key, text, atMs, role = "user" }, index) =>
        splitText(text).map((part, at) => {
          keys.push(key);
          const seq = before + index + 1;
          const place = { session_id: session.id, turn: seq, seq, part: at, role, kind: "text" as const };
          return toChunk({ ...place, created_at_ms: atMs, text: part });
        }),
      );
      const first = keys.length - chunks.length + 1;
      const cursor = before + session.said.length;
      await store.add({ session_id: session.id, cursor, chunks, discarded: [] });
      received.set(session.id, cursor);
      const added = await store.read(chunks.map((_, index) => first + index));
      const earlier = new Map((await store.read(added.map(({ before }) => before))).map((chunk) => [chunk.id, chunk]));
      for (const chunk of added) {
        learnt.push([numberOf(passages, passageFor(chunk, earlier.get(chunk.before))), keys[chunk.id - 1] ?? ""]);
      }
    }
    out.push([asked, learnt]);
  }
  return out;
}

const sets: Record<string, unknown> = {};
for (const { name, cases } of await loadDataSets(folder)) {
  sets[name] = await Promise.all(cases.map(stepsOf));
}
for (const text of STRANGERS) numberOf(passages, text);
writeFileSync(to, JSON.stringify({ passages: [...passages.keys()], queries: [...queries.keys()], sets }));
