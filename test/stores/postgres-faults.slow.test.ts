import { randomUUID } from "node:crypto";
import type { Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openDatabase } from "@rkat/postgres/open";
import { expect, it } from "vitest";
import { type CutProxy, openCutProxy } from "../support/cut-proxy.ts";
import { answered, created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

const ID = idOf(1);
const EVERYTHING = 100;
const LONG_MS = 300_000;
const BLOB = { mediaType: "text/plain", data: new TextEncoder().encode("kept") };

interface StoreRun {
  /** What was said to be kept, in order. */
  readonly kept: readonly string[];
  /** What failed, by its code. */
  readonly failed: readonly string[];
}

/** A little of everything, each step of which may fail; what fails is done once more, as a user would. */
async function live(open: () => Promise<Store>): Promise<StoreRun> {
  const kept: string[] = [];
  const failed: string[] = [];
  const attempt = async <T>(step: () => Promise<T>): Promise<T | undefined> => {
    for (let attempts = 1; attempts <= 2; attempts += 1) {
      try {
        return await step();
      } catch (error) {
        // Whoever calls a store handles these and no others.
        expect(error).toMatchObject({ code: expect.stringMatching(/^(SESSION_STORE_ERROR|SESSION_BUSY)$/) });
        failed.push(String(error));
      }
    }
    return undefined;
  };
  const store = await attempt(open);
  if (store === undefined) return { kept, failed };
  const append = async (text: string): Promise<void> => {
    const end = (await store.sessions.get(ID))?.last_seq ?? 0;
    await store.log.append(ID, end, toNewEntries([end === 0 ? created : said(text)]));
    kept.push(end === 0 ? "created" : text);
  };
  await attempt(() => append("created"));
  const hold = await attempt(() => store.locks.hold(ID));
  await attempt(() => append("one"));
  await attempt(() => append("two"));
  await attempt(async () => {
    const blob = await store.blobs.get(await store.blobs.put(BLOB));
    expect([...(blob?.data ?? [])]).toEqual([...BLOB.data]);
  });
  await attempt(async () => expect(await store.sessions.page({ max: 5 })).toHaveLength(1));
  await attempt(async () => hold?.release());
  await attempt(() => store.close());
  return { kept, failed };
}

withPostgres("a database whose connection ends at any question", () => {
  it(
    "[F11] [F7] keeps what it said it kept, once, and fails in words that the port knows",
    async () => {
      const url = await databaseFor("faults");
      const direct = await openPostgresStore({ url, realm: "first" });
      await direct.close();
      const proxy = await openCutProxy(Number(new URL(url).port));
      const run = async (fault?: Parameters<CutProxy["cutAt"]>): Promise<StoreRun & { asked: number }> => {
        const realm = randomUUID();
        proxy.pass();
        const before = proxy.asked;
        if (fault !== undefined) proxy.cutAt(...fault);
        const life = await live(() => openPostgresStore({ url: proxy.urlOf(url), realm }));
        const asked = proxy.asked - before;
        const after = await openPostgresStore({ url, realm });
        const texts = (await after.log.read(ID, 1, EVERYTHING)).map(({ body }) =>
          body.kind === "turn_opened" && body.message?.role === "user" ? body.message.content : "created",
        );
        expect({ fault, texts }).toEqual({ fault, texts: life.kept });
        // It goes on from there, also where the hold of the life was not given back.
        await after.log.append(ID, (await after.sessions.get(ID))?.last_seq ?? 0, toNewEntries([answered("more")]));
        await after.close();
        return { ...life, asked };
      };

      const whole = await run();
      expect(whole).toMatchObject({ kept: ["created", "one", "two"], failed: [] });
      for (const when of ["before", "after"] as const) {
        for (let nth = 1; nth <= whole.asked; nth += 1) await run([nth, when]);
      }
      await proxy.close();
    },
    LONG_MS,
  );

  it("[F11] is read whole again after an answer that broke off in the middle", async () => {
    const url = await databaseFor("faults");
    const proxy = await openCutProxy(Number(new URL(url).port));
    const store = await openPostgresStore({ url: proxy.urlOf(url), realm: "amid", poolMax: 1 });
    const bodies = Array.from({ length: 200 }, (_, at) => (at === 0 ? created : said("long ".repeat(1_000))));
    await store.log.append(ID, 0, toNewEntries(bodies));
    const whole = await store.log.read(ID, 1, bodies.length);

    proxy.cutAt(1, "amid");
    expect(await store.log.read(ID, 1, bodies.length)).toEqual(whole);
    expect(await store.sessions.get(ID)).toMatchObject({ last_seq: bodies.length });
    await store.close();
    await proxy.close();
  });

  it("[F11] says of a change of the configuration that nobody knows what became of it, and makes it once at most", async () => {
    const url = await databaseFor("faults");
    const proxy = await openCutProxy(Number(new URL(url).port));
    const away = await openDatabase({ url: proxy.urlOf(url), realm: "changed" });
    const config = await away.config();

    proxy.cutAt(1, "before");
    const change = config.change(() => ({ model: "offline" }));
    await expect(change).rejects.toMatchObject({
      code: "SESSION_STORE_ERROR",
      message: expect.stringMatching(/^the database was lost while the configuration of realm changed in /),
    });
    expect(await config.change(({ generation }) => ({ generation }))).toEqual({
      generation: 1,
      layer: { generation: 0 },
    });
    await away.close();
    await proxy.close();
  });
});
