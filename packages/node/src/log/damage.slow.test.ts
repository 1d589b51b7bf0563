import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answered, created, idOf, said } from "../../../../test/support/entries.ts";
import { openStore, verifyFolder } from "./open.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-damage-"));
afterAll(() => rmSync(root, { recursive: true, force: true }), 120_000);

const A = idOf(1);
const LOG = join("log", "00000001.log");
const host = { pid: process.pid, isRunning: () => true };
const everything = Number.MAX_SAFE_INTEGER;

function openAt(folder: string) {
  const warnings: string[] = [];
  const store = openStore({ folder, foldRow, host, warn: (sentence) => warnings.push(sentence) });
  return { store, warnings };
}

/** A folder with three records of one session, and where the last of them begins. */
async function makeFolder(): Promise<{ folder: string; lastAt: number; size: number }> {
  const folder = mkdtempSync(join(root, "whole-"));
  const { store } = openAt(folder);
  await store.log.append(A, 0, toNewEntries([created, said("hi")]));
  await store.log.append(A, 2, toNewEntries([answered("one")]));
  const lastAt = statSync(join(folder, LOG)).size;
  await store.log.append(A, 3, toNewEntries([answered("two")]));
  await store.close();
  return { folder, lastAt, size: statSync(join(folder, LOG)).size };
}

describe("a damaged log", () => {
  let whole: Awaited<ReturnType<typeof makeFolder>>;
  beforeAll(async () => {
    whole = await makeFolder();
  });

  /** A copy with its log changed; without its index, as after a crash, or with it. */
  function damagedCopy(change: (path: string) => void, index: "kept" | "gone"): string {
    const folder = mkdtempSync(join(root, "copy-"));
    cpSync(whole.folder, folder, { recursive: true });
    for (const name of readdirSync(folder)) {
      if (name.startsWith("leases") || (index === "gone" && name.startsWith("index"))) rmSync(join(folder, name));
    }
    change(join(folder, LOG));
    return folder;
  }

  async function expectTailRepaired(folder: string, index: "kept" | "gone"): Promise<void> {
    const { store, warnings } = openAt(folder);
    expect((await store.log.read(A, 1, everything)).map(({ body }) => body)).toEqual([
      created,
      said("hi"),
      answered("one"),
    ]);
    expect(await store.sessions.get(A)).toMatchObject({ last_seq: 3 });
    await store.log.append(A, 3, toNewEntries([answered("instead")]));
    expect(warnings.length).toBeGreaterThan(0);
    await store.close();
    const again = openAt(folder);
    expect((await again.store.log.read(A, 4, everything)).map(({ body }) => body)).toEqual([answered("instead")]);
    expect(again.warnings).toEqual([]);
    await again.store.close();
    // An index that knew of the record proves that it was there.
    const lost = index === "kept" ? [`session ${A} had 4 events, and 3 are left`] : [];
    expect((await verifyFolder(folder, foldRow)).problems).toEqual(lost);
  }

  it("[F7] cut off at any byte of its last record is repaired, with a warning, and the rest is intact", async () => {
    for (let end = whole.lastAt + 1; end < whole.size; end += 1) {
      const index = end % 2 === 0 ? "kept" : "gone";
      await expectTailRepaired(
        damagedCopy((path) => truncateSync(path, end), index),
        index,
      );
    }
  }, 240_000);

  it("[F7] with any byte of its last record flipped is repaired, with a warning, and the rest is intact", async () => {
    for (let at = whole.lastAt; at < whole.size; at += 1) {
      const index = at % 2 === 0 ? "kept" : "gone";
      await expectTailRepaired(
        damagedCopy((path) => flip(path, at), index),
        index,
      );
    }
  }, 240_000);

  it("[F7] with a byte flipped earlier is told, never cut off, and what stands before is read", async () => {
    for (let at = 0; at < whole.lastAt; at += 17) {
      for (const index of ["kept", "gone"] as const) {
        const folder = damagedCopy((path) => flip(path, at), index);
        const { store } = openAt(folder);
        const read = store.log.read(A, 1, everything);
        await expect(read).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
        await store.close();
        expect((await verifyFolder(folder, foldRow)).problems.length).toBeGreaterThan(0);
        expect(statSync(join(folder, LOG)).size).toBe(whole.size);
      }
    }
  }, 240_000);

  it("[F7] that is gone is told by verify, before and after it is opened again", async () => {
    for (const change of [(path: string) => truncateSync(path, 0), (path: string) => rmSync(path)]) {
      const folder = damagedCopy(change, "kept");
      const lost = [`session ${A} had 4 events, and 0 are left`];
      expect((await verifyFolder(folder, foldRow)).problems).toEqual(lost);
      const { store, warnings } = openAt(folder);
      expect(warnings).toContain(lost[0]);
      await store.close();
      expect((await verifyFolder(folder, foldRow)).problems).toEqual(lost);
    }
  });

  it("[F4] an index or leases full of garbage are begun anew, and everything is read again", async () => {
    const spoilt: ((file: string) => void)[] = [
      (file) => writeFileSync(file, "garbage ".repeat(2_500)),
      (file) => truncateSync(file, 100),
    ];
    for (const spoil of spoilt) {
      const folder = damagedCopy(() => {}, "kept");
      const index = join(folder, "index.db");
      spoil(index);
      expect((await verifyFolder(folder, foldRow)).problems).toEqual([
        `${index} is damaged; the next command makes it anew from the logs`,
      ]);
      const { store, warnings } = openAt(folder);
      expect(await store.log.read(A, 1, everything)).toHaveLength(4);
      expect(warnings).toEqual([expect.stringMatching(/is damaged: .*; it is made anew from the logs$/)]);
      await store.close();
      const leases = readdirSync(folder).find((name) => name.startsWith("leases")) ?? "";
      spoil(join(folder, leases));
      const again = openAt(folder);
      await (await again.store.locks.hold(A)).release();
      await again.store.close();
    }
  });

  it("[F4] an index whose end is missing is caught up from the log", async () => {
    const folder = damagedCopy(() => {}, "kept");
    const index = join(folder, "index.db");
    const bytes = statSync(index).size;
    for (const left of [bytes - 1, bytes + 4_096]) {
      truncateSync(index, left);
      expect((await verifyFolder(folder, foldRow)).problems).toEqual([]);
      const { store, warnings } = openAt(folder);
      expect(await store.log.read(A, 1, everything)).toHaveLength(4);
      expect(warnings).toEqual([]);
      await store.close();
    }
  });

  it("[F7] a blob whose bytes are others than its id says is refused, and is whole when it is kept again", async () => {
    const folder = mkdtempSync(join(root, "blobs-"));
    const { store } = openAt(folder);
    const blob = { mediaType: "text/plain", data: Buffer.from("all the lines of a report") };
    const id = await store.blobs.put(blob);
    const path = join(folder, "blobs", id.slice(7, 9), id.slice(7));
    const bytes = readFileSync(path);
    for (const at of bytes.keys()) {
      flip(path, at);
      await expect(store.blobs.get(id)).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
      writeFileSync(path, bytes);
    }
    truncateSync(path, bytes.length - 1);
    await expect(store.blobs.get(id)).rejects.toThrow(`is damaged: it is not ${id}`);
    await store.blobs.put(blob);
    expect(await store.blobs.get(id)).toEqual(blob);
    await store.close();
  });

  it("[F7] a folder named like a segment is none", async () => {
    const folder = damagedCopy(() => {}, "gone");
    mkdirSync(join(folder, "log", "00000007.log"));
    const { store } = openAt(folder);
    expect(await store.log.read(A, 1, everything)).toHaveLength(4);
    await store.close();
  });

  it("[F4] loses its index without harm: everything is read again from the log", async () => {
    const folder = damagedCopy(() => {}, "gone");
    const { store, warnings } = openAt(folder);
    expect(await store.log.read(A, 1, everything)).toHaveLength(4);
    expect(await store.sessions.get(A)).toMatchObject({ last_seq: 4, message_count: 3 });
    expect(warnings).toEqual([]);
    await store.close();
  });
});

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 0x40;
  writeFileSync(path, bytes);
}
