// Appends to the sessions of a folder, holding each only for an append or two, so that they go from process to process;
// tells what was acknowledged until it is killed.
import { setImmediate } from "node:timers/promises";
import { RuntimeError } from "@rkat/core/contract/error";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { bodiesOf, sessionIds } from "../crash/expected.ts";
import { openPlace } from "../crash/open-place.ts";

const [place = ""] = process.argv.slice(2);
const store = await openPlace(place, () => {});

async function appendForever(sessionId: string): Promise<void> {
  for (;;) {
    try {
      const hold = await store.locks.hold(sessionId);
      const end = (await store.sessions.get(sessionId))?.last_seq ?? 0;
      const entries = await store.log.append(sessionId, end, toNewEntries(bodiesOf(sessionId, end)));
      const last = entries.at(-1);
      process.stdout.write(`${sessionId} ${last === undefined ? 0 : last.seq + last.span - 1}\n`);
      await hold.release();
    } catch (error) {
      if (!(error instanceof RuntimeError) || error.code !== "SESSION_BUSY") throw error;
    }
    await setImmediate();
  }
}

await Promise.all(sessionIds.map(appendForever));
