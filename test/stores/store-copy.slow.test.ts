import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { copyStore, verifyDatabase } from "@rkat/node/store-places";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { created, idOf, said } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";
import { fc } from "../support/property.ts";
import { differenceOf, everythingInDatabase, everythingInFolder, fillFolder } from "./random-store.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-copy-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const newFolder = (): string => mkdtempSync(join(root, "place-"));
const SMALL = { sessions: 12, agents: 2, blobs: 5, turnsMax: 4 };

async function filled(seed: number, counts = SMALL): Promise<string> {
  const folder = newFolder();
  await fillFolder(folder, createRandom(seed), counts);
  return folder;
}

/** Appends to a session of a folder. */
async function append(folder: string, number: number, text: string): Promise<void> {
  const store = await openEmbeddedStore(folder);
  const end = (await store.sessions.get(idOf(number)))?.last_seq ?? 0;
  await store.log.append(idOf(number), end, toNewEntries([end === 0 ? created : said(text)]));
  await store.close();
}

describe("a copy between folders", () => {
  it("[F11] is equal entry by entry, with its times, and again nothing is left to do", async () => {
    const from = await filled(1);
    const to = join(newFolder(), "new");
    const report = await copyStore({ place: from }, { place: to });
    expect(report).toMatchObject({ ok: true, sessions: { total: 12, copied: 12 }, agents: { total: 2, copied: 2 } });
    expect(report).toMatchObject({ blobs: { total: 5, copied: 5, equal: 0 }, configuration: "copied" });
    expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
    const again = await copyStore({ place: from }, { place: to });
    expect(again).toMatchObject({ ok: true, sessions: { equal: 12, entries: 0 }, blobs: { copied: 0, equal: 5 } });
    expect(again.configuration).toBe("equal");
  });

  it("[F11] brings what was added since, and leaves alone what went on, or has another past, at the target", async () => {
    const from = await filled(2);
    const to = newFolder();
    await copyStore({ place: from }, { place: to });
    await append(from, 1, "more at the source");
    await append(to, 2, "more at the target");
    await append(from, 3, "one thing");
    await append(to, 3, "another");
    await append(from, 99, "begun since");
    const before = await everythingInFolder(to);
    const report = await copyStore({ place: from }, { place: to });
    expect(report.ok).toBe(false);
    expect(report.sessions).toMatchObject({ total: 13, copied: 1, continued: 1, equal: 9 });
    expect([...report.problems].sort()).toEqual([
      expect.stringMatching(`^session ${idOf(2)} has gone on at ${to} after seq \\d+, where the source ends; nothing`),
      expect.stringMatching(`^session ${idOf(3)} has another past at ${to}: the entry at seq \\d+ differs; nothing`),
    ]);
    const [source, after] = [await everythingInFolder(from), await everythingInFolder(to)];
    for (const number of [2, 3]) expect(after.sessions.get(idOf(number))).toEqual(before.sessions.get(idOf(number)));
    for (const number of [1, 99]) expect(after.sessions.get(idOf(number))).toEqual(source.sessions.get(idOf(number)));
  });

  it("[F11] goes on in the middle of a session that is longer than a page, and refuses one that is ahead there", async () => {
    const [from, to] = [newFolder(), newFolder()];
    const [source, target] = [await openEmbeddedStore(from), await openEmbeddedStore(to)];
    for (const [number, there] of [
      [1, 333],
      [2, 100],
      [3, 640],
    ] as const) {
      let seq = 0;
      for (let entry = 0; entry < 640; entry += 1) {
        // Several entries of one time, and a time that a page ends in the middle of.
        const atMs = 1_700_000_000_000 + Math.floor(entry / 7);
        const news = toNewEntries([entry === 0 ? created : said(`entry ${entry}`)]);
        const last = (await source.log.append(idOf(number), seq, news, atMs)).at(-1);
        if (entry < there) await target.log.append(idOf(number), seq, news, atMs);
        seq = last === undefined ? seq : last.seq + last.span - 1;
      }
    }
    await target.log.append(idOf(3), 640, toNewEntries([said("more")]));
    await source.close();
    await target.close();
    const report = await copyStore({ place: from }, { place: to });
    expect(report.sessions).toEqual({ total: 3, copied: 0, continued: 2, equal: 0, entries: 307 + 540 });
    expect(report.problems).toEqual([
      expect.stringContaining(`session ${idOf(3)} has gone on at ${to} after seq 640,`),
    ]);
    const [given, kept] = [await everythingInFolder(from), await everythingInFolder(to)];
    for (const number of [1, 2]) expect(kept.sessions.get(idOf(number))).toEqual(given.sessions.get(idOf(number)));
  });

  it("[F11] that is dry writes nothing, and makes no folder", async () => {
    const from = await filled(3);
    const to = join(newFolder(), "not", "there");
    const report = await copyStore({ place: from }, { place: to }, { dryRun: true });
    expect(report).toMatchObject({ ok: true, dry_run: true, sessions: { copied: 12 }, agents: { copied: 2 } });
    expect(() => readdirSync(to)).toThrow("ENOENT");
  });

  it("[F11] tells of a session that is being written, and verifies what there was", async () => {
    const from = await filled(4);
    const to = newFolder();
    const store = await openEmbeddedStore(from);
    const hold = await store.locks.hold(idOf(5));
    const report = await copyStore({ place: from }, { place: to });
    expect(report).toMatchObject({ ok: false, problems: [], sessions: { copied: 12 } });
    expect(report.behind).toEqual([
      expect.stringContaining(`session ${idOf(5)} is being written at ${from}: it was copied up to`),
    ]);
    await hold.release();
    await store.close();
    expect(await copyStore({ place: from }, { place: to })).toMatchObject({ ok: true, sessions: { equal: 12 } });
  });

  it("[F11] leaves a configuration that differs as it is, unless that is asked for", async () => {
    const from = await filled(5);
    const to = newFolder();
    mkdirSync(join(to, "log"));
    writeFileSync(join(to, "config.toml"), '[agent]\nmodel = "another"\n');
    const report = await copyStore({ place: from }, { place: to });
    expect(report).toMatchObject({ ok: false, configuration: "kept" });
    expect(report.problems).toEqual([expect.stringContaining("--force-config replaces it")]);
    expect(readFileSync(join(to, "config.toml"), "utf8")).toContain("another");
    const forced = await copyStore({ place: from }, { place: to }, { forceConfig: true });
    expect(forced).toMatchObject({ ok: true, configuration: "copied" });
    expect(readFileSync(join(to, "config.toml"), "utf8")).toContain("offline");
  });

  it("[F11] refuses one place under two names, a folder in the other, and folders that keep nothing", async () => {
    const from = await filled(6);
    const link = join(newFolder(), "link");
    symlinkSync(from, link);
    await expect(copyStore({ place: from }, { place: link })).rejects.toThrow("are the same place");
    await expect(copyStore({ place: from }, { place: join(from, "agents") })).rejects.toThrow("lies in");
    const project = newFolder();
    await expect(copyStore({ place: project }, { place: newFolder() })).rejects.toThrow("nothing is kept in");
    mkdirSync(join(project, ".rkat", "realms"), { recursive: true });
    cpSync(from, join(project, ".rkat", "realms", "mine"), { recursive: true });
    await expect(copyStore({ place: project }, { place: newFolder() })).rejects.toThrow(
      /did you mean .*realms\/mine\?/,
    );
    await expect(copyStore({ place: from }, { place: project })).rejects.toThrow("holds other things");
    const secret = "mysql://me:hush@db/x";
    await expect(copyStore({ place: from }, { place: secret })).rejects.toThrow(/^a store at mysql:\/\/ is not known/);
    expect(readdirSync(project)).toEqual([".rkat"]);
  });

  it("[F11] tells of a session that is damaged at the source, writes nothing of it, and copies the others", async () => {
    const from = await filled(7);
    const to = newFolder();
    const whole = await everythingInFolder(from);
    const segment = join(from, "log", readdirSync(join(from, "log"))[0] ?? "");
    const bytes = readFileSync(segment);
    const at = Math.floor(bytes.length / 2);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(segment, bytes);
    const report = await copyStore({ place: from }, { place: to });
    expect(report.ok).toBe(false);
    expect(report.problems).toEqual([expect.stringMatching(/^session \S+: it cannot be read at /)]);
    expect(report.sessions).toMatchObject({ total: 12, copied: 11 });
    const copied = await everythingInFolder(to);
    for (const [id, entries] of copied.sessions) expect(entries).toEqual(whole.sessions.get(id));
    expect(report.problems[0]).toContain([...whole.sessions.keys()].find((id) => !copied.sessions.has(id)) ?? "none");
  });
});

withPostgres("a copy over a database", () => {
  it("[F11] there and back is equal entry by entry, whatever the sessions are", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), async (seed) => {
        const [from, back] = [await filled(seed), newFolder()];
        const place = await databaseFor("copy");
        expect(await copyStore({ place: from }, { place })).toMatchObject({ ok: true, problems: [], behind: [] });
        expect(await copyStore({ place }, { place: back })).toMatchObject({ ok: true, problems: [], behind: [] });
        const [given, kept, returned] = [
          await everythingInFolder(from),
          await everythingInDatabase(place),
          await everythingInFolder(back),
        ];
        expect(differenceOf(given, kept)).toBeUndefined();
        expect(differenceOf(given, returned)).toBeUndefined();
        expect(readFileSync(join(back, "config.toml"), "utf8")).toContain('model = "offline"');
        expect(await verifyDatabase({ place })).toMatchObject({ sessions: 12, agents: 2, blobs: 5, problems: [] });
      }),
      { numRuns: byEffort({ usual: 3, full: 50 }), endOnFailure: true },
    );
  }, 300_000);

  it("[F11] of a realm to another of the same database, and not to itself", async () => {
    const place = await databaseFor("copy");
    const from = await filled(8);
    await copyStore({ place: from }, { place, realm: "one" });
    const named = place.replace("127.0.0.1", "localhost");
    await expect(copyStore({ place, realm: "one" }, { place: named, realm: "one" })).rejects.toThrow("same place");
    expect(await copyStore({ place, realm: "one" }, { place, realm: "two" })).toMatchObject({ ok: true });
    expect(differenceOf(await everythingInFolder(from), await everythingInDatabase(place, "two"))).toBeUndefined();
    expect((await everythingInDatabase(place)).sessions.size).toBe(0);
  });

  it("[F11] finds what was changed at the target in between, and names it", async () => {
    const place = await databaseFor("copy");
    const from = await filled(9);
    await copyStore({ place: from }, { place });
    const client = await connect(place);
    await client.query("update rkat.entries set at_ms = at_ms + 1 where id = $1 and seq = 2", [idOf(4)]);
    await client.query("update rkat.blobs set data = 'other' where id = (select min(id) from rkat.blobs)");
    await client.end();
    const report = await copyStore({ place: from }, { place });
    expect(report.ok).toBe(false);
    expect(report.problems).toEqual([
      expect.stringMatching(/^sha256:\w+ cannot be read at realm default of 127.0.0.1:\d+\/\w+: .*damaged/),
      expect.stringMatching(
        new RegExp(`^session ${idOf(4)} has another past at .*: the entry at seq 2 differs; nothing`),
      ),
    ]);
  });

  it("[F11] two at once come to the same, and neither writes anything twice", async () => {
    const from = await filled(10, { sessions: 60, agents: 2, blobs: 5, turnsMax: 4 });
    for (const place of [await databaseFor("copy"), newFolder()]) {
      const reports = await Promise.all([copyStore({ place: from }, { place }), copyStore({ place: from }, { place })]);
      expect(reports.map(({ ok, problems }) => ({ ok, problems }))).toEqual([
        { ok: true, problems: [] },
        { ok: true, problems: [] },
      ]);
      const kept = place.startsWith("postgres") ? everythingInDatabase(place) : everythingInFolder(place);
      expect(differenceOf(await everythingInFolder(from), await kept)).toBeUndefined();
    }
  }, 60_000);
});
