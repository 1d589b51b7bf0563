import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { openDatabaseTokens } from "@rkat/postgres";
import type { Connection } from "@rkat/postgres/connection";
import { createSessionLocks } from "@rkat/postgres/leases";
import { type Database, openConfiguration, openDatabase } from "@rkat/postgres/open";
import { createChannel } from "@rkat/postgres/signals";
import { createToken, openTokenFiles, openTokens, revokeToken } from "@rkat/server/http/token-files";
import { expect, it, onTestFinished, vi } from "vitest";
import { created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";

const A = idOf(1);

async function using<T>(database: Database, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    await database.close();
  }
}

/** The same database for another role. */
function as(role: string, url: string): string {
  const other = new URL(url);
  other.username = role;
  return other.href;
}

withPostgres("a database", () => {
  it("[F11] is prepared once, however many processes begin at once", async () => {
    const url = await databaseFor("begin");
    const all = await Promise.all(Array.from({ length: 6 }, () => openDatabase({ url, realm: "one" })));
    const stores = all.map((database) => database.store("session", foldRow));
    await stores[0]?.log.append(A, 0, toNewEntries([created]));
    for (const store of stores) expect(await store.log.read(A, 1, 10)).toHaveLength(1);
    for (const database of all) await database.close();
  });

  it("[F11] of a newer version is refused, and nothing is changed", async () => {
    const url = await databaseFor("newer");
    await (await openDatabase({ url, realm: "one" })).close();
    const client = await connect(url);
    await client.query("update rkat.version set number = 999");
    await expect(openDatabase({ url, realm: "one" })).rejects.toThrow(
      expect.objectContaining({
        code: "SESSION_STORE_ERROR",
        message: expect.stringMatching(/is of version 999 and this program knows \d+; update rkat/),
      }),
    );
    await client.end();
  });

  it("[F11] that cannot be opened is named without its password", async () => {
    const url = new URL(await databaseFor("secret"));
    url.password = "hunter2";
    url.pathname = "/not_there";
    const error = await openDatabase({ url: url.href, realm: "one" }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "SESSION_STORE_ERROR", message: expect.stringContaining("not_there") });
    expect(String(error)).not.toContain("hunter2");
  });

  it("[F11] keeps realms apart, and gives a tenant's role the rows of its realms and no others", async () => {
    const url = await databaseFor("tenants");
    const owner = await openDatabase({ url, realm: "acme" });
    const globex = await openDatabase({ url, realm: "globex" });
    await using(owner, () =>
      using(globex, async () => {
        await owner.store("session", foldRow).log.append(A, 0, toNewEntries([created, said("acme's")]));
        await globex.store("session", foldRow).log.append(A, 0, toNewEntries([created]));
        expect(await owner.store("session", foldRow).log.read(A, 1, 10)).toHaveLength(2);
        expect(await globex.store("session", foldRow).sessions.page({ max: 10 })).toHaveLength(1);
      }),
    );
    const client = await connect(url);
    const role = `tenant_${Math.random().toString(36).slice(2)}`;
    await client.query(`create role ${role} login`);
    await client.query(`grant usage on schema rkat to ${role}`);
    await client.query(`grant select, insert, update, delete on all tables in schema rkat to ${role}`);
    await client.query(`revoke insert, update, delete on rkat.tenants, rkat.version from ${role}`);
    await client.query("insert into rkat.tenants (role, realm) values ($1, 'globex')", [role]);
    const own = await openDatabase({ url: as(role, url), realm: "globex" });
    const foreign = await openDatabase({ url: as(role, url), realm: "acme" });
    await using(own, () =>
      using(foreign, async () => {
        const store = own.store("session", foldRow);
        await store.log.append(A, 1, toNewEntries([said("globex's")]));
        expect(await store.log.read(A, 1, 10)).toHaveLength(2);
        const hold = await store.locks.hold(A);
        await hold.release();
        const other = foreign.store("session", foldRow);
        expect(await other.log.read(A, 1, 10)).toEqual([]);
        expect(await other.sessions.page({ max: 10 })).toEqual([]);
        await expect(other.log.append(idOf(2), 0, toNewEntries([created]))).rejects.toThrow(/row-level security/);
        await expect(other.log.append(A, 2, toNewEntries([said("no")]))).rejects.toThrow();
      }),
    );
    const left = await client.query("select from rkat.entries where realm = 'acme'");
    expect(left.rowCount).toBe(2);
    await client.query(`drop owned by ${role}`);
    await client.query(`drop role ${role}`);
    await client.end();
  });

  it("[F11] a role that floods another realm's channel costs that realm a few queries, not one a word", async () => {
    const url = await databaseFor("flood");
    const owner = await openDatabase({ url, realm: "acme" });
    const client = await connect(url);
    const role = `tenant_${Math.random().toString(36).slice(2)}`;
    await client.query(`create role ${role} login`);
    const stranger = await connect(as(role, url));
    let asked = 0;
    const counted: <F extends (...given: never[]) => unknown>(call: F) => F = (call) =>
      // It is called as the function it stands for.
      ((...given: Parameters<typeof call>) => {
        asked += 1;
        return call(...given);
      }) as typeof call;
    const { query, run, transaction, ...rest } = owner.connection;
    const connection: Connection = {
      ...rest,
      query: counted(query),
      run: counted(run),
      transaction: counted(transaction),
    };
    const channel = createChannel({ connection, realm: "acme", isPooled: false, warn: () => {} });
    const config = await openConfiguration(connection, { realm: "acme", channel, name: "acme's" });
    const locks = createSessionLocks({
      ...{ connection, realm: "acme", kind: "session", owner: "a process", leaseMs: 10_000 },
      onInterrupt: () => {},
      onNote: () => {},
    });
    const hold = await locks.hold(A);
    const last = Promise.withResolvers<void>();
    channel.listen((kind, what) => {
      if (kind === "interrupt") locks.interrupted(what);
      if (what === "last") last.resolve();
    });
    // The first word that comes through shows that the channel is open.
    const open = Promise.withResolvers<void>();
    channel.listen(() => open.resolve());
    const name = `rkat_${createHash("sha256").update("acme").digest("hex").slice(0, 16)}`;
    const notify = async (...words: readonly string[]): Promise<void> => {
      await stranger.query("select pg_notify($1, word) from unnest($2::text[]) word", [name, words]);
    };
    const opening = setInterval(() => void notify("config open"), 20);
    await open.promise.finally(() => clearInterval(opening));
    asked = 0;
    await notify(...Array.from({ length: 20_000 }, (_, at) => (at % 2 ? `config ${at}` : `interrupt ${A} ${at}`)));
    await notify("interrupt last");
    await last.promise;
    const other = await owner.config();
    await other.change(() => ({ agent: { model: "heron" } }));
    await vi.waitFor(() => expect(config.read().generation).toBe(1), { timeout: 20_000 });
    expect(asked).toBeLessThan(400);
    expect(hold.interrupted.aborted).toBe(false);
    config.close();
    await hold.release();
    await locks.close();
    await channel.close();
    await stranger.end();
    await owner.close();
    await client.query(`drop role ${role}`);
    await client.end();
  });

  it("[I4] takes over the tokens of a folder beside it, once, and none whose name another has", async () => {
    const [url, folder] = [await databaseFor("tokens"), mkdtempSync(join(tmpdir(), "rkat-tokens-"))];
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const given = { scopes: ["read" as const], labels: {}, created_at: new Date().toISOString() };
    const config = { ...defaultConfig(), store: { ...defaultConfig().store, url } };
    const warned: string[] = [];
    const open = async (realm: string) => {
      const store = await openTokens(folder, { config, realm, warn: (said) => warned.push(said) }, openDatabaseTokens);
      onTestFinished(store.close);
      return store;
    };
    const files = openTokenFiles(folder);
    await createToken(files, { name: "web", ...given });
    const [sha256] = files.read().map((token) => token.sha256);
    const [one, two] = [await open("acme"), await open("acme")];
    expect([files.read(), one.read(), two.read()]).toMatchObject([[], [{ name: "web", sha256 }], [{ sha256 }]]);
    await createToken(files, { name: "web", ...given });
    expect((await open("acme")).read()).toMatchObject([{ sha256 }]);
    expect(warned).toEqual([expect.stringMatching(/^token web of .* is not accepted: the realm has another/)]);
    await revokeToken(one, "web");
    await expect(revokeToken(one, "web")).rejects.toThrow("there is no token web; there are none");
    await files.remove("web");
    await vi.waitFor(() => expect([two.read(), two.isInUse()]).toEqual([[], true]), { timeout: 20_000 });
    const other = await open("globex");
    expect([other.read(), other.isInUse()]).toEqual([[], false]);
  });
});
