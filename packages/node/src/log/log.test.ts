import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EntryBody } from "@rkat/core/contract/entry";
import type { Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { afterAll, describe, expect, it } from "vitest";
import { closed, created, idOf, said } from "../../../../test/support/entries.ts";
import { openStore, verifyFolder } from "./open.ts";
import { nodeSegmentIo } from "./segments.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-log-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const A = idOf(1);
const PAGE = 16;

/** A store that counts what it reads of its logs. */
function openCounting(folder: string) {
  let bytesRead = 0;
  const io = {
    ...nodeSegmentIo,
    read: (...args: Parameters<typeof nodeSegmentIo.read>): number => {
      const bytes = nodeSegmentIo.read(...args);
      bytesRead += bytes;
      return bytes;
    },
  };
  const host = { pid: process.pid, isRunning: () => true };
  return { store: openStore({ folder, foldRow, host, io }), read: () => bytesRead };
}

async function seqsByPage({ log }: Pick<Store, "log">): Promise<readonly number[]> {
  const seqs: number[] = [];
  for (;;) {
    const page = await log.read(A, (seqs.at(-1) ?? 0) + 1, PAGE);
    if (page.length === 0) return seqs;
    seqs.push(...page.map(({ seq }) => seq));
  }
}

const upTo = (end: number): readonly number[] => Array.from({ length: end }, (_, at) => at + 1);

describe("a log that is read page by page", () => {
  it("[L1] is read in pages, with other work in between, also a record of many entries", async () => {
    const { store } = openCounting(join(root, "pages"));
    const messages = Array.from({ length: 5_000 }, (_, at) => said(`number ${at}`));
    const [first] = await store.log.append(A, 0, toNewEntries([created]));
    const after = first?.span ?? 0;
    const added = await store.log.append(A, after, toNewEntries(messages));
    let [rounds, isOver] = [0, false];
    const count = (): void => {
      rounds += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const entries = await store.log.read(A, 1, Number.MAX_SAFE_INTEGER);
    isOver = true;
    expect(entries).toEqual([first, ...added]);
    expect(rounds).toBeGreaterThanOrEqual(5);
    await store.close();
  });

  it("[F4] [F10] reads a fork, which is one record, once", async () => {
    const { store, read } = openCounting(mkdtempSync(join(root, "fork-")));
    const long = "A long answer. ".repeat(100);
    const bodies: EntryBody[] = [created, ...Array.from({ length: 499 }, () => said(long))];
    await store.log.append(A, 0, toNewEntries(bodies));
    const bytes = 500 * long.length;
    expect(await seqsByPage(store)).toEqual(upTo(500));
    expect(read()).toBeLessThan(2 * bytes);
    await store.close();
  });

  it("[F4] [F11] has what this and other processes add between two pages, and after they saved it", async () => {
    const folder = mkdtempSync(join(root, "two-"));
    const { store: one } = openCounting(folder);
    const { store: other } = openCounting(folder);
    await one.log.append(A, 0, toNewEntries([created]));
    let end = 1;
    for (const store of [one, one, other, one, other, other, one]) {
      for (const reader of [one, other]) expect(await seqsByPage(reader)).toEqual(upTo(end));
      await store.log.append(A, end, toNewEntries([said(`at ${end}`)]));
      end += 1;
    }
    await other.close();
    expect(await seqsByPage(one)).toEqual(upTo(end));
    await one.log.append(A, end, toNewEntries([said("the last word")]));
    expect(await seqsByPage(one)).toEqual(upTo(end + 1));
    await one.close();
    const { store: again } = openCounting(folder);
    expect(await seqsByPage(again)).toEqual(upTo(end + 1));
    await again.close();
  });

  it("[F4] [F9] takes a long append in pieces: others append meanwhile, nobody to the same log, and all is kept", async () => {
    const folder = mkdtempSync(join(root, "long-"));
    const host = { pid: process.pid, isRunning: () => true };
    // Saved often, so that the index is written while the long one is under way.
    const sizes = { segmentBytes: 40_000, checkpointBytes: 2_000 };
    const store = openStore({ folder, foldRow, host, sizes });
    const bodies: EntryBody[] = [
      created,
      ...Array.from({ length: 999 }, (_, at) => said(`text ${at}, [[{}],[1,{"kind":"`)),
    ];
    let isLongOver = false;
    const long = store.log.append(A, 0, toNewEntries(bodies)).finally(() => {
      isLongOver = true;
    });
    await expect(store.log.append(A, 0, toNewEntries([created]))).rejects.toMatchObject({ code: "SESSION_BUSY" });
    let others = 0;
    for (; !isLongOver; others += 1)
      await store.log.append(idOf(2 + others), 0, toNewEntries([created, said("short")]));
    // How many they are is the machine's; were the long one a single piece, there would be none.
    expect(others).toBeGreaterThan(0);
    const written = await long;
    expect(written.map(({ body }) => body)).toEqual(bodies);
    await store.close();
    const again = openStore({ folder, foldRow, host, sizes });
    expect(await again.log.read(A, 1, Number.MAX_SAFE_INTEGER)).toEqual(written);
    expect(await again.log.read(A, 500, 7)).toEqual(written.slice(499, 506));
    expect((await again.sessions.get(A))?.last_seq).toBe(1_000);
    expect(await again.sessions.page({ max: 10_000 })).toHaveLength(others + 1);
    for (let other = 0; other < others; other += 1) {
      expect(await again.log.read(idOf(2 + other), 1, 9)).toHaveLength(2);
    }
    await again.close();
  });
});

describe("a folder of a newer version", () => {
  it("[P1] [F4] is refused by an older program, which changes nothing in it", async () => {
    const folder = mkdtempSync(join(root, "newer-"));
    const { store } = openCounting(folder);
    await store.log.append(A, 0, toNewEntries([created]));
    await store.close();
    const path = join(folder, "format");
    expect(readFileSync(path, "utf8")).toBe("3 3\n");
    writeFileSync(path, "4 4\n");
    const before = readdirSync(folder);
    const refused = {
      code: "SESSION_STORE_ERROR",
      message: expect.stringMatching(/is of version 4 and .* knows 3; update rkat$/),
    };
    expect(() => openCounting(folder)).toThrow(expect.objectContaining(refused));
    await expect(verifyFolder(folder, foldRow)).rejects.toMatchObject(refused);
    expect(readdirSync(folder)).toEqual(before);
    // A folder of before versions were written down, and one whose file is damaged.
    for (const damage of [undefined, "6 2\n", "", "2"]) {
      rmSync(path);
      if (damage !== undefined) writeFileSync(path, damage);
      const { store: again } = openCounting(folder);
      expect(await seqsByPage(again)).toEqual([1]);
      await again.close();
      expect(readFileSync(path, "utf8")).toBe("3 3\n");
    }
  });
});

describe("a look for open turns", () => {
  it("[P1] [F4] reads as much among many sessions as among few, also before they are in the index", async () => {
    const looks: number[] = [];
    for (const sessions of [20, 500]) {
      let reads = 0;
      const counted: typeof foldRow = (...given) =>
        new Proxy(foldRow(...given), {
          get: (row, name, receiver) => {
            reads += 1;
            return Reflect.get(row, name, receiver);
          },
        });
      const host = { pid: process.pid, isRunning: () => true };
      const store = openStore({ folder: mkdtempSync(join(root, "open-")), foldRow: counted, host, now: () => 1 });
      for (let at = 0; at < sessions; at += 1) {
        const opened = at < 10 ? [said("Hello.")] : at < 20 ? [said("Hello."), closed] : [];
        await store.log.append(idOf(at + 1), 0, toNewEntries([created, ...opened]));
      }
      reads = 0;
      expect(await store.sessions.page({ open: true, archived: false, max: 100 })).toHaveLength(10);
      looks.push(reads);
      await store.close();
    }
    expect(looks[1]).toBe(looks[0]);
  });
});
