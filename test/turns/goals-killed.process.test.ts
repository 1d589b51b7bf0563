import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { byEffort } from "../support/effort.ts";
import { openWorker } from "./goal-process.ts";

/** A goal of three turns has so many of each; before its first append there is none. */
const ALL = { "after append": 15, "before append": 15, "in model call": 6, "in check": 3 };
const EVERY = byEffort({ quick: 12, usual: 1, full: 1 });
const POINTS = Object.entries(ALL)
  .flatMap(([at, count]) => Array.from({ length: count }, (_, number) => [at, number + 1] as const))
  .filter(([at, number]) => at !== "before append" || number > 1);

describe("kill -9 in a goal", () => {
  it.each(POINTS.filter((_, index) => index % EVERY === 0))(
    "[Q3] [P1] is continued by another process: killed %s %d",
    async (at, number) => {
      const folder = mkdtempSync(join(tmpdir(), "rkat-goal-"));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      writeFileSync(join(folder, "work"), "");
      writeFileSync(join(folder, "die"), at === "in check" ? `${number}` : "0");
      const { runtime, kept } = await openWorker(folder);
      onTestFinished(async () => {
        await runtime.close();
        await kept.close();
      });
      const { id } = await runtime.createSession();
      const args = [join(import.meta.dirname, "goal-process.ts"), folder, id, at, `${number}`];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
      onTestFinished(() => void child.kill("SIGKILL"));
      const [code, signal] = await once(child, "exit");
      expect({ code, signal }).toEqual({ code: null, signal: "SIGKILL" });

      const bodies = async () => (await kept.log.read(id, 1, Number.MAX_SAFE_INTEGER)).map(({ body }) => body);
      await expect.poll(async () => (await kept.sessions.get(id))?.goal_phase, { timeout: 30_000 }).toBe("reached");
      const steps = (await bodies()).flatMap((body) =>
        /^(?:turn_opened|turn_continued|goal_judged|goal_ended)$/.test(body.kind) ? [body.kind] : [],
      );
      const turns = steps.filter((kind) => kind.startsWith("turn_")).length;
      const further = Array.from({ length: turns - 1 }, () => ["turn_continued", "goal_judged"]);
      expect(steps).toEqual(["turn_opened", "goal_judged", ...further.flat(), "goal_ended"]);
      const work = readFileSync(join(folder, "work"), "utf8").trim().split("\n");
      expect(work).toEqual([...new Set(work)]);
      expect(work).toHaveLength(3);
    },
    60_000,
  );
});
