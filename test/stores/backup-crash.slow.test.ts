import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { backUpStore, restoreBackup, verifyBackup } from "@rkat/node/store-places";
import { afterAll, describe, expect, it } from "vitest";
import { below } from "../compaction/chances.ts";
import { isExpected } from "../crash/cycles.ts";
import { sessionIds } from "../crash/expected.ts";
import { createRandom } from "../crash/random.ts";
import { describeOutcomes } from "../faults/cases.ts";
import { compileFailingDisk, failingEnv, WHY_NOT } from "../faults/failing-disk.ts";
import { byEffort } from "../support/effort.ts";
import { created, idOf, said } from "../support/entries.ts";
import { testSeed } from "../support/seed.ts";
import type { BackupFault, BackupOrder, BackupOutcome } from "./backup-process.ts";
import { differenceOf, everythingInFolder, fillFolder } from "./random-store.ts";

const KILLS = byEffort({ usual: 3, full: 100 });
const LIVE_BACKUPS = byEffort({ usual: 2, full: 30 });
const IS_FULL = byEffort({ usual: false, full: true });
const TIMEOUT_MS = byEffort({ usual: 5, full: 120 }) * 60_000;

const root = mkdtempSync(join(tmpdir(), "rkat-backup-crash-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = (): string => mkdtempSync(join(root, "place-"));
const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "compiled") };

async function filled(seed: number): Promise<string> {
  const folder = newFolder();
  await fillFolder(folder, createRandom(seed), { sessions: 30, agents: 1, blobs: 25, turnsMax: 4 });
  return folder;
}

async function grow(folder: string, number: number): Promise<void> {
  const store = await openEmbeddedStore(folder);
  await store.log.append(idOf(5_000 + number), 0, toNewEntries([created, said(`later ${number}`)]));
  await store.blobs.put({ mediaType: "text/plain", data: Buffer.from(`later blob ${number}`) });
  await store.close();
}

/** Starts a process and kills it when it has told so much; whether the kill came before its end. */
async function killed(order: BackupOrder, random: () => number): Promise<boolean> {
  const script = join(import.meta.dirname, "backup-process.ts");
  const child = spawn(process.execPath, [script, JSON.stringify(order)], { env, stdio: ["ignore", "pipe", "pipe"] });
  const [killAfter, spins] = [1 + below(random, 35), below(random, 3_000_000)];
  let [lines, errors] = [0, ""];
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk: Buffer) => {
    lines += chunk.toString().split("\n").length - 1;
    if (lines < killAfter) return;
    // A moment more or less, so that the kill also hits what follows the last file.
    for (let spin = 0; spin < spins; spin += 1);
    child.kill("SIGKILL");
  });
  const [code, signal] = await once(child, "close");
  if (signal !== "SIGKILL" && code !== 0) throw new Error(`it ended by itself: ${errors}`);
  return signal === "SIGKILL";
}

describe("kill -9", () => {
  it(
    `[K2] at ${KILLS} moments of a back-up leaves the one before it whole, and the next one brings everything`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const [from, place] = [await filled(seed), join(newFolder(), "made")];
      let kills = 0;
      for (let number = 1; kills < KILLS; number += 1) {
        if (await killed({ does: "backup", from, place, to: "" }, random)) kills += 1;
        const isThere = existsSync(join(place, "manifest.jsonl"));
        if (isThere) expect({ seed, number, ...(await verifyBackup(place)) }).toMatchObject({ seed, problems: [] });
        // Every other time it is begun anew: what is there already takes no time to be killed in.
        if (isThere && number % 2 === 0) rmSync(join(place, "files"), { recursive: true });
        if (isThere && number % 2 === 0) rmSync(join(place, "manifest.jsonl"));
        await grow(from, number);
      }
      await backUpStore(from, place);
      expect(await verifyBackup(place)).toMatchObject({ leftovers: 0, problems: [] });
      const to = join(newFolder(), "restored");
      await restoreBackup(place, to);
      expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
    },
    TIMEOUT_MS,
  );

  it(
    `[K2] at ${KILLS} moments of a restore leaves nothing in the place, or all of it, and the next one goes on`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const [from, place] = [await filled(seed), join(newFolder(), "made")];
      await backUpStore(from, place);
      const whole = await everythingInFolder(from);
      let to = join(newFolder(), "restored");
      for (let kills = 0; kills < KILLS; ) {
        if (await killed({ does: "restore", from, place, to }, random)) kills += 1;
        if (!existsSync(to)) continue;
        expect({ seed, difference: differenceOf(whole, await everythingInFolder(to)) }).toEqual({ seed });
        to = join(newFolder(), "restored");
      }
      const report = await restoreBackup(place, to);
      expect({ seed, problems: report.verified?.problems }).toEqual({ seed, problems: [] });
      expect(existsSync(`${to}.restoring`)).toBe(false);
      expect(differenceOf(whole, await everythingInFolder(to))).toBeUndefined();
    },
    TIMEOUT_MS,
  );
});

describe("a realm that is written all the time", () => {
  it(
    `[K2] by processes that hand its sessions over is whole in each of ${LIVE_BACKUPS} back-ups, with all that was acknowledged before`,
    async () => {
      const from = newFolder();
      const acknowledged = new Map<string, number>();
      const children: ChildProcess[] = [1, 2].map(() => {
        const script = join(import.meta.dirname, "handing-process.ts");
        const child = spawn(process.execPath, [script, from], { env, stdio: ["ignore", "pipe", "inherit"] });
        let rest = "";
        child.stdout.on("data", (chunk: Buffer) => {
          const lines = `${rest}${chunk}`.split("\n");
          rest = lines.pop() ?? "";
          for (const line of lines) {
            const [id = "", seq] = line.split(" ");
            acknowledged.set(id, Math.max(Number(seq), acknowledged.get(id) ?? 0));
          }
        });
        return child;
      });
      try {
        while (acknowledged.size < sessionIds.length) await once(children[0]?.stdout ?? process, "data");
        const places = [join(newFolder(), "made"), join(newFolder(), "made.tar")];
        for (let number = 0; number < LIVE_BACKUPS; number += 1) {
          const before = new Map(acknowledged);
          const place = places[number % 2] ?? "";
          expect(await backUpStore(from, place)).toMatchObject({ ok: true, problems: [] });
          expect(await verifyBackup(place)).toMatchObject({ sessions: sessionIds.length, problems: [] });
          const to = join(newFolder(), "restored");
          await restoreBackup(place, to);
          const store = await openEmbeddedStore(to);
          for (const id of sessionIds) {
            const entries = await store.log.read(id, 1, Number.MAX_SAFE_INTEGER);
            const last = entries.at(-1);
            const end = last === undefined ? 0 : last.seq + last.span - 1;
            expect(end).toBeGreaterThanOrEqual(before.get(id) ?? 0);
            const bodies = entries.map(({ body }) => body);
            expect(isExpected(id, bodies, { from: 0, end })).toBe(true);
          }
          await store.close();
        }
      } finally {
        for (const child of children) child.kill("SIGKILL");
      }
    },
    TIMEOUT_MS,
  );
});

const library = compileFailingDisk(root);
const { ENOSPC, EIO, EROFS, EACCES } = constants.errno;
const SHORT_WRITE = -1;
const KINDS = [ENOSPC, EIO, EROFS, EACCES, SHORT_WRITE];
const [ONCE, UNTIL_MENDED] = [1, -1];
const FAULTS_A_PROCESS = 500;

describe(`a disk that fails on command${library === undefined ? ` (left out: ${WHY_NOT})` : ""}`, () => {
  it.skipIf(library === undefined)(
    "[K2] [F7] spoils no back-up and no restore, whichever call fails, and both work again when it does",
    async () => {
      const [from, lane] = [newFolder(), newFolder()];
      await fillFolder(from, createRandom(3), { sessions: 3, agents: 1, blobs: 3, turnsMax: 2 });
      const [disk, command, earlier] = [join(lane, "disk"), join(lane, "command"), join(lane, "earlier")];
      const place = join(disk, "made");
      await backUpStore(from, place);
      cpSync(place, earlier, { recursive: true });
      await grow(from, 1);
      writeFileSync(join(from, "config.toml"), '[agent]\nmodel = "offline"\n');
      mkdirSync(disk, { recursive: true });
      writeFileSync(command, Buffer.alloc(4_096));
      const suffer = (faults: readonly BackupFault[]) =>
        describeOutcomes<BackupFault, BackupOutcome>(faults, (left) => {
          const order: BackupOrder = {
            ...{ does: "faults", from, place, to: join(disk, "restored") },
            disk: { command, earlier, faults: left },
          };
          const script = join(import.meta.dirname, "backup-process.ts");
          const failing = { ...env, ...failingEnv(library ?? "", disk, command) };
          return spawn(process.execPath, [script, JSON.stringify(order)], { env: failing });
        });
      const deeds = ["backup", "restore"] as const;
      const counts = await suffer(deeds.map((does) => ({ does, first: 0, many: 0, errno: 0 })));
      expect(counts.outcomes.map(({ wrong }) => wrong)).toEqual([[], []]);
      const seed = testSeed();
      const random = createRandom(seed);
      const faults = counts.outcomes.flatMap(({ fault: { does }, calls }) =>
        KINDS.flatMap((errno) =>
          [ONCE, UNTIL_MENDED].flatMap((many) => {
            const all = Array.from({ length: calls }, (_, at) => at + 1);
            const positions = IS_FULL ? all : [1 + below(random, calls), 1 + below(random, calls)];
            return positions.map((first) => ({ does, first, many, errno }));
          }),
        ),
      );
      const outcomes: BackupOutcome[] = [];
      // A process is told of so many that they fit into one of its arguments.
      for (let at = 0; at < faults.length; at += FAULTS_A_PROCESS) {
        const reported = await suffer(faults.slice(at, at + FAULTS_A_PROCESS));
        expect({ seed, deaths: reported.deaths }).toEqual({ seed, deaths: [] });
        outcomes.push(...reported.outcomes);
      }
      expect({ seed, wrong: outcomes.filter(({ wrong }) => wrong.length > 0) }).toEqual({ seed, wrong: [] });
      expect(outcomes.filter(({ failed }) => failed > 0).length).toBeGreaterThan(faults.length / 2);
    },
    TIMEOUT_MS,
  );
});
