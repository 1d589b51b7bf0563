// Appends to sessions of a folder until it is killed, telling its parent of every append that was acknowledged.
import { flushCompileCache } from "node:module";
import { toNewEntries } from "../../src/core/entry-events.ts";
import { bodiesOf, sessionIds } from "./expected.ts";
import { openFolder } from "./open-folder.ts";

// It never ends by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const [folder = ""] = process.argv.slice(2);
const store = openFolder(folder, (sentence) => process.stderr.write(`${sentence}\n`));

async function appendForever(sessionId: string): Promise<void> {
  for (;;) {
    const end = (await store.sessions.get(sessionId))?.last_seq ?? 0;
    const entries = await store.log.append(sessionId, end, toNewEntries(bodiesOf(sessionId, end)));
    const last = entries.at(-1);
    process.stdout.write(`${sessionId} ${last === undefined ? 0 : last.seq + last.span - 1}\n`);
  }
}

await Promise.all(sessionIds.map(appendForever));
