import { cpSync, existsSync, fstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { bootId } from "@rkat/core/tools/process-identity";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { answered, created, idOf, said } from "../../../../test/support/entries.ts";
import { backUpFolder } from "../backup/backup.ts";
import { keepsPlain } from "../sealed-realm.ts";
import { AT_REST_MS } from "./at-rest.ts";
import { describeSelf, openLeases } from "./leases.ts";
import { openLogIndex } from "./log-index.ts";
import { openStore, verifyFolder } from "./open.ts";
import { FIRST_MS, packAtRest } from "./pack-at-rest.ts";
import { isPackedHead } from "./packed-segment.ts";
import { scanHere } from "./scan-folder.ts";
import { nodeSegmentIo, openSegments, type SegmentIo } from "./segments.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-packed-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
afterEach(() => void vi.useRealTimers());

const SESSIONS = 9;
const ROUNDS = 50;
const SECRET = "the password of the boat is heron-41";
const everything = Number.MAX_SAFE_INTEGER;
const UNREAD = "gzip, not looked at to its end";
const ids = Array.from({ length: SESSIONS }, (_, at) => idOf(at + 1));
const WRITTEN_MS = Date.parse("2026-01-01");
const later = () => WRITTEN_MS + AT_REST_MS;
const host = { pid: process.pid, isRunning: () => true };
const quiet = new AbortController().signal;

function open(folder: string, now = () => WRITTEN_MS, io: SegmentIo = nodeSegmentIo) {
  const warnings: string[] = [];
  return {
    store: openStore({ folder, foldRow, host, now, io, warn: (sentence) => warnings.push(sentence) }),
    warnings,
  };
}

const logOf = (folder: string, segment = 1): string => join(folder, "log", `0000000${segment}.log`);
const isPacked = (folder: string): boolean => isPackedHead(readFileSync(logOf(folder)));

async function readAll(folder: string, now = () => WRITTEN_MS) {
  const { store, warnings } = open(folder, now);
  const entries = [];
  for (const id of ids) entries.push(await store.log.read(id, 1, everything));
  await store.close();
  return { entries, warnings };
}

/** Packs what is at rest in a folder, as an open store does once a day. */
async function pack(
  folder: string,
  { now = later, io = nodeSegmentIo, signal = quiet } = {},
): Promise<readonly string[]> {
  const warnings: string[] = [];
  const warn = (sentence: string): void => void warnings.push(sentence);
  const segments = openSegments(join(folder, "log"), io);
  const survey = () => Promise.reject(new Error("the index is damaged")) as never;
  const index = openLogIndex<never>({ path: join(folder, "index.db"), warn: () => {}, survey });
  const leases = openLeases({
    path: join(folder, `leases-${bootId()}.db`),
    self: describeSelf(process.pid, "packs"),
    steadyNow: () => performance.now(),
    signal: () => true,
  });
  try {
    await packAtRest({ index, segments, leases, io, own: new Set(), now, warn }, signal);
    return warnings;
  } finally {
    segments.close();
    await index.close();
    await leases.close();
  }
}

let whole: string;
let plain: Buffer;
let before: Awaited<ReturnType<typeof readAll>>["entries"];

/** A copy of a folder with half a megabyte of many sessions in one file. */
function copy(): string {
  const folder = mkdtempSync(join(root, "copy-"));
  cpSync(whole, folder, { recursive: true });
  return folder;
}

async function packedCopy(): Promise<string> {
  const folder = copy();
  await pack(folder);
  expect(isPacked(folder)).toBe(true);
  return folder;
}

/** A folder with a log that is full, and one that is not. */
async function twoLogs(): Promise<string> {
  const folder = mkdtempSync(join(root, "two-"));
  const sizes = { segmentBytes: 300_000, checkpointBytes: 50_000 };
  const store = openStore({ folder, foldRow, host, now: () => WRITTEN_MS, sizes });
  const texts = Array.from({ length: 60 }, () => said("what was said. ".repeat(700)));
  await store.log.append(idOf(1), 0, toNewEntries([created]));
  for (const [at, text] of texts.entries()) await store.log.append(idOf(1), 1 + at, toNewEntries([text]));
  await store.close();
  return folder;
}

beforeAll(async () => {
  whole = mkdtempSync(join(root, "whole-"));
  const { store } = open(whole);
  for (const id of ids) await store.log.append(id, 0, toNewEntries([created]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [at, id] of ids.entries()) {
      const text =
        at === 7 && round === 30
          ? SECRET
          : `Round ${round} of session ${at}: ${"what was said. ".repeat(20 * (at % 9))}`;
      await store.log.append(id, 1 + 2 * round, toNewEntries([said(text), answered(`So ${text.length} letters.`)]));
    }
  }
  await store.close();
  plain = readFileSync(logOf(whole));
  before = (await readAll(whole)).entries;
});

describe("a log at rest", () => {
  it("[F4] [F7] is packed in place: zcat gives the same bytes, sessions and the index made anew the same entries", async () => {
    const folder = await packedCopy();
    expect(gunzipSync(readFileSync(logOf(folder))).equals(plain)).toBe(true);
    expect(readFileSync(logOf(folder)).length).toBeLessThan(plain.length / 4);
    expect(await readAll(folder)).toEqual({ entries: before, warnings: [] });
    expect(await verifyFolder(folder, foldRow)).toMatchObject({ problems: [], bytes: plain.length });
    rmSync(join(folder, "index.db"));
    expect((await readAll(folder)).entries).toEqual(before);
    // A second time nothing is left to do.
    const once = readFileSync(logOf(folder));
    await pack(folder);
    expect(readFileSync(logOf(folder)).equals(once)).toBe(true);
  });

  it("[F4] [F7] is never appended to, with the index or without", async () => {
    for (const index of ["kept", "gone"]) {
      const folder = await packedCopy();
      if (index === "gone") rmSync(join(folder, "index.db"));
      const packed = readFileSync(logOf(folder));
      const { store } = open(folder, later);
      await store.log.append(idOf(1), 1 + 2 * ROUNDS, toNewEntries([said("I am back.")]));
      expect(await store.log.read(idOf(1), 2 * ROUNDS + 2, 9)).toMatchObject([{ body: said("I am back.") }]);
      await store.close();
      expect(readFileSync(logOf(folder)).equals(packed)).toBe(true);
      expect(readdirSync(join(folder, "log"))).toEqual(["00000001.log", "00000002.log"]);
    }
  });

  it("[F11] is read by a process that had it open before, which sees what another forgets", async () => {
    const folder = copy();
    const { store: reader } = open(folder);
    expect(await reader.log.read(idOf(8), 1, everything)).toEqual(before[7]);
    await pack(folder);
    expect(await reader.log.read(idOf(8), 1, everything)).toEqual(before[7]);
    const { store: other } = open(folder);
    const bodies = (await other.log.read(idOf(8), 1, everything)).map((entry) =>
      JSON.stringify(entry).includes(SECRET) ? { ...entry, body: said("[forgotten]") } : entry,
    );
    await other.log.rewrite(idOf(8), bodies);
    expect(await reader.log.read(idOf(8), 1, everything)).toEqual(bodies);
    for (const store of [reader, other]) await store.close();
    expect((await scanHere({ folder, texts: [SECRET] }, () => {})).matches).toEqual([]);
    expect(isPacked(folder)).toBe(true);
    const unchanged = before.map((entries, at) => (at === 7 ? bodies : entries));
    expect((await readAll(folder)).entries).toEqual(unchanged);
  });

  it("[D9] is looked into where a text is erased: the scan finds it in the packed bytes", async () => {
    const folder = await packedCopy();
    expect(await scanHere({ folder, texts: [SECRET] }, () => {})).toMatchObject({
      matches: [{ place: "log/00000001.log", form: "gzip" }],
    });
  });

  it("[D9] a text is erased from what a killed packing left", async () => {
    const folder = await packedCopy();
    writeFileSync(`${logOf(folder)}.tmp`, readFileSync(logOf(folder)));
    const { store } = open(folder);
    const entries = (await store.log.read(idOf(8), 1, everything)).map((entry) => ({
      ...entry,
      body: said("[forgotten]"),
    }));
    await store.log.rewrite(idOf(8), entries);
    await store.close();
    expect(existsSync(`${logOf(folder)}.tmp`)).toBe(false);
  });

  it("[F7] stays as it was where the disk is full or fails, at any moment of packing and of erasing", async () => {
    for (const code of ["ENOSPC", "EIO"]) {
      for (let failing = 1; failing <= 12; failing += 1) {
        let calls = 0;
        const fail = (): void => {
          calls += 1;
          if (calls === failing) throw Object.assign(new Error(`${code}: injected`), { code });
        };
        const io: SegmentIo = {
          ...nodeSegmentIo,
          writeSync: (fd, buffer, position) => {
            fail();
            return nodeSegmentIo.writeSync(fd, buffer, position);
          },
          sync: async (fd) => {
            fail();
            await nodeSegmentIo.sync(fd);
          },
        };
        const folder = copy();
        const warnings = await pack(folder, { io });
        expect(warnings).toHaveLength(calls < failing ? 0 : 1);
        expect(readdirSync(join(folder, "log"))).toEqual(["00000001.log"]);
        expect((await readAll(folder)).entries).toEqual(before);
        await pack(folder);
        expect(isPacked(folder)).toBe(true);
        calls = 0;
        const { store } = open(folder, later, io);
        const entries = before[7]?.map((entry) => ({ ...entry, body: said("[forgotten]") })) ?? [];
        await store.log.rewrite(idOf(8), entries).catch(() => {});
        await store.close();
        // The next open finishes what was begun.
        const kept = (await readAll(folder)).entries;
        const expected = [before, before.map((own, at) => (at === 7 ? entries : own))];
        expect(expected).toContainEqual(kept);
      }
    }
  });

  it("[F7] stays as it was where packing is stopped half-way", async () => {
    const folder = copy();
    const stopping = new AbortController();
    const io = {
      ...nodeSegmentIo,
      writeSync: (...args: Parameters<SegmentIo["writeSync"]>) => {
        stopping.abort();
        return nodeSegmentIo.writeSync(...args);
      },
    };
    expect(await pack(folder, { io, signal: stopping.signal })).toEqual([]);
    expect(readFileSync(logOf(folder)).equals(plain)).toBe(true);
    expect(readdirSync(join(folder, "log"))).toEqual(["00000001.log"]);
  });

  it("[F7] loses the records of a damaged block and no others, and is not cut off or appended to", async () => {
    const folder = await packedCopy();
    const packed = readFileSync(logOf(folder));
    const second = packed.indexOf(packed.subarray(0, 4), 1);
    const third = packed.indexOf(packed.subarray(0, 4), second + 1);
    // Where, and whether all of it stays readable: what is packed in a block is found without any of the bytes around it.
    const damages: readonly (readonly [at: number, isAllLeft: boolean])[] = [
      ...[0, 3, 5, 9, 17, second, second + 4, second + 12, second + 16, third].map((at) => [at, true] as const),
      ...[second - 8, second - 2, packed.length - 30, packed.length - 20, packed.length - 1].map(
        (at) => [at, true] as const,
      ),
      ...[60, second + 60].map((at) => [at, false] as const),
    ];
    for (const [at, isAllLeft] of damages) {
      const broken = copy();
      const bytes = Buffer.from(packed);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 0xff, at);
      writeFileSync(logOf(broken), bytes);
      rmSync(join(broken, "index.db"));
      const { store } = open(broken, later);
      await store.log.append(idOf(99), 0, toNewEntries([created]));
      const left = await Promise.all(ids.map((id) => store.log.read(id, 1, everything).catch(() => [])));
      await store.close();
      expect(readFileSync(logOf(broken)).equals(bytes)).toBe(true);
      const { problems, records } = await verifyFolder(broken, foldRow);
      const isWhole = left.every((entries, session) => entries.length === before[session]?.length);
      expect({ at, isWhole, hasProblems: problems.length > 0 }).toEqual({
        at,
        isWhole: isAllLeft,
        hasProblems: !isAllLeft,
      });
      expect(records).toBeGreaterThan(0);
      const { matches } = await scanHere({ folder: broken, texts: [SECRET] }, () => {});
      expect(matches.map(({ form }) => form)).toEqual(isAllLeft ? ["gzip"] : expect.arrayContaining([UNREAD]));
      for (const [session, entries] of left.entries())
        expect(before[session]).toEqual(expect.arrayContaining([...entries]));
    }
  });

  it("[F4] is left plain while it is young or small, or another process may write to it", async () => {
    const young = copy();
    await pack(young, { now: () => WRITTEN_MS + AT_REST_MS - 1 });
    const held = copy();
    const { store } = open(held);
    await store.log.append(idOf(98), 0, toNewEntries([created]));
    await pack(held);
    const small = mkdtempSync(join(root, "small-"));
    const { store: other } = open(small);
    await other.log.append(idOf(1), 0, toNewEntries([created]));
    await other.close();
    await pack(small);
    expect([young, held, small].map(isPacked)).toEqual([false, false, false]);
    await store.log.append(idOf(98), 1, toNewEntries([said("still here")]));
    await store.close();
    expect((await readAll(held)).entries).toEqual(before);
  });

  it("[L3] is taken into an index that is made anew, so that the next open reads none of it", async () => {
    const folder = await packedCopy();
    rmSync(join(folder, "index.db"));
    const bytesRead: number[] = [];
    for (let round = 0; round < 2; round += 1) {
      let bytes = 0;
      const io: SegmentIo = {
        ...nodeSegmentIo,
        read: (...given) => {
          const more = nodeSegmentIo.read(...given);
          bytes += more;
          return more;
        },
      };
      const { store } = open(folder, later, io);
      expect((await store.sessions.get(idOf(8)))?.last_seq).toBe(1 + 2 * ROUNDS);
      await store.close();
      bytesRead.push(bytes);
    }
    const [first = 0, second = 0] = bytesRead;
    expect(first).toBeGreaterThan(20_000);
    expect(second).toBeLessThan(1_000);
  });

  it("[D9] is not packed where something is erased meanwhile, which need not wait", async () => {
    const folder = copy();
    const { store } = open(folder);
    const entries = before[7]?.map((entry) => ({ ...entry, body: said("[forgotten]") })) ?? [];
    const io: SegmentIo = {
      ...nodeSegmentIo,
      sync: async (fd) => {
        await store.log.rewrite(idOf(8), entries);
        await nodeSegmentIo.sync(fd);
      },
    };
    expect(await pack(folder, { io })).toEqual([]);
    await store.close();
    expect(isPacked(folder)).toBe(false);
    await pack(folder);
    expect(isPacked(folder)).toBe(true);
    expect((await scanHere({ folder, texts: [SECRET] }, () => {})).matches).toEqual([]);
    expect((await readAll(folder)).entries[7]).toEqual(entries);
  });

  it("[D9] [F7] can be opened and read while there is no room to finish an erasure, which is finished when there is", async () => {
    const folder = await packedCopy();
    const full: SegmentIo = {
      ...nodeSegmentIo,
      open: (path, ...given) => {
        if (path.endsWith(".tmp"))
          throw Object.assign(new Error("ENOSPC: injected"), { code: "ENOSPC", syscall: "open" });
        return nodeSegmentIo.open(path, ...given);
      },
    };
    const entries = before[7]?.map((entry) => ({ ...entry, body: said("[forgotten]") })) ?? [];
    const { store } = open(folder, later, full);
    await expect(store.log.rewrite(idOf(8), entries)).rejects.toMatchObject({
      code: "SESSION_STORE_ERROR",
      message: expect.stringContaining("the disk is full"),
    });
    await store.close();
    const again = open(folder, later, full);
    expect(again.warnings).toEqual([expect.stringContaining("the disk is full")]);
    expect(await again.store.log.read(idOf(1), 1, everything)).toEqual(before[0]);
    await again.store.close();
    expect((await readAll(folder)).entries[7]).toEqual(entries);
  });

  it("[F7] leaves no replaced file open, in the process that packs or in another", async () => {
    const folder = await twoLogs();
    const opened = new Set<number>();
    const watched: SegmentIo = {
      ...nodeSegmentIo,
      open: (...given) => {
        const fd = nodeSegmentIo.open(...given);
        opened.add(fd);
        return fd;
      },
      close: (fd) => {
        opened.delete(fd);
        nodeSegmentIo.close(fd);
      },
    };
    const { store } = open(folder, () => WRITTEN_MS, watched);
    expect(await store.log.read(idOf(1), 1, everything)).toHaveLength(61);
    await pack(folder, { io: watched });
    expect(isPacked(folder)).toBe(true);
    await store.sessions.get(idOf(1));
    expect([...opened].filter((fd) => fstatSync(fd).nlink === 0)).toEqual([]);
    await store.close();
  });

  it("[F7] is packed where another log cannot be read", async () => {
    const folder = await twoLogs();
    const broken: SegmentIo = {
      ...nodeSegmentIo,
      open: (path, ...given) => {
        if (path === logOf(folder, 1)) throw Object.assign(new Error("EIO: injected"), { code: "EIO" });
        return nodeSegmentIo.open(path, ...given);
      },
    };
    expect(await pack(folder, { io: broken })).toEqual([expect.stringContaining("EIO")]);
    expect([1, 2].map((segment) => isPackedHead(readFileSync(logOf(folder, segment))))).toEqual([false, true]);
  });

  it("[F7] counts as plain where encryption looks for what was stored without", async () => {
    expect(keepsPlain(await packedCopy())).toBe(true);
  });

  it("[R4] is backed up as it is, also over a back-up from before it was packed", async () => {
    const folder = copy();
    const place = mkdtempSync(join(root, "place-"));
    const back = () => backUpFolder(folder, place, { now: Date.now, signal: quiet, progress: () => {} });
    expect(await back()).toMatchObject({ ok: true, problems: [] });
    await pack(folder);
    expect(await back()).toMatchObject({ ok: true, problems: [], copied: { files: 1 } });
    expect(await back()).toMatchObject({ ok: true, problems: [], copied: { files: 0 } });
  });

  it("[L1] is packed by an open store some seconds after it was opened, in pieces with other work in between", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "setInterval"] });
    const folder = copy();
    const { store, warnings } = open(folder, later);
    let rounds = 0;
    let isOver = false;
    const count = (): void => {
      rounds += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    vi.advanceTimersByTime(FIRST_MS);
    await vi.waitUntil(() => isPacked(folder), { timeout: 30_000 });
    isOver = true;
    expect(rounds).toBeGreaterThan(plain.length / 65_280);
    expect(await store.log.read(idOf(8), 1, everything)).toEqual(before[7]);
    await store.close();
    expect(warnings).toEqual([]);
  });
});
