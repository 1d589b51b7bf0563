import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { startPostgres } from "../test/support/postgres-server.ts";
import { openPostgresStore } from "../test/support/postgres-store.ts";
import { createDriver, type Killed, runKiller } from "./durability/killer.ts";

const BATCH = 1_000;
const OPEN = 10;
const LOOKS = 50;

/** Kills a process in each of many turns: `npx node bench/durability.ts [TURNS] [LEASE_MS]`. */
const turns = Number(process.argv[2] ?? 57);
const leaseMs = Number(process.argv[3] ?? 1_000);
const folder = mkdtempSync(join(tmpdir(), "rkat-durability-"));
const server = await startPostgres();
try {
  const store = await openEmbeddedStore(join(folder, "killed"));
  const places = [
    { name: "folder", driver: createDriver(join(folder, "killed"), leaseMs, store) },
    { name: "PostgreSQL", driver: await inDatabase(await server.createDatabase("killed")) },
  ];
  for (const { name, driver } of places)
    report(`${name}, 3 processes, lease ${leaseMs} ms`, await runKiller(driver, { turns, others: 2 }));
  const [few, many] = [await measureLook(100), await measureLook(100_000)];
  console.log(
    `durability: a look for open turns, CPU: ${few.toFixed(2)} ms among 100 sessions, ${many.toFixed(2)} ms among 100,000`,
  );
} finally {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}

async function inDatabase(url: string) {
  return createDriver(url, leaseMs, await openPostgresStore({ url, realm: "default" }));
}

/** CPU milliseconds of one look for open turns, of which there are ten. */
async function measureLook(sessions: number): Promise<number> {
  const store = await openEmbeddedStore(join(folder, `look-${sessions}`));
  const settings = await settingsOfASession();
  const message = { role: "user" as const, content: "Hello.", created_at: "2026-01-01T00:00:00.000Z" };
  for (let made = 0; made < sessions; made += BATCH) {
    const ids = Array.from({ length: Math.min(BATCH, sessions - made) }, () => crypto.randomUUID());
    await Promise.all(
      ids.map((id, at) => {
        const opened = made === 0 && at < OPEN ? [{ kind: "turn_opened" as const, message }] : [];
        return store.log.append(id, 0, toNewEntries([{ kind: "session_created", settings }, ...opened]));
      }),
    );
  }
  const query = { archived: false, open: true as const, max: 100 };
  await store.sessions.page(query);
  const begun = process.cpuUsage();
  for (let look = 0; look < LOOKS; look += 1) {
    if ((await store.sessions.page(query)).length !== OPEN) throw new Error("the look has not found the open turns");
  }
  const { user, system } = process.cpuUsage(begun);
  await store.close();
  return (user + system) / 1_000 / LOOKS;
}

async function settingsOfASession() {
  const store = createInMemoryStore();
  const runtime = createRuntime({ model: "offline", store, env: {} });
  const { id } = await runtime.createSession();
  const [first] = await store.log.read(id, 1, 1);
  await runtime.close();
  if (first?.body.kind !== "session_created") throw new Error("a log has no beginning");
  return first.body.settings;
}

function report(name: string, killed: readonly Killed[]): void {
  const sum = (of: (one: Killed) => number): number => killed.reduce((total, one) => total + of(one), 0);
  const waits = killed
    .flatMap(({ continuedMs }) => (continuedMs === undefined ? [] : [continuedMs]))
    .sort((a, b) => a - b);
  const at = (share: number): string =>
    `${((waits[Math.floor((waits.length - 1) * share)] ?? 0) / 1_000).toFixed(2)} s`;
  console.log(`durability: ${name}, ${killed.length} turns, one kill -9 in each`);
  console.log(`  ended without a person   ${sum(({ isCompleted }) => Number(isCompleted))} of ${killed.length}`);
  console.log(`  changed hands            ${waits.length}`);
  console.log(`  model answers paid twice ${sum(({ paidTwice }) => paidTwice)}`);
  console.log(`  effects done twice       ${sum(({ effectsTwice }) => effectsTwice)}`);
  console.log(`  effects lost             ${sum(({ effectsLost }) => effectsLost)}`);
  console.log(`  continued after          ${at(0.5)} median, ${at(0.95)} 95th percentile`);
}
