import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Hold, Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { createConnection } from "@rkat/postgres/connection";
import { createSessionLocks } from "@rkat/postgres/leases";
import { expect, it } from "vitest";
import { openCutProxy } from "../support/cut-proxy.ts";
import { created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

const ID = idOf(1);
const REALM = "holders";
/** Short, so that little time passes until a process that is away is taken for dead. */
const LEASE_MS = 1_500;
const WAIT = { timeout: 60_000, interval: 20 };
const LONG_MS = 120_000;
const SHORT_MS = 60_000;
const EVERYTHING = 100;

/** Takes a session as soon as its holder is taken for dead. */
async function takeOver(store: Store): Promise<Hold> {
  let hold: Hold | undefined;
  const attempt = async (): Promise<string> => {
    try {
      hold = await store.locks.hold(ID);
      return "taken";
    } catch (error) {
      return String(error);
    }
  };
  expect(await attempt()).toContain("is already running a turn");
  await expect.poll(attempt, WAIT).toBe("taken");
  if (hold === undefined) throw new Error("it was taken, and there is no hold");
  return hold;
}

async function append(store: Store, text: string): Promise<void> {
  const end = (await store.sessions.get(ID))?.last_seq ?? 0;
  await store.log.append(ID, end, toNewEntries([end === 0 ? created : said(text)]));
}

async function textsOf(store: Store): Promise<readonly string[]> {
  const entries = await store.log.read(ID, 1, EVERYTHING);
  return entries.map(({ body }) =>
    body.kind === "turn_opened" && body.message?.role === "user" ? String(body.message.content) : body.kind,
  );
}

withPostgres("a process that is away for longer than its lease", () => {
  for (const how of ["cut", "stall"] as const) {
    it(
      `[F11] by a network that is ${how === "cut" ? "cut" : "silent"}, appends no more, and says why`,
      async () => {
        const url = await databaseFor("leases");
        const proxy = await openCutProxy(Number(new URL(url).port));
        const away = await openPostgresStore({ url: proxy.urlOf(url), realm: REALM, leaseMs: LEASE_MS });
        const here = await openPostgresStore({ url, realm: REALM, leaseMs: LEASE_MS });
        await append(away, "created");
        const lost = await away.locks.hold(ID);
        await append(away, "before");

        proxy[how]();
        const late = away.log.append(ID, 2, toNewEntries([said("late")])).then(
          () => "kept",
          (error: Error) => error.message,
        );
        const hold = await takeOver(here);
        await append(here, "taken over");
        proxy.pass();

        // Whatever the network still held of it came too late.
        expect(await late).toMatch(/another process has taken session .* over|the database cannot be reached/);
        await expect.poll(() => lost.interrupted.aborted, WAIT).toBe(true);
        await expect(append(away, "later")).rejects.toMatchObject({
          code: "SESSION_BUSY",
          message: expect.stringContaining(`another process has taken session ${ID} over`),
        });
        await append(here, "still ours");
        await lost.release();
        await expect(away.locks.hold(ID)).rejects.toMatchObject({ code: "SESSION_BUSY" });
        await hold.release();
        expect(await textsOf(here)).toEqual(["session_created", "before", "taken over", "still ours"]);

        // It may have it again by asking for it.
        const again = await away.locks.hold(ID);
        await append(away, "again");
        await again.release();
        expect((await textsOf(here)).at(-1)).toBe("again");
        await Promise.all([away.close(), here.close()]);
        await proxy.close();
      },
      LONG_MS,
    );
  }

  it(
    "[F11] by SIGSTOP, appends no more, and says why",
    async () => {
      const url = await databaseFor("leases");
      const here = await openPostgresStore({ url, realm: REALM, leaseMs: LEASE_MS });
      await append(here, "created");
      const script = join(import.meta.dirname, "holder-process.ts");
      const child = spawn(process.execPath, [script, url, ID, "stopped", String(LEASE_MS)], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      /** Tells it a line and waits for what comes of it. */
      const ask = async (line: string): Promise<string> => {
        child.stdin.write(`${line}\n`);
        for (;;) {
          const { value, done } = await lines.next();
          if (done === true || /^(?:did|failed)/.test(value)) return String(value);
        }
      };
      expect(await ask("hold")).toBe("did hold");
      expect(await ask("append 3")).toBe("did append");

      child.kill("SIGSTOP");
      const hold = await takeOver(here);
      await append(here, "taken over");
      child.kill("SIGCONT");

      expect(await ask("append")).toContain(`failed append: another process has taken session ${ID} over`);
      await hold.release();
      expect(await ask("append")).toContain(`failed append: another process has taken session ${ID} over`);
      expect(await textsOf(here)).toEqual(["session_created", "stopped-1", "stopped-2", "stopped-3", "taken over"]);
      expect(await ask("give")).toBe("did give");
      expect(await ask("hold")).toBe("did hold");
      expect(await ask("append")).toBe("did append");
      child.stdin.end();
      await once(child, "close");
      await here.close();
    },
    LONG_MS,
  );
});

withPostgres("processes that share a database", () => {
  it(
    "[F11] [F9] that ask for a session at once, after they held nothing for long, have it one at a time",
    async () => {
      const url = await databaseFor("leases");
      const all = await Promise.all([1, 2, 3].map(() => openPostgresStore({ url, realm: REALM, leaseMs: LEASE_MS })));
      const [first] = all;
      if (first === undefined) throw new Error("there are three");
      await append(first, "created");
      const [locking, waiting] = [await connect(url), await connect(url)];

      // All of them wait for the row, so that each has begun before any other is done.
      await locking.query("begin");
      await locking.query("select from rkat.sessions where id = $1 for update", [ID]);
      const asked = all.map((store) => store.locks.hold(ID).catch((error: Error) => error));
      const count = () => waiting.query("select from pg_stat_activity where wait_event_type = 'Lock'");
      await expect.poll(async () => (await count()).rowCount, WAIT).toBe(all.length);
      await locking.query("commit");
      const holds = await Promise.all(asked);

      expect(holds.filter((hold) => !(hold instanceof Error))).toHaveLength(1);
      for (const hold of holds) if (!(hold instanceof Error)) await hold.release();
      for (const store of all) await store.close();
      await Promise.all([locking.end(), waiting.end()]);
    },
    LONG_MS,
  );

  it(
    "[F11] have back what one of them let go of while the database was away",
    async () => {
      const url = await databaseFor("leases");
      const proxy = await openCutProxy(Number(new URL(url).port));
      const away = await openPostgresStore({ url: proxy.urlOf(url), realm: REALM, leaseMs: LEASE_MS });
      const here = await openPostgresStore({ url, realm: REALM, leaseMs: LEASE_MS });
      await append(here, "created");
      const hold = await away.locks.hold(ID);
      // It goes on with another session, so that it does not seem dead.
      const other = await away.locks.hold(idOf(2));

      proxy.cut();
      await expect(hold.release()).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
      proxy.pass();

      const attempt = () =>
        here.locks.hold(ID).then(
          () => "taken",
          (error: Error) => error.message,
        );
      await expect.poll(attempt, WAIT).toBe("taken");
      await other.release();
      await Promise.all([away.close(), here.close()]);
      await proxy.close();
    },
    LONG_MS,
  );

  it(
    "[F11] a session that is let go of and taken again in one breath stays taken",
    async () => {
      const url = await databaseFor("leases");
      const proxy = await openCutProxy(Number(new URL(url).port));
      const store = await openPostgresStore({ url: proxy.urlOf(url), realm: REALM });
      await append(store, "created");
      const first = await store.locks.hold(ID);

      // What lets go is lost on its way and said again, and nothing else may come in between.
      proxy.cutAt(1, "before");
      const [, second] = await Promise.all([first.release(), store.locks.hold(ID)]);
      await append(store, "held");

      expect(await store.locks.isHeld(ID)).toBe(true);
      await second.release();
      await store.close();
      await proxy.close();
    },
    LONG_MS,
  );

  it(
    "[F11] one that was without its database for long is closed without waiting for every look it missed",
    async () => {
      const url = await databaseFor("leases");
      const proxy = await openCutProxy(Number(new URL(url).port));
      await (await openPostgresStore({ url, realm: REALM })).close();
      const options = { url: proxy.urlOf(url), poolMax: 2, isPooled: false, retryMs: LEASE_MS };
      const connection = createConnection(options);
      const parts = { connection, realm: REALM, kind: "session", owner: "one", leaseMs: LEASE_MS };
      const locks = createSessionLocks({ ...parts, onInterrupt: () => {}, onNote: () => {} });
      await locks.hold(ID);
      proxy.cut();
      // Each makes it look, which is tried for as long as a lease: one after the other they would take minutes.
      for (let word = 1; word <= 100; word += 1) locks.interrupted(ID);
      await locks.close();
      await connection.close();
      await proxy.close();
    },
    SHORT_MS,
  );
});
