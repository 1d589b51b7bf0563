// Holds a session and appends to it, a word a line on stdin; whatever was acknowledged is told on stdout.
import { createInterface } from "node:readline";
import type { Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { openStore } from "@rkat/node/log/open";
import { said } from "../support/entries.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

/** A folder, or the URL of a database. */
const [place = "", sessionId = "", name = "", silenceMs = "300"] = process.argv.slice(2);
const say = (line: string): boolean => process.stdout.write(`${line}\n`);
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

async function open(): Promise<Store> {
  const warn = (sentence: string): boolean => say(`warn ${sentence}`);
  if (place.startsWith("postgres://"))
    return openPostgresStore({ url: place, realm: "holders", leaseMs: Number(silenceMs), warn });
  const host = { pid: process.pid, isRunning: () => true };
  return openStore({ folder: place, foldRow, host, warn, silenceMsMax: Number(silenceMs) });
}

async function work(): Promise<void> {
  const store = await open();
  say(`open ${process.pid}`);
  let hold: Awaited<ReturnType<typeof store.locks.hold>> | undefined;
  let count = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, times = "1"] = line.split(" ");
    try {
      if (word === "hold") hold = await store.locks.hold(sessionId);
      if (word === "give") await hold?.release();
      if (word === "read") say(`read ${(await store.log.read(sessionId, 1, ENTRIES_MAX)).length}`);
      if (word === "append") {
        let end = (await store.sessions.get(sessionId))?.last_seq ?? 0;
        for (let time = 0; time < Number(times); time += 1) {
          const text = `${name}-${++count}`;
          const [entry] = await store.log.append(sessionId, end, toNewEntries([said(text)]));
          end = entry === undefined ? end : entry.seq + entry.span - 1;
          say(`kept ${entry?.seq} ${text}`);
        }
      }
      say(`did ${word}`);
    } catch (error) {
      say(`failed ${word}: ${error instanceof Error ? error.message : error}`);
    }
  }
  await store.close();
}

await work().catch((error) => {
  say(`refused ${error.message}`);
});
