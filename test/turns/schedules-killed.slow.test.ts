import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openEmbeddedStore, openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it, onTestFinished } from "vitest";
import { byEffort } from "../support/effort.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

const OCCURRENCES = byEffort({ quick: 4, usual: 12, full: 100 });
const PROCESSES = 3;

/** Processes that run the schedules of a place; `asked` resolves with the one whose model a prompt has reached. */
function createProcesses(place: readonly string[]) {
  const running = new Set<ChildProcess>();
  const waiting = new Map<string, (child: ChildProcess) => void>();
  onTestFinished(() => {
    for (const child of running) child.kill("SIGKILL");
  });
  return {
    start: async () => {
      const args = [join(import.meta.dirname, "schedule-process.ts"), ...place];
      const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
      running.add(child);
      const ready = Promise.withResolvers<void>();
      createInterface({ input: child.stdout }).on("line", (line) => {
        if (line === "ready") ready.resolve();
        else waiting.get(line)?.(child);
      });
      await ready.promise;
    },
    asked: (prompt: string) => {
      const { promise, resolve } = Promise.withResolvers<ChildProcess>();
      waiting.set(`asked ${prompt}`, resolve);
      return promise;
    },
    kill: async (child: ChildProcess) => {
      running.delete(child);
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
    close: async () => {
      const all = [...running];
      for (const child of all) child.stdin?.end("\n");
      await Promise.all(all.map((child) => child.exitCode ?? once(child, "exit")));
      running.clear();
    },
  };
}

/** Runs schedules in a place, and kills the process that each occurrence has reached. */
async function runKilled(url?: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-schedules-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runtime = await openRuntime({ stateFolder: folder, store: url, model: createScriptedModel([]), env: {} });
  const store = await (url === undefined ? openEmbeddedStore(folder) : openPostgresStore({ url, realm: "default" }));
  const processes = createProcesses(url === undefined ? [folder] : [folder, url]);
  await Promise.all(Array.from({ length: PROCESSES }, processes.start));
  for (let number = 0; number < OCCURRENCES; number += 1) {
    const prompt = `Look at ${number}.`;
    let asked = processes.asked(prompt);
    const given = { prompt, at: new Date().toISOString() };
    const { schedule_id } = await runtime.dispatch("createSchedule", given);
    const first = await asked;
    asked = processes.asked(prompt);
    // Half of them are killed with their answer on the way, at a moment of its own.
    if (number % 2 === 1) first.stdin?.write(`${prompt}\n`);
    await processes.kill(first);
    const phases = async () => {
      const { occurrences } = await runtime.dispatch("listOccurrences", { schedule_id });
      return occurrences.map(({ phase }) => phase);
    };
    void asked.then((second) => second.stdin?.write(`${prompt}\n`));
    await Promise.all([processes.start(), expect.poll(phases).toEqual(["completed"])]);
    const { sessions } = await runtime.dispatch("listSessions", { labels: { schedule: schedule_id } });
    expect(sessions).toHaveLength(1);
    const entries = await store.log.read(sessions[0]?.session_id ?? "", 1, Number.MAX_SAFE_INTEGER);
    const kinds = entries.map(({ body }) => body.kind);
    expect(kinds.filter((kind) => kind === "turn_opened" || kind === "turn_closed")).toEqual([
      "turn_opened",
      "turn_closed",
    ]);
  }
  await processes.close();
  await runtime.close();
  await store.close();
}

const CLAIM = `runs each of ${OCCURRENCES} times once on ${PROCESSES} processes, of which one is killed at each`;

describe("kill -9 at an occurrence", () => {
  it(`[Q2] ${CLAIM}`, () => runKilled(), 1_200_000);
});

withPostgres("kill -9 at an occurrence of a realm in a database", () => {
  it(`[Q2] ${CLAIM}`, async () => runKilled(await databaseFor("killed")), 1_200_000);
});
