import { readFileSync } from "node:fs";
import type { Runtime } from "@rkat/core/create-runtime";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { WORD } from "./planted-facts.ts";

interface Asked {
  /** Which sessions are looked at. */
  readonly labels: Readonly<Record<string, string>>;
  /** Compactions that must be among theirs. */
  readonly acknowledged?: readonly string[];
}

/** What compactions took out and a search does not find, first and once; and which compactions are gone. */
export async function faultsOf(runtime: Runtime, { labels, acknowledged = [] }: Asked): Promise<readonly string[]> {
  const faults: string[] = [];
  const committed = new Set<string>();
  for (const { sessionId } of await runtime.listSessions({ labels })) {
    const session = runtime.session(sessionId);
    const compactions = await session.compactions();
    for (const { compactionId: compaction_id } of compactions) committed.add(compaction_id);
    const ranges = compactions.flatMap(({ discarded }) => discarded);
    for (const { seq, ...message } of (await session.history()).messages) {
      if (!ranges.some(({ fromSeq: from_seq, toSeq: to_seq }) => from_seq <= seq && seq <= to_seq)) continue;
      const word = WORD.exec(JSON.stringify(message))?.[0] ?? "";
      const { results } = await runtime.searchMemory(word, { sessionId });
      const [first] = results;
      if (first?.seq !== seq || !first.content.includes(word)) faults.push(`${word} is not found first`);
      const places = results.map((hit) => `${hit.sessionId} ${hit.seq} ${hit.content}`);
      if (new Set(places).size < places.length) faults.push(`${word} brings a hit twice`);
    }
  }
  return [...faults, ...acknowledged.filter((id) => !committed.has(id)).map((id) => `the compaction ${id} is gone`)];
}

/** Chunks the memory holds more than once: a search would fold them into one hit. */
export async function chunksTwiceIn(folder: string): Promise<readonly string[]> {
  const store = openMemoryStore({ folder: `${folder}/state/memory` });
  // Nobody has made vectors by this name, so these are all.
  const chunks = await store.vectors.missing("nobody", Number.MAX_SAFE_INTEGER);
  await store.close();
  const places = chunks.map(({ session_id, seq, part }) => `${session_id} ${seq} ${part}`);
  return places.filter((place, index) => places.indexOf(place) < index);
}

/** How many embeddings were made, of how many passages, and of each life how many of its own were embedded again. */
export function embeddedAgainIn(folder: string) {
  const lastLife = new Map<string, string>();
  const counts = new Map<string, number>();
  const lines = readFileSync(`${folder}/embeddings.txt`, "utf8").trimEnd().split("\n");
  for (const line of lines) {
    const [passage = "", life = ""] = line.split(" in life ");
    const before = lastLife.get(passage);
    if (before !== undefined) counts.set(before, (counts.get(before) ?? 0) + 1);
    lastLife.set(passage, life);
  }
  return { total: lines.length, passages: lastLife.size, again: [...counts].map(([life, count]) => ({ life, count })) };
}
