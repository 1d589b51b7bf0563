import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Entry, EntryBody } from "@rkat/core/contract/entry";
import { foldRow } from "@rkat/core/state/session-row";
import { afterAll, describe, expect, it } from "vitest";
import { created, idOf, said } from "../../../../test/support/entries.ts";
import { openLogIndex } from "./log-index.ts";
import { openStore, verifyFolder } from "./open.ts";
import type { RecordPlace } from "./read-places.ts";
import { encodeRecord } from "./record.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-twice-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const A = idOf(1);
const host = { pid: process.pid, isRunning: () => true };
const everything = Number.MAX_SAFE_INTEGER;

interface Written {
  readonly seq: number;
  readonly body: EntryBody;
  readonly at: number;
  readonly fence?: number;
}

const entryOf = ({ seq, body, at }: Written): Entry<EntryBody> => ({ seq, span: 1, timestamp_ms: at, body });

/** A folder whose segments were written by processes that did not know of each other. */
async function folderOf(segments: readonly (readonly Written[])[], index: "none" | "collided" | "both") {
  const folder = mkdtempSync(join(root, "state-"));
  mkdirSync(join(folder, "log"));
  const places: RecordPlace[][] = segments.map((written, at) => {
    let offset = 0;
    const records = written.map((each) => encodeRecord(A, [entryOf(each)], each.fence));
    writeFileSync(join(folder, "log", `0000000${at + 1}.log`), Buffer.concat(records));
    return records.map((record, number) => {
      const place = { seq: written[number]?.seq ?? 0, segment: at + 1, offset, bytes: record.length };
      offset += record.length;
      return place;
    });
  });
  if (index === "none") return folder;
  const saved = openLogIndex<NonNullable<ReturnType<typeof foldRow>>>({
    path: join(folder, "index.db"),
    warn: () => {},
    survey: () => ({ places: [], rows: [], segments: new Map() }),
  });
  for (const [at, own] of places.entries()) {
    const written = segments[at] ?? [];
    // As a collision of their keys left it: of one process's records nothing is known from some seq on.
    const known = index === "collided" && at === 1 ? own.slice(1) : own;
    let row: ReturnType<typeof foldRow> | undefined;
    for (const each of segments[0] ?? []) row = foldRow(row, A, entryOf(each));
    const last = own.at(-1);
    const state = { indexed: (last?.offset ?? 0) + (last?.bytes ?? 0), last: last?.offset ?? -1, sealed: false };
    await saved.save({
      places: known.map((place) => ({ sessionId: A, place })),
      rows: at === 0 && row !== undefined ? [row] : [],
      segments: new Map([[at + 1, state]]),
    });
    expect(written).toHaveLength(own.length);
  }
  await saved.close();
  return folder;
}

function openAt(folder: string) {
  const warnings: string[] = [];
  return { store: openStore({ folder, foldRow, host, warn: (sentence) => warnings.push(sentence) }), warnings };
}

const words = (entries: readonly Entry<EntryBody>[]): readonly string[] =>
  entries.map(({ seq, body }) => `${seq} ${body.kind === "turn_opened" ? body.message.content : body.kind}`);

const start = { seq: 1, body: created, at: 1 };
const by = (name: string, seq: number, at: number, fence = 0): Written => ({
  seq,
  body: said(`${name}${seq}`),
  at,
  fence,
});

describe("a log in which two processes wrote the same seqs", () => {
  // One stood still after its first record, and woke when the other had gone on to the third.
  const stood = [start, by("late", 2, 60), by("late", 3, 61), by("late", 4, 62), by("late", 5, 63)];
  const took = [by("first", 2, 40), by("first", 3, 41)];

  it.each(["none", "both", "collided"] as const)(
    "[F7] [F9] is read by what was written first, tells of the rest, and goes on from there; index: %s",
    async (index) => {
      const folder = await folderOf([stood, took], index);
      const { store, warnings } = openAt(folder);
      const kept = ["1 session_created", "2 first2", "3 first3"];
      expect(words(await store.log.read(A, 1, everything))).toEqual(kept);
      expect((await store.sessions.get(A))?.last_seq).toBe(3);
      await store.log.append(A, 3, [{ span: 1, body: said("more") }]);
      await store.close();
      const again = openAt(folder);
      expect(words(await again.store.log.read(A, 1, everything))).toEqual([...kept, "4 more"]);
      await again.store.close();
      expect(warnings).toContainEqual(
        expect.stringMatching(/^session .*: seq \d was written twice, by two processes; the record in .*\d\.log at \d/),
      );
      const { problems } = await verifyFolder(folder, foldRow);
      expect(problems).toHaveLength(4);
      expect(problems[0]).toContain("was written twice");
    },
  );

  it("[F7] [F9] is read by the later holder's records, whatever the clocks said", async () => {
    const late = [start, by("late", 2, 10, 1)];
    const folder = await folderOf([late, [by("holder", 2, 40, 2), by("holder", 3, 41, 2)]], "none");
    const { store } = openAt(folder);
    expect(words(await store.log.read(A, 1, everything))).toEqual(["1 session_created", "2 holder2", "3 holder3"]);
    await store.close();
  });
});
