import { appendFileSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { below, chance } from "../../../../test/compaction/chances.ts";
import { createRandom } from "../../../../test/crash/random.ts";
import { idOf } from "../../../../test/support/entries.ts";
import { encodeRecord } from "../log/record.ts";
import { cutLogs } from "./backup.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-cut-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

interface Appended {
  readonly path: string;
  readonly session: number;
  readonly seq: number;
  readonly end: number;
}

/** Logs of several processes that write while they are looked at, and hand every session from one to another. */
function writtenLogs(random: () => number) {
  const folder = mkdtempSync(join(root, "logs-"));
  mkdirSync(join(folder, "log"));
  const paths = Array.from({ length: 4 }, (_, at) => `log/0000000${at + 1}.log`);
  for (const path of paths) writeFileSync(join(folder, path), "");
  const fds = new Map(paths.map((path) => [path, openSync(join(folder, path), "r")]));
  const appended: Appended[] = [];
  const seqs = [0, 0, 0];
  const append = (): void => {
    const [session, path] = [below(random, seqs.length), paths[below(random, paths.length)] ?? ""];
    const seq = (seqs[session] ?? 0) + 1;
    seqs[session] = seq;
    const record = encodeRecord(idOf(session), [{ seq, span: 1, timestamp_ms: 1, body: { text: "x".repeat(seq) } }]);
    appendFileSync(join(folder, path), record);
    appended.push({ path, session, seq, end: statSync(join(folder, path)).size });
  };
  const look = () =>
    new Map(
      paths.map((path) => {
        while (chance(random, 0.6)) append();
        return [path, { fd: fds.get(path) ?? -1, size: statSync(join(folder, path)).size }] as const;
      }),
    );
  const close = (): void => {
    for (const fd of fds.values()) closeSync(fd);
  };
  return { appended, append, look, close };
}

describe("where logs are cut that are being written", () => {
  it("[K2] no record is taken without those before it, and all that was there at the start is, by seeds", () => {
    let extended = 0;
    for (let seed = 1; seed <= 300; seed += 1) {
      const { appended, append, look, close } = writtenLogs(createRandom(seed));
      for (let count = 0; count < 5; count += 1) append();
      const start = appended.length;
      const looks: ReturnType<typeof look>[] = [];
      const cuts = cutLogs(() => {
        const ends = look();
        looks.push(ends);
        return ends;
      });
      close();
      const limits = new Map(cuts.map(({ path, limit }) => [path, limit]));
      const taken = appended.filter(({ path, end }) => end <= (limits.get(path) ?? 0));
      expect({ seed, missing: appended.slice(0, start).filter((record) => !taken.includes(record)) }).toEqual({
        seed,
        missing: [],
      });
      for (const session of [0, 1, 2]) {
        const seqs = taken.filter((record) => record.session === session).map(({ seq }) => seq);
        expect({ seed, session, seqs }).toEqual({ seed, session, seqs: seqs.map((_, at) => at + 1) });
      }
      if (cuts.some(({ path, limit }) => limit > (looks[1]?.get(path)?.size ?? 0))) extended += 1;
    }
    // Otherwise no session was handed over at a moment that matters.
    expect(extended).toBeGreaterThan(20);
  });
});
