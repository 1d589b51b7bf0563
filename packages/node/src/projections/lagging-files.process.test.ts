import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EntryBody } from "@rkat/core/contract/entry";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { RowQuery, Store } from "@rkat/core/ports/store";
import { readEvents } from "@rkat/core/sessions/subscriptions";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { createLaggingFiles, createRkatFiles, projectStore } from "./rkat-files.ts";
import { projectSession } from "./session-files.ts";

const idOf = (number: number): string => `01900000-0000-7000-8000-${String(number).padStart(12, "0")}`;
const HOUR_MS = 3_600_000;
let base: string;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "rkat-behind-"));
});
// Those that were killed may still be at it.
afterAll(() => rm(base, { recursive: true, maxRetries: 9 }));

const newFolder = (): Promise<string> => mkdtemp(join(base, "state-"));

/** A log that outlives the processes that write to it, and a clock they share. */
function newPlace(folder: string) {
  const place = { nowMs: 1_767_225_600_000 };
  const kept = createInMemoryStore({ now: () => place.nowMs });
  /** A process of a pid: its store with files, and which rows it read and asked for. */
  const start = (pid: number, more: { running?: readonly number[]; io?: FileCalls } = {}) => {
    const { running = [], io = nodeFileCalls } = more;
    const read: string[] = [];
    const asked: RowQuery[] = [];
    const warnings: string[] = [];
    const page = (query: RowQuery) => {
      asked.push(query);
      return kept.sessions.page(query);
    };
    const host = { pid, isRunning: (other: number) => running.includes(other) };
    const files = createRkatFiles({
      folder,
      io,
      warn: (sentence) => warnings.push(sentence),
      lagging: createLaggingFiles({ folder, page, host, io, now: () => place.nowMs }),
      readEvents: (sessionId, after, max) => readEvents(kept.log, sessionId, { after, max }),
      now: () => place.nowMs,
      row: (sessionId) => {
        read.push(sessionId);
        return kept.sessions.get(sessionId);
      },
    });
    return { files, store: projectStore({ ...kept, close: async () => {} }, files), read, asked, warnings };
  };
  return { place, start };
}

async function begin({ log }: Store, number: number, messages = 0): Promise<void> {
  const said = Array.from({ length: messages }, (_, at): EntryBody => {
    const blocks = [{ block_type: "text" as const, data: { text: `text ${at}` } }];
    const created_at = "2026-01-01T00:00:00Z";
    return { kind: "assistant", message: { role: "block_assistant", blocks, stop_reason: "end_turn", created_at } };
  });
  await log.append(idOf(number), 0, toNewEntries([created, ...said]));
}

const namesIn = async (...path: readonly string[]): Promise<readonly string[]> =>
  (await nodeFileCalls.list(join(...path))).toSorted();
const notesOf = (folder: string): Promise<readonly string[]> => namesIn(folder, ".rkat", "behind");
/** The sessions that have all their files. */
async function sessionsOf(folder: string): Promise<readonly string[]> {
  const ids = await namesIn(folder, ".rkat", "sessions");
  const names = await Promise.all(ids.map((id) => namesIn(folder, ".rkat", "sessions", id)));
  return ids.filter((_, at) => names[at]?.includes("checkpoint"));
}

/** A disk that takes notes, and stands still as soon as files are to be written. */
const standingStill: FileCalls = { ...nodeFileCalls, open: () => new Promise(() => {}) };

describe("files that lag", () => {
  it("[F6] are made up for by the next process after one was killed, of what was touched since it began", async () => {
    const folder = await newFolder();
    const { place, start } = newPlace(folder);
    const first = start(11);
    for (let number = 1; number <= 5; number += 1) await begin(first.store, number);
    await first.files.close();
    expect(await notesOf(folder)).toEqual([]);

    place.nowMs += HOUR_MS;
    const killed = start(12, { io: standingStill });
    for (let number = 6; number <= 205; number += 1) await begin(killed.store, number);
    expect(await notesOf(folder)).toHaveLength(1);
    expect(await sessionsOf(folder)).toHaveLength(5);

    const next = start(13);
    await next.files.makeUp();
    expect(await sessionsOf(folder)).toEqual(Array.from({ length: 205 }, (_, at) => idOf(at + 1)));
    expect(await notesOf(folder)).toEqual([]);
    // What was of before is not even looked at.
    expect(next.read).toHaveLength(200);
    expect(next.asked.every(({ max }) => max <= 64)).toBe(true);
    expect(next.warnings).toEqual([]);
    await next.files.close();
  });

  it("[F6] are gone on with where the process that made up for them stopped", async () => {
    const folder = await newFolder();
    const { start } = newPlace(folder);
    const killed = start(21, { io: standingStill });
    for (let number = 1; number <= 150; number += 1) await begin(killed.store, number);

    const cut: ReturnType<typeof start> = start(22, {
      io: {
        ...nodeFileCalls,
        rename: async (from, to) => {
          await nodeFileCalls.rename(from, to);
          // It has written down how far it is.
          if (to.startsWith(join(folder, ".rkat", "behind"))) void cut.files.close();
        },
      },
    });
    await cut.files.makeUp();
    await cut.files.close();
    expect(await sessionsOf(folder)).toHaveLength(64);
    expect(await notesOf(folder)).toHaveLength(1);

    const next = start(23);
    await next.files.makeUp();
    expect(await sessionsOf(folder)).toHaveLength(150);
    expect(next.read).toHaveLength(150 - 64);
    expect(await notesOf(folder)).toEqual([]);
  });

  it("[F6] are left to a process that runs, and all looked at when a note says nothing", async () => {
    const folder = await newFolder();
    const { start } = newPlace(folder);
    const running = start(31, { io: standingStill });
    await begin(running.store, 1);
    const beside = start(32, { running: [31] });
    await beside.files.makeUp();
    // It only asks for sessions that came to rest.
    expect(beside.asked.filter(({ after }) => after === undefined)).toEqual([]);
    expect(await notesOf(folder)).toHaveLength(1);

    const [name = ""] = await notesOf(folder);
    await writeFile(join(folder, ".rkat", "behind", name), "torn");
    const next = start(33);
    await next.files.makeUp();
    expect(next.asked[0]?.updatedSinceMs).toBe(0);
    expect(await sessionsOf(folder)).toEqual([idOf(1)]);
    expect(await notesOf(folder)).toEqual([]);
  });

  it("[F6] at rest are compressed by the next process, once a day, and those of a session that changed since are not", async () => {
    const folder = await newFolder();
    const { place, start } = newPlace(folder);
    const first = start(51);
    for (const number of [1, 2]) await begin(first.store, number, 3);
    await first.store.close();
    const eventsOf = (number: number) => readdir(join(folder, ".rkat", "sessions", idOf(number)));
    place.nowMs += 8 * 24 * HOUR_MS;
    const second = start(52);
    await begin(second.store, 3, 3);
    await second.files.makeUp();
    await second.store.close();
    for (const number of [1, 2]) expect(await eventsOf(number)).toContain("events.jsonl.gz");
    expect(await eventsOf(3)).toContain("events.jsonl");
    place.nowMs += HOUR_MS;
    const third = start(53);
    await third.files.makeUp();
    expect(third.asked).toEqual([]);
    expect(third.read).toEqual([]);
  });

  it("[F6] are known of an append that is of long ago, as copies are", async () => {
    const folder = await newFolder();
    const { place, start } = newPlace(folder);
    const killed = start(41, { io: standingStill });
    await begin(killed.store, 1);
    await killed.store.log.append(idOf(2), 0, toNewEntries([created]), place.nowMs - 100 * HOUR_MS);
    const next = start(42);
    await next.files.makeUp();
    expect(await sessionsOf(folder)).toEqual([idOf(1), idOf(2)]);
  });

  it("[F6] are told of when closing does not wait for them, and are there after the next process", async () => {
    const folder = await newFolder();
    const { start } = newPlace(folder);
    const slow = start(51, { io: { ...nodeFileCalls, open: failing } });
    await begin(slow.store, 1);
    await slow.files.close();
    expect(await notesOf(folder)).toHaveLength(1);
    const next = start(52);
    await next.files.makeUp();
    await next.files.close();
    expect(await sessionsOf(folder)).toEqual([idOf(1)]);
    expect(await readFile(join(folder, ".rkat", "sessions", idOf(1), "checkpoint"), "utf8")).toBe("1");
    expect(await notesOf(folder)).toEqual([]);
  });

  it.each(["cut off", "killed"] as const)(
    "[F6] of a long log that were %s go on from there, and end with the bytes of a replay",
    async (end) => {
      const folder = await newFolder();
      const { start } = newPlace(folder);
      const { store } = start(61, { io: standingStill });
      await begin(store, 1, 9_000);
      const stop = new AbortController();
      let writes = 0;
      const io = watching(() => {
        writes += 1;
        if (writes < PAGES_WRITTEN) return;
        stop.abort();
        if (end === "killed") throw new Error("killed");
      });
      const parts = {
        folder,
        io,
        row: (sessionId: string) => store.sessions.get(sessionId),
        readEvents: (sessionId: string, after: number, max: number) => readEvents(store.log, sessionId, { after, max }),
      };
      await expect(projectSession(parts, idOf(1), { isReplay: false, signal: stop.signal })).rejects.toThrow();
      const { checkpoint } = await filesOf(folder);
      // A killed one lost what came after its last checkpoint.
      expect(Number(checkpoint)).toBe(1 + 256 * (end === "killed" ? 16 : PAGES_WRITTEN));

      const written: number[] = [];
      const next = start(62, { io: watching((position) => written.push(position)) });
      await next.files.makeUp();
      expect(written).toHaveLength(Math.ceil((9_001 - Number(checkpoint)) / 256));
      expect(Math.min(...written)).toBeGreaterThan(0);
      const gone = await filesOf(folder);
      await next.files.rebuild(idOf(1));
      expect(await filesOf(folder)).toEqual(gone);
      expect(gone["events.jsonl"]?.split("\n")).toHaveLength(9_000 + 1);
    },
  );
});

const PAGES_WRITTEN = 20;

const created: EntryBody = {
  kind: "session_created",
  settings: {
    model: "m",
    provider: "p",
    max_turns: 1,
    budget_limits: {},
    tools: { builtins: "none", shell: false, memory: false },
    tool_filter: "All",
    structured_output_retries: 2,
    labels: {},
  },
};

async function failing(): Promise<never> {
  throw new Error("the disk is full");
}

/** Sees where lines of events are to be written. */
function watching(see: (position: number) => void): FileCalls {
  return {
    ...nodeFileCalls,
    open: async (path) => {
      const file = await nodeFileCalls.open(path);
      return {
        ...file,
        write: async (bytes, position) => {
          see(position);
          return file.write(bytes, position);
        },
      };
    },
  };
}

async function filesOf(folder: string): Promise<Record<string, string>> {
  const files = join(folder, ".rkat", "sessions", idOf(1));
  const names = await readdir(files);
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(join(files, name), "utf8")])),
  );
}
