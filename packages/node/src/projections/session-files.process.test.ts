import { appendFile, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { EntryBody } from "@rkat/core/contract/entry";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { readEvents } from "@rkat/core/sessions/subscriptions";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { projectSession } from "./session-files.ts";

const id = "01900000-0000-7000-8000-000000000001";
const created_at = "2026-01-01T00:00:00Z";
const usage = { input_tokens: 10, output_tokens: 5 };
let base: string;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "rkat-files-"));
});
afterAll(() => rm(base, { recursive: true }));

const newFolder = (): Promise<string> => mkdtemp(join(base, "state-"));
const filesOf = (folder: string): string => join(folder, ".rkat", "sessions", id);

async function newStore(): Promise<Store> {
  let now = 1_767_225_600_123;
  const store = createInMemoryStore({ now: () => now++ });
  await append(store, [created]);
  return store;
}

async function append(store: Store, bodies: readonly EntryBody[]): Promise<void> {
  const row = await store.sessions.get(id);
  await store.log.append(id, row?.last_seq ?? 0, toNewEntries(bodies));
}

/** `reads` collects what was asked of the log, as [after, max]. */
async function project(
  store: Store,
  folder: string,
  more: { io?: FileCalls; reads?: number[][]; isReplay?: boolean; now?: () => number } = {},
): Promise<void> {
  const { io = nodeFileCalls, reads = [], isReplay = false, now = () => 0 } = more;
  const parts = {
    folder,
    io,
    now,
    row: (sessionId: string) => store.sessions.get(sessionId),
    readEvents: (sessionId: string, after: number, max: number) => {
      reads.push([after, max]);
      return readEvents(store.log, sessionId, { after, max });
    },
  };
  await projectSession(parts, id, { isReplay, signal: new AbortController().signal });
}

/** Every file by its name. */
async function contentsOf(folder: string): Promise<Record<string, string>> {
  const names = await readdir(filesOf(folder));
  const texts = names.sort().map(async (name) => [name, await readFile(join(filesOf(folder), name), "utf8")]);
  return Object.fromEntries(await Promise.all(texts));
}

async function replayed(store: Store): Promise<Record<string, string>> {
  const folder = await newFolder();
  await project(store, folder);
  return contentsOf(folder);
}

const created: EntryBody = {
  kind: "session_created",
  settings: {
    model: "scripted",
    provider: "scripted",
    max_turns: 10,
    budget_limits: {},
    tools: { builtins: "none", shell: false, memory: false },
    tool_filter: "All",
    structured_output_retries: 2,
    labels: { team: "a" },
  },
};
const opened = (content: string): EntryBody => ({
  kind: "turn_opened",
  message: { role: "user", content, created_at },
});
const answered = (text: string, calls: readonly string[] = []): EntryBody => ({
  kind: "assistant",
  usage,
  message: {
    role: "block_assistant",
    blocks: [
      { block_type: "text", data: { text } },
      ...calls.map((name) => ({ block_type: "tool_use" as const, data: { id: name, name, args: {} } })),
    ],
    stop_reason: "end_turn",
    created_at,
  },
});
const closed: EntryBody = { kind: "turn_closed", end: { status: "completed", extraction_required: false, usage } };
const archived: EntryBody = { kind: "archived" };

describe("the files of a session", () => {
  it("[F6] tell its events, its last text, its row and how far they go, to their owner only", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello."), closed]);
    await append(store, [opened("Call."), answered("", ["date"]), closed, archived]);

    await project(store, folder);

    const { "events.jsonl": lines = "", ...rest } = await contentsOf(folder);
    const timestamp = (nanos_since_epoch: number) => ({ secs_since_epoch: 1_767_225_600, nanos_since_epoch });
    const line = (seq: number, nanos: number, event: object) =>
      `${JSON.stringify({ seq, schema_version: 1, timestamp: timestamp(nanos), event })}\n`;
    const completed = { type: "run_completed", session_id: id, result: "", usage, extraction_required: false };
    expect(lines).toBe(
      line(2, 124_000_000, { type: "run_started", session_id: id, prompt: "Hi." }) +
        line(3, 124_000_000, { type: "text_complete", content: "Hello." }) +
        line(4, 124_000_000, completed) +
        line(5, 125_000_000, { type: "run_started", session_id: id, prompt: "Call." }) +
        line(6, 125_000_000, { type: "tool_call_requested", id: "date", name: "date", args: {} }) +
        line(7, 125_000_000, completed),
    );
    const session = {
      session_id: id,
      created_at: "2026-01-01T00:00:00.123Z",
      updated_at: "2026-01-01T00:00:00.125Z",
      model: "scripted",
      provider: "scripted",
      labels: { team: "a" },
      message_count: 4,
      total_tokens: 30,
      has_open_turn: false,
      archived: true,
      last_seq: 8,
    };
    expect(rest).toEqual({
      checkpoint: "8",
      "session.json": `${JSON.stringify(session, undefined, 2)}\n`,
      "summary.txt": "Hello.",
    });
    const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;
    const names = ["events.jsonl", "summary.txt", "session.json", "checkpoint"];
    expect(await Promise.all(names.map((name) => modeOf(join(filesOf(folder), name))))).toEqual(names.map(() => 0o600));
    const folders = [join(folder, ".rkat"), join(folder, ".rkat", "sessions"), filesOf(folder)];
    expect(await Promise.all(folders.map(modeOf))).toEqual(folders.map(() => 0o700));
  });

  it("[F6] have no summary while no text was said", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await project(store, folder);
    expect(Object.keys(await contentsOf(folder))).toEqual(["checkpoint", "events.jsonl", "session.json"]);
  });

  it("[F6] are not written again when the checkpoint is the log's end, and go on from their last line when it is not", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello."), closed]);
    await project(store, folder);
    const written = await stat(join(filesOf(folder), "checkpoint"), { bigint: true });

    const reads: number[][] = [];
    await project(store, folder, { reads });
    expect(reads).toEqual([]);
    expect(await stat(join(filesOf(folder), "checkpoint"), { bigint: true })).toMatchObject({ ino: written.ino });

    await append(store, [opened("And?"), answered("Bye."), closed]);
    await project(store, folder, { reads });
    expect(reads).toEqual([
      [3, 1],
      [4, 256],
    ]);
    expect(await contentsOf(folder)).toEqual(await replayed(store));
  });

  it("[F6] are read from a long log page by page", async () => {
    const store = await newStore();
    const folder = await newFolder();
    for (let turn = 0; turn < 200; turn += 1) await append(store, [opened("Hi."), answered(`Hello ${turn}.`), closed]);
    const reads: number[][] = [];
    await project(store, folder, { reads });
    expect(reads).toEqual([
      [0, 256],
      [257, 256],
      [513, 256],
    ]);
    expect((await contentsOf(folder))["events.jsonl"]?.split("\n")).toHaveLength(601);
  });

  it("[F6] leave what was appended meanwhile to the next projection", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello."), closed]);
    const before = await replayed(store);
    const io: FileCalls = {
      ...nodeFileCalls,
      open: async (path) => {
        await append(store, [opened("And?"), answered("Bye."), closed]);
        return nodeFileCalls.open(path);
      },
    };
    await project(store, folder, { io });
    expect(await contentsOf(folder)).toEqual(before);
    await project(store, folder);
    expect(await contentsOf(folder)).toEqual(await replayed(store));
  });

  it.each<[string, (files: string) => Promise<void>]>([
    ["a checkpoint beyond the log", (files) => writeFile(join(files, "checkpoint"), "99")],
    ["a checkpoint that is no number", (files) => writeFile(join(files, "checkpoint"), "9x")],
    ["an empty checkpoint", (files) => writeFile(join(files, "checkpoint"), "")],
    ["no checkpoint", (files) => rm(join(files, "checkpoint"))],
    ["another last line", (files) => damage(join(files, "events.jsonl"), "Hello.", "Hallo.")],
    ["no events", (files) => rm(join(files, "events.jsonl"))],
    ["a last line that was cut", (files) => truncate(join(files, "events.jsonl"), 150)],
    ["bytes after its last line", (files) => appendFile(join(files, "events.jsonl"), "x".repeat(10_000))],
    ["bytes that are no lines", (files) => writeFile(join(files, "events.jsonl"), "\n\n\0\0\nnever\n")],
    ["no folder", (files) => rm(files, { recursive: true })],
  ])("[F6] are made anew from the log when the next turn finds %s", async (_, harm) => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello.")]);
    await project(store, folder);
    await harm(filesOf(folder));
    await append(store, [closed]);
    await project(store, folder);
    expect(await contentsOf(folder)).toEqual(await replayed(store));
  });

  it("[F6] are not made for an id that is not a session's", async () => {
    const folder = await newFolder();
    const signal = new AbortController().signal;
    const parts = { folder, io: nodeFileCalls, readEvents: async () => [], row: async () => undefined };
    const outside = projectSession(parts, "../../outside", { isReplay: true, signal });
    await expect(outside).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    await projectSession(parts, id, { isReplay: true, signal });
    expect(await readdir(folder)).toEqual([]);
  });

  it("[F6] forget what the log does not say", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await leave(folder, "99");
    await writeFile(join(filesOf(folder), "summary.txt"), "of a log that was lost");
    await project(store, folder);
    expect(await contentsOf(folder)).toEqual(await replayed(store));
  });

  it("[F6] [D9] lose in a replay what a killed projection left half-written", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello."), closed]);
    await project(store, folder);
    const names = [...Object.keys(await contentsOf(folder)), "events.jsonl.gz"];
    for (const name of names) await writeFile(join(filesOf(folder), `${name}.tmp`), "an erased text");
    await project(store, folder, { isReplay: true });
    expect(await contentsOf(folder)).toEqual(await replayed(store));
  });

  it("[F6] are whole again after a replay that was killed at any call, without a new event", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello."), closed]);
    const whole = await replayed(store);
    for (let calls = 0; calls < REPLAY_CALLS; calls += 1) {
      await project(store, folder);
      const replay = project(store, folder, { io: dyingAfter(calls, 0.5), isReplay: true });
      await expect(replay).rejects.toThrow("killed");
      await project(store, folder);
      expect(await contentsOf(folder)).toEqual(whole);
    }
    await project(store, folder, { io: dyingAfter(REPLAY_CALLS, 0.5), isReplay: true });
  });

  it("[F6] at rest have their events compressed, through kills at any call, and plain again with the next event", async () => {
    const now = () => Number.MAX_SAFE_INTEGER;
    for (let calls = 0; calls < 9; calls += 1) {
      const store = await newStore();
      const folder = await newFolder();
      await append(store, [opened("Hi."), answered("Hello."), closed]);
      await project(store, folder);
      const { "events.jsonl": events = "", ...others } = await contentsOf(folder);
      await project(store, folder, { io: dyingAfter(calls, 0.5), now }).catch(() => {});
      await project(store, folder, { now });
      const packed = await readFile(join(filesOf(folder), "events.jsonl.gz"));
      expect(gunzipSync(packed).toString()).toBe(events);
      expect(Object.keys(await contentsOf(folder)).sort()).toEqual([...Object.keys(others), "events.jsonl.gz"].sort());
      await append(store, [opened("And?"), answered("Bye."), closed]);
      const reads: number[][] = [];
      await project(store, folder, { io: dyingAfter(calls, 0.5) }).catch(() => {});
      await project(store, folder, { reads });
      expect(reads[0]?.[0]).toBeGreaterThan(0);
      expect(await contentsOf(folder)).toEqual(await replayed(store));
    }
  });

  it("[F6] are whole after a tail that was killed at any call and another one without a text", async () => {
    for (let calls = 0; calls < TAIL_CALLS; calls += 1) {
      const store = await newStore();
      const folder = await newFolder();
      await append(store, [opened("Hi."), answered("Hello."), closed]);
      await project(store, folder);
      await append(store, [opened("And?"), answered("Bye."), closed]);
      await expect(project(store, folder, { io: dyingAfter(calls, 0.5) })).rejects.toThrow("killed");
      await append(store, [archived]);
      await project(store, folder);
      expect(await contentsOf(folder)).toEqual(await replayed(store));
    }
  });

  it("[F6] are whole when the disk takes a few bytes at a time", async () => {
    const store = await newStore();
    const folder = await newFolder();
    await append(store, [opened("Hi."), answered("Hello."), closed]);
    const io: FileCalls = {
      ...nodeFileCalls,
      open: async (path) => {
        const file = await nodeFileCalls.open(path);
        return { ...file, write: (bytes, position) => file.write(bytes.subarray(0, 7), position) };
      },
    };
    await project(store, folder, { io });
    expect(await contentsOf(folder)).toEqual(await replayed(store));
  });

  it("[F6] end with the same bytes as a replay from zero, wherever projections were killed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
        const store = await newStore();
        const folder = await newFolder();
        for (const { bodies, checkpoint, kill } of steps) {
          await append(store, bodies);
          if (checkpoint !== "") await leave(folder, checkpoint);
          const io = kill === undefined ? nodeFileCalls : dyingAfter(kill.calls, kill.taken);
          await project(store, folder, { io }).catch((error: Error) => expect(error.message).toBe("killed"));
        }
        await append(store, [opened("The end?")]);
        await project(store, folder);
        expect(await contentsOf(folder)).toEqual(await replayed(store));
      }),
      { numRuns: 60 },
    );
  });
});

const text = fc.oneof(
  fc.constant(""),
  { weight: 8, arbitrary: fc.string({ unit: "binary", maxLength: 20 }) },
  fc.constant("long ".repeat(14_000)),
);
const body: fc.Arbitrary<EntryBody> = fc.oneof(
  text.map(opened),
  fc.tuple(text, fc.array(fc.string({ maxLength: 5 }), { maxLength: 3 })).map(([said, calls]) => answered(said, calls)),
  text.map((content): EntryBody => {
    const message = { role: "tool_results" as const, created_at };
    const results = [{ tool_use_id: "1", content, is_error: false }];
    return {
      kind: "tool_results",
      message: { ...message, results },
      calls: [{ name: "a", duration_ms: 1, counted: true }],
    };
  }),
  text.map(
    (said): EntryBody => ({ kind: "notice", message: { role: "system_notice", kind: "n", body: said, created_at } }),
  ),
  fc.constantFrom(closed, archived, created),
);
/** File calls of a replay of a short log, and of the projection of a short tail. */
const REPLAY_CALLS = 17;
const TAIL_CALLS = 14;
/** Entries are appended, the checkpoint may be spoilt, and the projection may be killed at a call. */
const step = fc.record({
  bodies: fc.array(body, { minLength: 1, maxLength: 4 }),
  checkpoint: fc.oneof({ weight: 9, arbitrary: fc.constant("") }, fc.constantFrom("1e9", "100000", undefined)),
  kill: fc.option(
    fc.record({ calls: fc.integer({ min: 0, max: 16 }), taken: fc.double({ min: 0, max: 1, noNaN: true }) }),
    { nil: undefined },
  ),
});

async function leave(folder: string, checkpoint: string | undefined): Promise<void> {
  const path = join(filesOf(folder), "checkpoint");
  await nodeFileCalls.makeFolder(filesOf(folder));
  if (checkpoint === undefined) await rm(path, { force: true });
  else await writeFile(path, checkpoint);
}

async function damage(path: string, from: string, to: string): Promise<void> {
  await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
}

/** The file system of a process that is killed at a call: a write that is cut off has taken a share of its bytes. */
function dyingAfter(calls: number, taken: number): FileCalls {
  let left = calls;
  const live = async <T>(call: () => Promise<T>, last?: () => Promise<unknown>): Promise<T> => {
    left -= 1;
    if (left >= 0) return call();
    if (left === -1) await last?.();
    throw new Error("killed");
  };
  const share = <T extends string | Uint8Array>(whole: T): T => whole.slice(0, whole.length * taken) as T; // same type
  return {
    ...nodeFileCalls, // Looking changes nothing, so it is no moment to be killed at.
    makeFolder: (path) => live(() => nodeFileCalls.makeFolder(path)),
    read: (path) => live(() => nodeFileCalls.read(path)),
    write: (path, written) =>
      live(
        () => nodeFileCalls.write(path, written),
        () => nodeFileCalls.write(path, share(written)),
      ),
    rename: (from, to) => live(() => nodeFileCalls.rename(from, to)),
    convert: (how, from, to) =>
      live(
        () => nodeFileCalls.convert(how, from, to),
        () => nodeFileCalls.write(to, "torn"),
      ),
    remove: (path) => live(() => nodeFileCalls.remove(path)),
    open: (path) =>
      live(async () => {
        const file = await nodeFileCalls.open(path);
        return {
          size: () => live(() => file.size()),
          read: (buffer, position) => live(() => file.read(buffer, position)),
          write: (bytes, position) =>
            live(
              () => file.write(bytes, position),
              () => file.write(share(bytes), position),
            ),
          truncate: (bytes) => live(() => file.truncate(bytes)),
          // The descriptors of a process go with it.
          close: () => file.close(),
        };
      }),
  };
}
