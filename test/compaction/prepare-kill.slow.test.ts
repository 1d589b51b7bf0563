import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Entry } from "@rkat/core/contract/entry";
import type { SessionRow } from "@rkat/core/ports/store";
import { assembleContext, hashContext } from "@rkat/core/state/context";
import { applyEntry, foldSession, type WholeState } from "@rkat/core/state/whole-state";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { below, chance } from "./chances.ts";
import { brokenRules } from "./context-rules.ts";

const KILLS = byEffort({ usual: 8, full: 200 });
const TIMEOUT_MS = byEffort({ usual: 300_000, full: 3_600_000 });
/** A log that grows for ever would make each of the kills slower than the one before. */
const KILLS_A_SESSION = 20;
const root = mkdtempSync(join(tmpdir(), "rkat-prepare-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process that prepares compactions", () => {
  it(
    `[J2] at ${KILLS} moments loses no turn that was told, puts nothing into force twice and counts everything once`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const met = { prepared: 0, published: 0, cut: 0 };
      let sessionId: string | undefined;
      for (let kill = 0; kill < KILLS; kill += 1) {
        const folder = join(root, `state-${Math.floor(kill / KILLS_A_SESSION)}`);
        if (kill % KILLS_A_SESSION === 0) sessionId = undefined;
        const known = sessionId === undefined ? undefined : await foldLog(folder, sessionId);
        const lines = await workAndDie([folder, ...(sessionId === undefined ? [] : [sessionId])], random);
        sessionId ??= lines.find((line) => line.startsWith("session "))?.split(" ")[1];
        if (sessionId === undefined) continue;
        const left = await foldLog(folder, sessionId);
        const turned = lines.filter((line) => line.startsWith("turned ")).length;
        const faults = faultsIn(left, (known?.closed ?? 0) + turned);
        expect({ seed, kill, faults }).toEqual({ seed, kill, faults: [] });
        met.prepared += left.state.prepared === undefined ? 0 : 1;
        met.published += left.published.length - (known?.published.length ?? 0);
        met.cut += lines.filter((line) => line === "summarising").length > 0 ? 1 : 0;
      }
      // Otherwise the kills have hit nothing that matters.
      expect(met.published).toBeGreaterThan(0);
      expect(met.prepared + met.cut).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});

interface Folded {
  readonly entries: readonly Entry[];
  readonly state: WholeState;
  readonly row: SessionRow | undefined;
  readonly differing: readonly number[];
  /** Turns that ended. */
  readonly closed: number;
  /** Seqs of the prepared compactions that were put into force. */
  readonly published: readonly number[];
}

function faultsIn({ entries, state, row, differing, closed, published }: Folded, closedMin: number): readonly string[] {
  const faults = differing.map((seq) => `the call at ${seq} was shown something else`);
  if (closed < closedMin) faults.push(`${closedMin - closed} turns that were told are gone`);
  if (new Set(published).size < published.length) faults.push("one was put into force twice");
  if (state.openCalls.length === 0) faults.push(...brokenRules(state));
  // Added up by hand: what calls took, each once, whatever became of it.
  const taken = entries.flatMap(({ body }) => {
    switch (body.kind) {
      case "assistant":
      case "call_failed":
        return body.usage?.output_tokens ?? 0;
      case "compaction_prepared":
        return body.compaction.usage.output_tokens;
      case "compacted":
        return body.prepared === undefined ? body.usage.output_tokens : 0;
      case "compaction_failed":
        return body.usage?.output_tokens ?? 0;
      case "compaction_dropped":
        return body.compaction_id === undefined ? (body.usage?.output_tokens ?? 0) : 0;
      default:
        return 0;
    }
  });
  const sum = taken.reduce((total, tokens) => total + tokens, 0);
  if (state.usage.output_tokens !== sum) faults.push(`the fold counts ${state.usage.output_tokens}, not ${sum}`);
  if (row?.usage?.output_tokens !== sum) faults.push(`the row counts ${row?.usage?.output_tokens}, not ${sum}`);
  return faults;
}

async function foldLog(folder: string, sessionId: string): Promise<Folded> {
  const store = await openEmbeddedStore(folder);
  const entries = await store.log.read(sessionId, 1, Number.MAX_SAFE_INTEGER);
  const row = await store.sessions.get(sessionId);
  await store.close();
  const state = foldSession(sessionId, entries.slice(0, 1));
  const differing: number[] = [];
  for (const entry of entries.slice(1)) {
    applyEntry(state, entry);
    const { body, seq } = entry;
    if (body.kind !== "model_called") continue;
    const sha256 = hashContext(assembleContext(state), (text) => hash("sha256", text));
    if (body.context_sha256 !== sha256) differing.push(seq);
  }
  const closed = entries.filter(({ body }) => body.kind === "turn_closed").length;
  const published = entries.flatMap(({ body }) => (body.kind === "compacted" ? (body.prepared?.seq ?? []) : []));
  return { entries, state, row, differing, closed, published };
}

const TURNS_MAX = 14;
const SPINS_MAX = 40_000_000;

/** Kills the process right after it begins a summary, puts one into force or ends a turn; what it said until then. */
async function workAndDie(args: readonly string[], random: () => number): Promise<readonly string[]> {
  const script = join(import.meta.dirname, "preparing-process.ts");
  const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "compiled") };
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  const wanted = chance(random, 0.4) ? "summarising" : chance(random, 0.5) ? "compaction_" : "turned ";
  const countMax = 1 + below(random, wanted === "turned " ? TURNS_MAX : 3);
  const spins = Math.floor(SPINS_MAX * random() ** 2);
  let output = "";
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    const lines = output.split("\n").slice(0, -1);
    if (lines.filter((line) => line.startsWith(wanted)).length < countMax) return;
    for (let spin = 0; spin < spins; spin += 1);
    child.kill("SIGKILL");
  });
  const signal = await new Promise((resolve) => child.on("close", (_code, by) => resolve(by)));
  if (signal !== "SIGKILL") throw new Error(`the process ended by itself: ${errors}`);
  // A line that the kill cut off was not heard whole.
  return output.split("\n").slice(0, -1);
}
