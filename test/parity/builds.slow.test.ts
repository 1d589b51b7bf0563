import { BUILDS } from "@rkat/core/contract/capability";
import { describe, expect, it } from "vitest";
import { CLIENTS, essenceOf, type Opened, playScenario, useStage, type Way } from "./stage.ts";
import { MS_MAX } from "./surfaces.ts";

const WAYS: readonly Way[] = ["rpc", "rest", "mcp", "mcp-http", "cli", ...CLIENTS];

/** Builds that leave something out. */
const { F: _, ...LESSER } = BUILDS;

/** What a capability changes. */
const TELLING = [
  "create",
  "further-turn",
  "compaction-of-live-session",
  "compaction-asked-for",
  "memory-asked-for",
  "unknown-session",
  "unknown-live-session",
  "unknown-turn",
  "unknown-compactions",
  "archive",
  "history-search",
];

describe("builds", () => {
  const open = useStage();
  for (const [build, features] of Object.entries(LESSER)) {
    it(
      `[G7] [F2] ${build}: what is left out is left out on every surface, and refused alike`,
      async () => {
        const runtime = await open("runtime", features);
        expect([...runtime.present].sort()).toEqual([...features].sort());
        // One after the other: ten programs that start at once on a busy machine are each too late.
        const ways: { readonly way: Way; readonly opened: Opened }[] = [];
        for (const way of WAYS) ways.push({ way, opened: await open(way, features) });
        for (const name of TELLING) {
          const scenarioRun = await playScenario(runtime, name);
          expect({ name, verdict: scenarioRun.verdict }).not.toMatchObject({ verdict: { kind: "failed" } });
          for (const { way, opened } of ways) {
            expect({ way, present: opened.present }).toEqual({ way, present: runtime.present });
            const same = await playScenario(opened, name);
            if (same.verdict.kind === "not applicable") continue;
            expect({ way, name, verdict: same.verdict }).toEqual({ way, name, verdict: scenarioRun.verdict });
            expect({ way, name, reported: essenceOf(same) }).toEqual({ way, name, reported: essenceOf(scenarioRun) });
          }
        }
      },
      MS_MAX,
    );
  }
});
