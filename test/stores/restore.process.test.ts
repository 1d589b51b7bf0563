import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { knownBackups } from "@rkat/node/backup/known-backups";
import { verifyStore } from "@rkat/node/open-runtime";
import { backUpStore, listBackups, restoreBackup } from "@rkat/node/store-places";
import { afterAll, describe, expect, it } from "vitest";
import { differenceOf, everythingInFolder, fillRealm } from "./random-store.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-restore-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = (): string => mkdtempSync(join(root, "place-"));
const newPlace = (): string => join(newFolder(), "made");

async function filled(seed: number): Promise<string> {
  const folder = newFolder();
  await fillRealm(folder, seed);
  return folder;
}

describe("a restore", () => {
  it("[K2] refuses a place that is not empty, and changes nothing there", async () => {
    const [from, place] = [await filled(13), newPlace()];
    await backUpStore(from, place);
    const full = newFolder();
    writeFileSync(join(full, "thesis.txt"), "years of work");
    await expect(restoreBackup(place, full)).rejects.toThrow("is not empty; name a folder that is new or empty");
    await expect(restoreBackup(place, join(full, "thesis.txt"))).rejects.toThrow("is no folder");
    await expect(restoreBackup(place, from)).rejects.toThrow("is not empty");
    await expect(restoreBackup(newFolder(), newPlace())).rejects.toThrow("is no finished back-up");
    await expect(restoreBackup(join(root, "nowhere"), newPlace())).rejects.toThrow("is not there");
    expect(readdirSync(full)).toEqual(["thesis.txt"]);
  });

  it("[K2] that was stopped goes on with what is there, and not with another back-up's", async () => {
    const [from, place, to] = [await filled(14), newPlace(), newPlace()];
    await backUpStore(from, place);
    const stop = new AbortController();
    const stopped = restoreBackup(place, to, {
      signal: stop.signal,
      progress: (done, total = 0) => {
        if (done > total / 2) stop.abort();
      },
    });
    await expect(stopped).rejects.toThrow();
    expect(existsSync(to)).toBe(false);
    const other = newPlace();
    await backUpStore(await filled(15), other);
    await expect(restoreBackup(other, to)).rejects.toThrow("is an unfinished restore of another back-up");
    const { resumed, files } = await restoreBackup(place, to);
    expect(resumed).toBeGreaterThan(0);
    expect(resumed).toBeLessThan(files);
    expect(existsSync(`${to}.restoring`)).toBe(false);
    expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
  });

  it("[K2] of a tar that was unpacked by another program is one of a folder", async () => {
    const [from, place] = [await filled(16), join(newFolder(), "made.tar")];
    await backUpStore(from, place);
    const unpacked = newFolder();
    execFileSync("tar", ["xf", place], { cwd: unpacked });
    const to = newPlace();
    await restoreBackup(unpacked, to);
    expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
    expect((await verifyStore(to)).problems).toEqual([]);
  });
});

describe("the back-ups of a realm", () => {
  it("[K2] are known to it, and to whoever restores one, with what became of them", async () => {
    const from = await filled(17);
    const [kept, gone, spoilt] = [newPlace(), newPlace(), join(newFolder(), "made.tar")];
    expect(await listBackups(from)).toEqual([]);
    for (const place of [kept, gone, spoilt]) await backUpStore(from, place);
    rmSync(gone, { recursive: true });
    truncateSync(spoilt, 700);
    const known = await knownBackups(from);
    const states = Object.fromEntries(known.map(({ place, state }) => [place, state]));
    expect(states).toEqual({ [kept]: "there", [gone]: "missing", [spoilt]: "unreadable" });
    const to = newPlace();
    await restoreBackup(kept, to);
    expect((await knownBackups(to)).map(({ place }) => place)).toContain(kept);
  });

  it("[K2] are as old as what they hold: a stopped one is told, and counts from the last that was whole", async () => {
    const [from, place] = [await filled(18), newPlace()];
    const { at_ms } = await backUpStore(from, place);
    expect(await knownBackups(from)).toEqual([{ place, at_ms, state: "there" }]);
    const stopped = backUpStore(from, place, { signal: AbortSignal.abort() });
    await expect(stopped).rejects.toThrow();
    expect(await knownBackups(from)).toEqual([{ place, at_ms, state: "unfinished" }]);
    const again = await backUpStore(from, place);
    expect(await knownBackups(from)).toEqual([{ place, at_ms: again.at_ms, state: "there" }]);
  });
});
