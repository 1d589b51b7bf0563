import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { toNewEntries } from "../../src/core/entry-events.ts";
import type { Hold, Store } from "../../src/ports/store.ts";
import { openCutProxy } from "../support/cut-proxy.ts";
import { created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

const ID = idOf(1);
const REALM = "holders";
/** Short, so that little time passes until a process that is away is taken for dead. */
const LEASE_MS = 1_500;
const WAIT = { timeout: 60_000, interval: 20 };
const LONG_MS = 120_000;
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
