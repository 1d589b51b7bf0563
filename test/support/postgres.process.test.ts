import { expect, it } from "vitest";
import { databaseFor, withPostgres } from "./postgres.ts";
import { connect, startPostgres } from "./postgres-server.ts";

withPostgres("a PostgreSQL server for tests", () => {
  it("gives every test an empty database of its own, and writes to disk before it says so", async () => {
    const urls = await Promise.all([databaseFor("mine"), databaseFor("mine")]);
    expect(new Set(urls).size).toBe(2);
    for (const url of urls) {
      const client = await connect(url);
      await client.query("create table kept (word text primary key)");
      const settings = "select current_setting('fsync') fsync, current_setting('synchronous_commit') commit";
      expect((await client.query(settings)).rows).toEqual([{ fsync: "on", commit: "on" }]);
      await client.end();
    }
  });

  it("can be stopped as by a crash, comes back with what was committed, and is gone when closed", async () => {
    const server = await startPostgres();
    const url = await server.createDatabase("crash");
    const before = await connect(url);
    await before.query("create table kept (word text)");
    await before.query("insert into kept values ('committed')");
    await server.stopNow();
    await expect(before.query("select 1")).rejects.toThrow();
    await server.restart();
    const after = await connect(url);
    expect((await after.query("select word from kept")).rows).toEqual([{ word: "committed" }]);
    await after.end();
    await server.close();
    await expect(connect(server.url)).rejects.toMatchObject({ code: "ECONNREFUSED" });
  }, 120_000);
});
