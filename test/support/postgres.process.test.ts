import connect from "postgres";
import { expect, it } from "vitest";
import { databaseFor, withPostgres } from "./postgres.ts";
import { startPostgres } from "./postgres-server.ts";

withPostgres("a PostgreSQL server for tests", () => {
  it("gives every test an empty database of its own, and writes to disk before it says so", async () => {
    const urls = await Promise.all([databaseFor("mine"), databaseFor("mine")]);
    expect(new Set(urls).size).toBe(2);
    for (const url of urls) {
      const sql = connect(url, { max: 1 });
      await sql`create table kept (word text primary key)`;
      const [row] = await sql`select current_setting('fsync') fsync, current_setting('synchronous_commit') commit`;
      expect(row).toEqual({ fsync: "on", commit: "on" });
      await sql.end();
    }
  });

  it("can be stopped as by a crash, comes back with what was committed, and is gone when closed", async () => {
    const server = await startPostgres();
    const sql = connect(await server.createDatabase("crash"), { max: 1, onnotice: () => {} });
    await sql`create table kept (word text)`;
    await sql`insert into kept values ('committed')`;
    await server.stopNow();
    await expect(sql`select 1`).rejects.toThrow();
    await server.restart();
    expect(await sql`select word from kept`).toEqual([{ word: "committed" }]);
    await sql.end();
    await server.close();
    await expect(connect(server.url, { max: 1 })`select 1`).rejects.toMatchObject({ code: "ECONNREFUSED" });
  }, 120_000);
});
