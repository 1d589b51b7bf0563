import { pick } from "../../test/compaction/chances.ts";
import { faultsOfHistory } from "./book.ts";
import { checkAgent } from "./operations.ts";
import { ask, type Soak } from "./soak.ts";

/** Turns whose words are looked for in memory. */
const SEARCHED = 20;
const WORKERS = 3;

/** Reads everything that was acknowledged, from whoever answers, once nobody harms them any more. */
export async function verify(soak: Soak): Promise<{ readonly sessions: number; readonly turns: number }> {
  const sessions = [...soak.book.sessions.values()];
  const waiting = [...sessions];
  const read = async (): Promise<void> => {
    for (let session = waiting.pop(); session !== undefined; session = waiting.pop()) {
      const reported = await ask(soak, "readHistory", { session_id: session.id });
      if (reported === undefined) soak.fault(`LOST the session ${session.id}: its history cannot be read`);
      else {
        const faults = faultsOfHistory(session, session.acknowledged.length, reported);
        for (const fault of faults) soak.fault(`WRONG at the end, ${session.id}: ${fault}`);
      }
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, read));
  for (const name of soak.book.agents.keys()) await checkAgent(soak, name);
  for (let search = 0; search < SEARCHED; search += 1) {
    const session = pick(soak.random, sessions);
    const turn = pick(soak.random, session?.acknowledged ?? []);
    if (session === undefined || turn === undefined) continue;
    const found = await ask(soak, "searchHistory", { query: turn.marker, limit: 20 });
    const hits = Array.isArray(found?.results) ? found.results.map((hit: unknown) => String(Object(hit).content)) : [];
    if (!hits.some((content) => content.includes(turn.marker)))
      soak.fault(`LOST to memory: ${turn.marker} of ${session.id}`);
  }
  const turns = sessions.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0);
  return { sessions: sessions.length, turns };
}
