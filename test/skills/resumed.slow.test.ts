import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { SKILL, scriptFor, TEXT, timesIn } from "./resumed-skill.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-skills-resumed-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function open(stateFolder: string, skills = [SKILL]) {
  const model = createScriptedModel(scriptFor);
  const runtime = await openRuntime({
    stateFolder,
    model,
    compaction: { recentTurnBudget: 1 },
    toolPreset: "safe",
    skills,
    env: {},
  });
  return { runtime, model };
}

/** Lets a process run to an event and die there; the id of its session. */
async function runAndDie(folder: string, dieAt: string): Promise<string> {
  const script = join(import.meta.dirname, "loading-process.ts");
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [script, folder, dieAt]);
    return stdout.trim();
  } catch (error) {
    expect(error).toMatchObject({ signal: "SIGKILL" });
    return String(Object(error).stdout).trim();
  }
}

/** Moments at which less can go wrong. */
const OTHER_MOMENTS = byEffort<readonly (readonly [string, number])[]>({
  usual: [],
  full: [
    ["tool_result_received", 1],
    ["run_completed", 1],
    ["never", 1],
  ],
});

describe("a session that has loaded a skill", { timeout: 120_000 }, () => {
  it.each([["tool_call_requested", 0], ["skills_resolved", 1], ["compaction_completed", 1], ...OTHER_MOMENTS] as const)(
    "[M2] whose process is killed at %s has its text %i times when another goes on with it",
    async (dieAt, times) => {
      const folder = join(root, dieAt);
      const id = await runAndDie(folder, dieAt);
      const { runtime, model } = await open(folder);
      const session = runtime.session(id);
      await session.turn("Go on.");
      expect(timesIn(model.requests.at(-1)?.messages)).toBe(times);
      expect((await session.pins()).pins).toHaveLength(times);
      await session.turn("And on.");
      await session.compact();
      await session.turn("After it.");
      expect(timesIn(model.requests.at(-1)?.messages)).toBe(times);
      await runtime.close();
      // By a checkpoint, which knows what is pinned, also where the skill itself is gone.
      const again = await open(folder, []);
      await again.runtime.session(id).turn("Once more.");
      expect(timesIn(again.model.requests.at(-1)?.messages)).toBe(times);
      expect((await again.runtime.session(id).pins()).pins).toHaveLength(times);
      await again.runtime.close();
    },
  );

  it("[M2] is exported and imported with it", async () => {
    const { runtime } = await open(join(root, "exported"));
    const { id } = await runtime.createSession("Load it.");
    const exported = await runtime.dispatch("exportSession", { session_id: id });
    const target = await open(join(root, "imported"));
    const { session_id } = await target.runtime.dispatch("importSession", {
      source_session_id: id,
      last_seq: exported.last_seq,
      entries: exported.entries,
    });
    await target.runtime.session(session_id).turn("Here.");
    expect(timesIn(target.model.requests.at(-1)?.messages)).toBe(1);
    expect(JSON.stringify(exported)).toContain(TEXT);
    await runtime.close();
    await target.runtime.close();
  });
});
