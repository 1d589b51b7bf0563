import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SessionRow } from "@rkat/core/ports/store";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { nodeFileCalls } from "./file-calls.ts";
import { createRkatFiles, type RkatFilesParts } from "./rkat-files.ts";
import type { ProjectedEvent } from "./session-files.ts";

const idOf = (number: number): string => `01900000-0000-7000-8000-${String(number).padStart(12, "0")}`;
const id = idOf(1);
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rkat-touch-"));
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

/** Logs of `lengths` events: "text 1", "text 2", … */
function openFiles(lengths: Map<string, number>, more: Partial<RkatFilesParts> = {}) {
  const warnings: string[] = [];
  const files = createRkatFiles({
    folder,
    warn: (sentence) => warnings.push(sentence),
    row: async (sessionId) => rowOf(sessionId, lengths.get(sessionId) ?? 0),
    readEvents: async (sessionId, after, max) => eventsOf(lengths.get(sessionId) ?? 0).slice(after, after + max),
    ...more,
  });
  return { files, warnings };
}

function rowOf(session_id: string, last_seq: number): SessionRow {
  const counts = { message_count: 0, total_tokens: 0, text_seq: 0, last_seq, cadence: { session_boundary_index: 0 } };
  const times = { created_at_ms: 0, updated_at_ms: 0 };
  const flags = { has_system: false, has_open_turn: false, archived: false };
  return { session_id, ...times, ...counts, ...flags, model: "m", provider: "p", title: "", labels: {} };
}

function eventsOf(length: number): ProjectedEvent[] {
  return Array.from({ length }, (_, at) => ({
    seq: at + 1,
    timestamp_ms: at,
    event: { type: "text_complete", content: `text ${at + 1}` },
  }));
}

const fileOf = (sessionId: string, name: string): string => join(folder, ".rkat", "sessions", sessionId, name);
const summaryOf = (sessionId: string): Promise<string> => readFile(fileOf(sessionId, "summary.txt"), "utf8");

describe("rkat files", () => {
  it("[F6] are projected once for many touches, by themselves after a while", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const lengths = new Map([[id, 1]]);
    const row = vi.fn(async (sessionId: string) => rowOf(sessionId, lengths.get(sessionId) ?? 0));
    const { files, warnings } = openFiles(lengths, { row });
    for (let touches = 0; touches < 1_000; touches += 1) files.touch(id);
    expect(row).toHaveBeenCalledTimes(0);
    vi.runAllTimers();
    await files.settled();
    expect(row).toHaveBeenCalledTimes(1);
    expect(await summaryOf(id)).toBe("text 1");
    expect(warnings).toEqual([]);
  });

  it("[F6] are projected again for a touch that comes during a projection, and never twice at a time", async () => {
    const lengths = new Map([[id, 1]]);
    const started = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    let running = 0;
    let runningMost = 0;
    const { files } = openFiles(lengths, {
      readEvents: async (_, after, max) => {
        running += 1;
        runningMost = Math.max(runningMost, running);
        started.resolve();
        await release.promise;
        running -= 1;
        return eventsOf(lengths.get(id) ?? 0).slice(after, after + max);
      },
    });
    files.touch(id);
    const first = files.settled();
    await started.promise;
    lengths.set(id, 2);
    files.touch(id);
    const second = files.settled();
    release.resolve();
    await Promise.all([first, second]);
    expect(runningMost).toBe(1);
    expect(await summaryOf(id)).toBe("text 2");
  });

  it("[F6] are projected again where another process takes a file away, and fail where that does not end", async () => {
    let taken = 0;
    const rename = async (from: string, to: string): Promise<void> => {
      if (taken > 0 && from.endsWith("session.json.tmp")) {
        taken -= 1;
        await rm(from);
      }
      return nodeFileCalls.rename(from, to);
    };
    const { files } = openFiles(new Map([[id, 3]]), { io: { ...nodeFileCalls, rename } });
    taken = 2;
    await files.rebuild(id);
    expect(JSON.parse(await readFile(fileOf(id, "session.json"), "utf8"))).toMatchObject({ last_seq: 3 });
    taken = Number.POSITIVE_INFINITY;
    await expect(files.rebuild(id)).rejects.toThrow(/lag behind its log .*ENOENT/);
  });

  it("[F6] are projected for a few sessions at a time", async () => {
    const ids = Array.from({ length: 40 }, (_, at) => idOf(at));
    const running = new Set<string>();
    let runningMost = 0;
    const { files } = openFiles(new Map(), {
      row: async (sessionId) => {
        running.add(sessionId);
        runningMost = Math.max(runningMost, running.size);
        return rowOf(sessionId, 1);
      },
      readEvents: async (sessionId) => {
        running.delete(sessionId);
        return eventsOf(1);
      },
    });
    for (const sessionId of ids) files.touch(sessionId);
    await files.settled();
    expect(runningMost).toBe(4);
    expect((await readdir(join(folder, ".rkat", "sessions"))).sort()).toEqual(ids);
  });

  it("[F6] tell of a failure once, without throwing, and are projected at the next touch", async () => {
    const { files, warnings } = openFiles(new Map([[id, 1]]));
    await writeFile(join(folder, ".rkat"), "in the way");
    files.touch(id);
    await files.settled();
    files.touch(id);
    await files.settled();
    expect(warnings).toEqual([
      expect.stringMatching(new RegExp(`^the files of session ${id} lag behind its log until its next turn: E`)),
    ]);

    await rm(join(folder, ".rkat"));
    files.touch(id);
    await files.settled();
    expect(await summaryOf(id)).toBe("text 1");

    files.touch("../elsewhere");
    await files.settled();
    expect(warnings.slice(1)).toEqual(["session_id: expected a session id (a UUID), got ../elsewhere"]);
  });

  it("[F6] are rebuilt from the whole log when asked to, and say so when they cannot be", async () => {
    const { files, warnings } = openFiles(new Map([[id, 2]]));
    await files.rebuild(id);
    const events = await readFile(fileOf(id, "events.jsonl"), "utf8");
    await writeFile(fileOf(id, "events.jsonl"), "something else");
    await files.rebuild(id);
    expect(await readFile(fileOf(id, "events.jsonl"), "utf8")).toBe(events);

    await rm(join(folder, ".rkat"), { recursive: true });
    await writeFile(join(folder, ".rkat"), "in the way");
    await expect(files.rebuild(id)).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
    expect(warnings).toEqual([]);
  });

  it("[F6] are finished by closing; what comes later is refused or ignored", async () => {
    const { files, warnings } = openFiles(new Map([[id, 1]]));
    files.touch(id);
    await files.close();
    expect(await summaryOf(id)).toBe("text 1");

    await files.close();
    files.touch(idOf(2));
    await files.settled();
    await expect(files.rebuild(idOf(2))).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
    expect(await readdir(join(folder, ".rkat", "sessions"))).toEqual([id]);
    expect(warnings).toEqual([]);
  });

  it("[F6] do not hold up closing when the log does not answer", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { files, warnings } = openFiles(new Map(), { row: () => new Promise(() => {}) });
    files.touch(id);
    const closed = files.close();
    await vi.advanceTimersByTimeAsync(10_000);
    await closed;
    expect(warnings).toEqual([]);
  });
});
