import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { created, idOf } from "../support/entries.ts";
import { testSeed } from "../support/seed.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-namespaces-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const SCRIPT = join(import.meta.dirname, "holder-process.ts");
const SESSION = idOf(1);
/** Far less than a holder leaves between two beats: whoever holds is soon taken for dead. */
const SILENCE_MS = "300";
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;
const STOPS = byEffort({ usual: 12, full: 200 });

// Process namespaces of one's own need rights that not every machine gives; there these rules go untested.
const canUnshare = spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]).status === 0;

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) if (child.pid !== undefined && child.exitCode === null) killTree(child.pid);
});

function killTree(pid: number): void {
  for (const each of [...descendants(pid), pid]) {
    try {
      process.kill(each, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}

function descendants(pid: number): readonly number[] {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  const pairs = rows.map((row) => row.trim().split(/\s+/).map(Number));
  const below = (of: number): readonly number[] =>
    pairs.flatMap(([each = 0, parent]) => (parent === of ? [each, ...below(each)] : []));
  return below(pid);
}

/** A process in a namespace of its own, where it has the id 1, or a later one. */
function startHolder(folder: string, name: string, { isFirst = true } = {}) {
  const script = isFirst ? `exec "$@"` : `/bin/true; "$@"; exit $?`;
  const args = ["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh"];
  const child = spawn("unshare", [...args, process.execPath, SCRIPT, folder, SESSION, name, SILENCE_MS], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(child);
  const lines: string[] = [];
  let output = "";
  child.stdout.on("data", (data) => {
    output += data;
    lines.splice(0, lines.length, ...output.split("\n").slice(0, -1));
  });
  child.stdin.on("error", () => {});
  const send = (line: string): void => void child.stdin.write(`${line}\n`);
  /** Tells it a line and waits for what comes of it. */
  const ask = async (line: string): Promise<string> => {
    const seen = lines.length;
    send(line);
    await expect.poll(() => lines.slice(seen).some((each) => /^(?:did|failed)/.test(each)), WAIT).toBe(true);
    return lines.slice(seen).find((each) => /^(?:did|failed)/.test(each)) ?? "";
  };
  const signal = (name: NodeJS.Signals): void => {
    const pid = descendants(child.pid ?? 0).find((each) => isNode(each));
    if (pid !== undefined) process.kill(pid, name);
  };
  const opened = () => expect.poll(() => lines[0], WAIT).toMatch(/^(?:open|refused)/);
  const ended = new Promise((resolve) => child.on("close", resolve));
  return { lines, ask, send, signal, opened, ended, end: () => child.stdin.end() };
}

const WAIT = { timeout: 60_000, interval: 50 };

function isNode(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(process.execPath);
  } catch {
    return false;
  }
}

async function newFolder(): Promise<string> {
  const folder = mkdtempSync(join(root, "state-"));
  const store = await openEmbeddedStore(folder);
  await store.log.append(SESSION, 0, toNewEntries([created]));
  await store.close();
  return folder;
}

/** What was acknowledged to each process, as `seq text`. */
const keptBy = (lines: readonly string[]): readonly string[] =>
  lines.filter((line) => line.startsWith("kept ")).map((line) => line.slice("kept ".length));

async function readAll(folder: string): Promise<readonly string[]> {
  const store = await openEmbeddedStore(folder);
  const entries = await store.log.read(SESSION, 1, ENTRIES_MAX);
  await store.close();
  return entries.map(({ seq, body }) => `${seq} ${body.kind === "turn_opened" ? body.message.content : body.kind}`);
}

describe.skipIf(!canUnshare)("processes that cannot look each other up", () => {
  it("[F9] [F7] one that stood still while another took its session over is refused, and nothing is lost", async () => {
    const folder = await newFolder();
    const [a, b] = [startHolder(folder, "a"), startHolder(folder, "b", { isFirst: false })];
    await Promise.all([a.opened(), b.opened()]);
    expect([await a.ask("hold"), await a.ask("append 2")]).toEqual(["did hold", "did append"]);
    a.signal("SIGSTOP");
    await expect.poll(() => b.ask("hold"), WAIT).toBe("did hold");
    expect(await b.ask("append 2")).toBe("did append");
    a.signal("SIGCONT");
    expect(await a.ask("append 2")).toMatch(/^failed append: another process has taken session .* over/);
    expect(await b.ask("append 1")).toBe("did append");
    // Its checkpoint must not hide what the other wrote.
    for (const each of [a, b]) each.end();
    await Promise.all([a.ended, b.ended]);
    const kept = [...keptBy(a.lines), ...keptBy(b.lines)];
    expect(kept).toHaveLength(5);
    expect((await readAll(folder)).slice(1).toSorted()).toEqual(kept.toSorted());
    expect((await verifyStore(folder)).problems).toEqual([]);
  }, 120_000);

  it(`[F9] [F7] ${STOPS} stops at any moment lose nothing that was acknowledged, and every session stays readable`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const folder = await newFolder();
    const holders = [startHolder(folder, "a"), startHolder(folder, "b", { isFirst: false })];
    await Promise.all(holders.map((each) => each.opened()));
    let isOver = false;
    const lives = holders.map(async ({ ask }) => {
      while (!isOver) {
        if ((await ask("hold")) !== "did hold") continue;
        await ask("append 20");
        await ask("give");
      }
    });
    for (let stop = 0; stop < STOPS; stop += 1) {
      const [victim, other] = stop % 2 === 0 ? holders : holders.toReversed();
      const before = keptBy(other?.lines ?? []).length;
      for (let spin = random() * 40_000_000; spin > 0; spin -= 1);
      victim?.signal("SIGSTOP");
      // The other has taken over, unless it waits for a lock that the first has in its hands.
      await expect
        .poll(() => keptBy(other?.lines ?? []).length > before, { timeout: 3_000, interval: 20 })
        .toBe(true)
        .catch(() => {});
      victim?.signal("SIGCONT");
    }
    isOver = true;
    await Promise.all(lives);
    for (const each of holders) each.end();
    await Promise.all(holders.map(({ ended }) => ended));
    const all = new Set(await readAll(folder));
    const kept = holders.flatMap(({ lines }) => keptBy(lines));
    expect({ seed, lost: kept.filter((line) => !all.has(line)) }).toEqual({ seed, lost: [] });
    expect(kept.length).toBeGreaterThan(STOPS);
  }, 1_800_000);

  it("[F9] two with the same process id take turns like any others", async () => {
    const folder = await newFolder();
    const [a, b] = [startHolder(folder, "a"), startHolder(folder, "b")];
    await Promise.all([a.opened(), b.opened()]);
    expect([...a.lines, ...b.lines]).toEqual(["open 1", "open 1"]);
    expect([await a.ask("hold"), await a.ask("append 1")]).toEqual(["did hold", "did append"]);
    expect(await b.ask("hold")).toMatch(/^failed hold: .*already running a turn/);
    await a.ask("give");
    expect([await b.ask("hold"), await b.ask("append 1")]).toEqual(["did hold", "did append"]);
    for (const each of [a, b]) each.end();
    await Promise.all([a.ended, b.ended]);
    expect(await readAll(folder)).toHaveLength(3);
  }, 120_000);
});
