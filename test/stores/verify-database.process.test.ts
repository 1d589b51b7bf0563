import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { foldAgent } from "@rkat/core/agent-memory/tiers";
import { foldRow } from "@rkat/core/state/session-row";
import { copyStore, verifyDatabase } from "@rkat/node/store-places";
import { openDatabase } from "@rkat/postgres/open";
import { afterAll, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { useCommandLine } from "../support/command-line.ts";
import { idOf } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";
import { fillFolder } from "./random-store.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-verify-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** More sessions than one page of rows has. */
const COUNTS = { sessions: 230, agents: 2, blobs: 3, turnsMax: 2 };

/** Each with what is done to the database, and what is said of it. */
const DAMAGES: readonly (readonly [name: string, damage: string, said: RegExp])[] = [
  [
    "an entry is gone",
    `delete from rkat.entries where id = '${idOf(3)}' and seq = 2`,
    new RegExp(`^session ${idOf(3)} lacks seqs 2 to \\d+$`),
  ],
  [
    "the last entry is gone",
    `delete from rkat.entries e where id = '${idOf(4)}'
      and seq = (select max(seq) from rkat.entries where id = e.id)`,
    new RegExp(`^session ${idOf(4)} lacks seqs \\d+ to \\d+$`),
  ],
  [
    "a body is no JSON",
    `update rkat.entries set body = '{"kind":' where id = '${idOf(5)}' and seq = 1`,
    new RegExp(`^session ${idOf(5)} has a damaged entry at seq 1: `),
  ],
  [
    "a row says another thing than its log",
    `update rkat.sessions set folded = replace(folded, '"provider":"offline"', '"provider":"other"')
      where id = '${idOf(6)}'`,
    new RegExp(`^session ${idOf(6)} has a row that differs from the fold of its log: provider differs$`),
  ],
  [
    "a column says another thing than its log",
    `update rkat.sessions set is_archived = not is_archived where id = '${idOf(7)}'`,
    new RegExp(`^session ${idOf(7)} has a row that differs from the fold of its log: archived differs$`),
  ],
  [
    "a row ends before its log",
    `update rkat.sessions set last_seq = 1 where id = '${idOf(8)}'`,
    new RegExp(`^session ${idOf(8)} has entries beyond seq 1, where its row ends$`),
  ],
  [
    "a row is gone",
    `delete from rkat.sessions where id = '${idOf(229)}'`,
    new RegExp(`^entries of ${idOf(229)} exist without its row$`),
  ],
  [
    "an agent's memory is gone",
    `delete from rkat.entries where id = '${idOf(1_000_001)}' and seq = 1`,
    new RegExp(`^agent ${idOf(1_000_001)} lacks seqs 1 to \\d+$`),
  ],
  [
    "a blob is another",
    `update rkat.blobs set data = 'other' where id = (select max(id) from rkat.blobs)`,
    /^the row of sha256:\w+ is damaged: its content does not match its id$/,
  ],
];

withPostgres("rkat doctor --verify on a database", () => {
  const cli = useCommandLine();

  it("[F11] finds nothing wrong in what is whole, and names each damage in a sentence", async () => {
    const folder = mkdtempSync(join(root, "place-"));
    await fillFolder(folder, createRandom(11), COUNTS);
    const place = await databaseFor("verify");
    await copyStore({ place: folder }, { place, realm: "team" });
    const whole = await verifyDatabase({ place, realm: "team" });
    expect(whole).toMatchObject({ sessions: 230, agents: 2, blobs: 3, problems: [] });
    expect(await verifyDatabase({ place })).toMatchObject({ sessions: 0, records: 0, problems: [] });
    const words = ["doctor", "--verify", "--store", place, "--realm", "team"];
    const sound = await cli.run(words);
    expect(sound).toMatchObject({ code: 0, stdout: expect.stringContaining("230 sessions and 2 agents, 3 blobs") });
    const client = await connect(place);
    for (const [name, damage, said] of DAMAGES) {
      const known = (await verifyDatabase({ place, realm: "team" })).problems;
      await client.query(damage);
      const { problems } = await verifyDatabase({ place, realm: "team" });
      const news = problems.filter((problem) => !known.includes(problem));
      expect({ name, news }).toEqual({ name, news: [expect.stringMatching(said)] });
    }
    await client.end();
    const damaged = await cli.run([...words, "--json"]);
    expect(damaged.code).toBe(31);
    expect(JSON.parse(damaged.stdout)).toMatchObject({ ok: false, sessions: 229, blobs: 3 });
    // What lacks entries at the source is named, and nothing of it is written.
    const target = join(root, "target");
    const report = await copyStore({ place, realm: "team" }, { place: target });
    expect(report.problems).toContainEqual(
      expect.stringMatching(new RegExp(`^session ${idOf(3)}: it lacks seqs 2 to`)),
    );
    expect(report.problems).toContainEqual(expect.stringMatching(new RegExp(`^session ${idOf(4)}: it lacks seqs`)));
    expect((await copyStore({ place: target }, { place: join(root, "other") })).ok).toBe(true);
  }, 120_000);

  it("[F11] a realm that is closed leaves no connection behind", async () => {
    const url = await databaseFor("verify");
    const database = await openDatabase({ url, realm: "team" });
    const stores = [database.store("session", foldRow), database.store("agent", foldAgent)];
    await database.config();
    const client = await connect(url);
    const listening = async () => {
      const found = "select from pg_stat_activity where datname = current_database() and query like 'listen%'";
      return (await client.query(found)).rowCount;
    };
    while ((await listening()) === 0) await client.query("select pg_sleep(0.01)");
    for (const one of [...stores, database]) await one.close();
    // The server lets go of a connection a moment after its client has.
    for (let tries = 0; tries < 100 && (await listening()) !== 0; tries += 1)
      await client.query("select pg_sleep(0.05)");
    expect(await listening()).toBe(0);
    await client.end();
  });
});
