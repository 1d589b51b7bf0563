import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { openRuntime } from "@rkat/node";
import { describe, expect, it } from "vitest";
import { below, chance, pick } from "../compaction/chances.ts";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { configWith, scriptedRuntime } from "../support/runtime.ts";

const NAMES = ["look", "wipe"];

/** Tools that write down which calls really run; `wipe` asks first. */
function toolsOf(ran: string[]): readonly Tool[] {
  return NAMES.map((name) => ({
    name,
    description: name,
    inputSchema: { type: "object" },
    needsApproval: name === "wipe",
    execute: (_args, { toolUseId }) => {
      ran.push(toolUseId);
      return "done";
    },
  }));
}

/** Lets what is under way go on for a while, without time passing. */
async function rounds(count: number): Promise<void> {
  for (let round = 0; round < count; round += 1) await new Promise((resolve) => setImmediate(resolve));
}

async function play(seed: number): Promise<void> {
  const random = createRandom(seed);
  const ran: string[] = [];
  const store = createInMemoryStore();
  let call = 0;
  const script = () =>
    chance(random, 0.4)
      ? { text: "Done." }
      : {
          calls: Array.from({ length: 1 + below(random, 3) }, () => {
            call += 1;
            return { id: `c${call}`, name: pick(random, NAMES) ?? "look", args: {} };
          }),
        };
  // A short time for an answer in some schedules: then it passes before anybody speaks.
  const approval_timeout_ms = chance(random, 0.3) ? 500 : 3_600_000;
  const config = configWith({ tools: { approval_timeout_ms } });
  const processes = [1, 2].map(() => scriptedRuntime(script, { store, config, tools: toolsOf(ran) }).runtime);
  const one = (): Runtime => pick(random, processes) ?? processes[0] ?? never();
  const leaving = new AbortController();
  const asked = one()
    .createSession("Go.", { signal: leaving.signal, onApproval: () => undefined })
    .then(
      () => "over",
      () => "over",
    );
  const isOver = () => Promise.race([asked.then(() => true), rounds(1).then(() => false)]);
  for (let step = 0; step < 60 && !(await isOver()); step += 1) {
    await rounds(below(random, 4));
    const { approvals } = await one().listApprovals();
    const [open] = approvals;
    if (open === undefined) continue;
    const speakers = chance(random, 0.3) ? 2 : 1;
    const words = Array.from({ length: speakers }, () => {
      const ids = open.calls.map(({ id }) => id);
      return one()
        .session(open.sessionId)
        .answerApproval({
          approvalId: open.approvalId,
          decision: chance(random, 0.6) ? "allow" : "deny",
          ...(chance(random, 0.4) ? { calls: ids.slice(0, 1 + below(random, ids.length)) } : {}),
        });
    });
    if (chance(random, 0.1)) leaving.abort("left");
    if (chance(random, 0.1)) await one().session(open.sessionId).interrupt();
    // Each is kept or refused; whichever it is, no call may run twice.
    await Promise.allSettled(words);
  }
  for (const { approvals } of [await one().listApprovals()]) {
    for (const { sessionId: session_id } of approvals) await one().session(session_id).interrupt();
  }
  await asked;
  for (const runtime of processes) await runtime.close();
  await explain(store, ran, seed);
}

function never(): never {
  throw new Error("there is a process");
}

/** Each call ran once or never, and the log says which, and by whose word. */
async function explain(store: ReturnType<typeof createInMemoryStore>, ran: readonly string[], seed: number) {
  expect({ seed, twice: ran.filter((id, at) => ran.indexOf(id) !== at) }).toEqual({ seed, twice: [] });
  const words = new Map<string, string>();
  const asked = new Set<string>();
  for (const { session_id } of await store.sessions.page({ max: Number.MAX_SAFE_INTEGER })) {
    for (const { body } of await store.log.read(session_id, 1, Number.MAX_SAFE_INTEGER)) {
      if (body.kind === "approval_asked") for (const { id } of body.calls) asked.add(id);
      if (body.kind === "approval_answered") for (const id of body.calls) words.set(id, body.decision);
      if (body.kind !== "tool_results") continue;
      for (const { tool_use_id: id, content } of body.message.results) {
        const mayHaveRun = content === "done" || String(content).startsWith("interrupted:");
        expect({ seed, id, content, isExplained: mayHaveRun || !ran.includes(id) }).toMatchObject({
          isExplained: true,
        });
        if (content === "done") expect({ seed, id, ran: ran.includes(id) }).toEqual({ seed, id, ran: true });
      }
    }
  }
  for (const id of ran)
    if (asked.has(id)) expect({ seed, id, word: words.get(id) }).toEqual({ seed, id, word: "allow" });
}

describe("questions, whoever answers them and when", () => {
  const count = byEffort({ usual: 60, full: 1_000 });
  it(`[I2] run each call once or never, and the log explains it (${count} schedules)`, {
    timeout: 600_000,
  }, async () => {
    for (let seed = 1; seed <= count; seed += 1) await play(seed);
  });

  const kills = byEffort({ usual: 3, full: 100 });
  it(`[I2] survive kill -9 of who asks and who goes on (${kills} times)`, { timeout: 600_000 }, async () => {
    const file = join(import.meta.dirname, "approver.ts");
    for (let at = 0; at < kills; at += 1) {
      const random = createRandom(at + 1);
      const folder = mkdtempSync(join(tmpdir(), "rkat-approvals-"));
      const ran = join(folder, "ran");
      const start = (...args: readonly string[]) =>
        fork(file, [join(folder, "state"), ran, ...args], {
          execArgv: [],
          stdio: ["ignore", "ignore", "inherit", "ipc"],
        });
      const asking = start("ask");
      const [{ session_id, approval_id }] = await once(asking, "message");
      asking.kill("SIGKILL");
      await once(asking, "exit");
      const answering = start("answer", session_id, approval_id);
      await once(answering, "message");
      await pause(random() * 30); // A moment to die in, not one that anything is expected of.
      answering.kill("SIGKILL");
      if (answering.exitCode === null) await once(answering, "exit");
      const runtime = await openRuntime({
        stateFolder: join(folder, "state"),
        model: createScriptedModel(() => ({ text: "Here." })),
        env: {},
      });
      const { approvals } = await runtime.listApprovals();
      const before = existsSync(ran) ? readFileSync(ran, "utf8").split("\n").filter(Boolean) : [];
      expect(before.filter((one, index) => before.indexOf(one) !== index)).toEqual([]);
      // Either the word was not kept, and it still waits, or it was, and nothing asks again.
      if (approvals.length > 0) expect(before).toEqual([]);
      const session = runtime.session(session_id);
      if (approvals.length > 0) await session.interrupt();
      await session.turn("Are you there?");
      expect(existsSync(ran) ? readFileSync(ran, "utf8").split("\n").filter(Boolean) : []).toEqual(before);
      await runtime.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
