import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Entry } from "@rkat/core/contract/entry";
import { createRuntime } from "@rkat/core/create-runtime";
import { assembleContext, hashContext } from "@rkat/core/state/context";
import { applyEntry, foldSession, type WholeState } from "@rkat/core/state/whole-state";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { below, chance } from "./chances.ts";
import { createCompactingModel, look, OFTEN } from "./compacting-model.ts";
import { brokenRules } from "./context-rules.ts";

const KILLS = byEffort({ usual: 12, full: 30 });
const TIMEOUT_MS = 300_000;
const ENDED = "the process ended before the compaction did";
const root = mkdtempSync(join(tmpdir(), "rkat-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process that compacts and evicts", () => {
  it(
    `[C10][C13][J1] at ${KILLS} moments leaves the context of before or of after, and the session goes on`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const folder = join(root, "state");
      let sessionId: string | undefined;
      let begun = 0;
      let evicted = 0;
      for (let kill = 0; kill < KILLS; kill += 1) {
        const lines = await compactAndDie([folder, ...(sessionId === undefined ? [] : [sessionId])], random);
        sessionId ??= lines.find((line) => line.startsWith("session "))?.split(" ")[1];
        if (sessionId === undefined) continue;
        const left = await foldLog(folder, sessionId);
        expect({ seed, kill, faults: faultsIn(left, lines) }).toEqual({ seed, kill, faults: [] });
        await goOn(folder, sessionId);
        const after = await foldLog(folder, sessionId);
        expect({ seed, kill, ends: endsAfter(left, after) }).toEqual({
          seed,
          kill,
          ends: left.state.isCompacting ? [ENDED] : [],
        });
        begun += left.state.isCompacting ? 1 : 0;
        evicted = after.state.compactions.filter(({ body }) => body.evicted !== undefined).length;
      }
      // Otherwise the kills have hit nothing that matters.
      expect(begun).toBeGreaterThan(KILLS / 10);
      expect(evicted).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});

interface Folded {
  readonly entries: readonly Entry[];
  readonly state: WholeState;
  /** Calls whose recorded context is not the one the log gives. */
  readonly differing: readonly number[];
  /** The context at the end of the last turn that ended, and what was appended since. */
  readonly turnEnd: { readonly sha256: string; readonly since: readonly string[] };
}

/** What is wrong with what a process left, by the lines it had said. */
function faultsIn({ state, differing, turnEnd }: Folded, lines: readonly string[]): readonly string[] {
  const faults = differing.map((seq) => `the call at ${seq} was shown something else`);
  const ids = new Set(state.compactions.map(({ body }) => body.compaction_id));
  const acknowledged = lines.flatMap((line) => (line.startsWith("after ") ? [line.split(" ")[2] ?? ""] : []));
  for (const id of acknowledged) if (!ids.has(id)) faults.push(`the compaction ${id} is gone`);
  // Calls a kill left open are closed with the next turn; until then no provider is asked.
  if (state.openCalls.length === 0) faults.push(...brokenRules(state));
  const [what, known] = (lines.findLast((line) => line !== "summarising") ?? "").split(" ");
  if (what !== "before" || state.isTurnOpen) return faults;
  if (turnEnd.sha256 !== known) faults.push("the turns before the compaction are others");
  const now = sha256Of(state);
  const since = turnEnd.since.join();
  const isBefore = (since === "" || since === "event") && now === known;
  const isAfter = since === "event,compacted" && now !== known;
  if (!isBefore && !isAfter) faults.push(`neither before nor after: ${since}`);
  return faults;
}

/** How the compactions ended that the next turn found begun. */
function endsAfter(left: Folded, after: Folded): readonly string[] {
  const added = after.entries.slice(left.entries.length).map(({ body }) => body);
  return added.flatMap((body) => (body.kind === "compaction_failed" ? [body.error] : []));
}

/** The next turn, by whoever comes after. */
async function goOn(folder: string, sessionId: string): Promise<void> {
  const runtime = createRuntime({
    model: createCompactingModel(async () => {}),
    store: await openEmbeddedStore(folder),
    tools: [look],
    toolPreset: "safe",
    compaction: OFTEN,
    env: {},
  });
  try {
    expect((await runtime.session(sessionId).turn("go on")).text).not.toBe("");
  } finally {
    await runtime.close();
  }
}

async function foldLog(folder: string, sessionId: string): Promise<Folded> {
  const store = await openEmbeddedStore(folder);
  const entries = await store.log.read(sessionId, 1, Number.MAX_SAFE_INTEGER);
  await store.close();
  const state = foldSession(sessionId, entries.slice(0, 1));
  const differing: number[] = [];
  let turnEnd: { sha256: string; since: string[] } = { sha256: "", since: [] };
  for (const entry of entries.slice(1)) {
    applyEntry(state, entry);
    const { body, seq } = entry;
    if (body.kind === "turn_closed") turnEnd = { sha256: sha256Of(state), since: [] };
    else turnEnd.since.push(body.kind);
    if (body.kind === "model_called" && body.context_sha256 !== sha256Of(state)) differing.push(seq);
  }
  return { entries, state, differing, turnEnd };
}

function sha256Of(state: WholeState): string {
  return hashContext(assembleContext(state), (text) => hash("sha256", text));
}

const LINES_MAX = 25;
const SUMMARIES_MAX = 4;
const SPINS_MAX = 60_000_000;

/** Runs the process until it has said so many lines, or is summarising for so many times; what it said until then. */
async function compactAndDie(args: readonly string[], random: () => number): Promise<readonly string[]> {
  const script = join(import.meta.dirname, "compacting-process.ts");
  // Compiled once for all kills: most of their time would otherwise be the start of a process.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "compiled") };
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  const isInSummary = chance(random, 0.5);
  const countMax = 1 + below(random, isInSummary ? SUMMARIES_MAX : LINES_MAX);
  const spins = Math.floor(SPINS_MAX * random() ** 2);
  let output = "";
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    const lines = output.split("\n").slice(0, -1);
    const count = isInSummary ? lines.filter((line) => line === "summarising").length : lines.length;
    if (count < countMax) return;
    // A moment more or less, so that the kill hits anywhere in a compaction and right after it.
    for (let spin = 0; spin < spins; spin += 1);
    child.kill("SIGKILL");
  });
  const signal = await new Promise((resolve) => child.on("close", (_code, by) => resolve(by)));
  if (signal !== "SIGKILL") throw new Error(`the compacting process ended by itself: ${errors}`);
  // A line that the kill cut off was not heard whole.
  return output.split("\n").slice(0, -1);
}
