// Appends to sessions of a folder or a database until it is killed, telling its parent of every append that was acknowledged.
import { flushCompileCache } from "node:module";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { bodiesOf, sessionIds } from "./expected.ts";
import { openPlace } from "./open-place.ts";

// It never ends by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const [place = ""] = process.argv.slice(2);
const store = await openPlace(place, (sentence) => process.stderr.write(`${sentence}\n`));

async function appendForever(sessionId: string): Promise<void> {
  for (;;) {
    const end = (await store.sessions.get(sessionId))?.last_seq ?? 0;
    const entries = await store.log.append(sessionId, end, toNewEntries(bodiesOf(sessionId, end)));
    const last = entries.at(-1);
    process.stdout.write(`${sessionId} ${last === undefined ? 0 : last.seq + last.span - 1}\n`);
  }
}

await Promise.all(sessionIds.map(appendForever));
