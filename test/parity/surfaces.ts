import { SCENARIOS } from "@rkat/conformance/conformance";
import type { CallStep, Scenario } from "@rkat/conformance/scenario";
import type { Capability } from "@rkat/core/contract/capability";
import type { OperationName } from "@rkat/core/contract/operations";
import { describe, expect, it } from "vitest";
import { essenceOf, type Opened, playScenario, useStage, type Way } from "./stage.ts";

export const ALL: readonly Capability[] = ["session-store", "memory-store", "session-compaction"];
export const MS_MAX = 240_000;

/** Scenarios about processes, or about two commands at once: the command line runs one process per command for them. */
const BY_PROCESSES = ["busy-and-interrupt", "restart", "token-budget", "provider-fails"];

/** What a surface has no form for; `docs/conformance.md` says why. */
export const NOT_APPLICABLE: Readonly<Record<string, readonly Way[]>> = {
  "client-tools": ["cli"],
  files: ["cli"],
  history: ["cli"],
  deferred: ["cli"],
  "inject-once": ["cli"],
  import: ["cli"],
  "wrong-fields": ["cli"],
  pins: ["mcp", "mcp-http"],
  servers: ["mcp", "mcp-http"],
  prune: ["mcp", "mcp-http"],
  "asked-call": ["cli", "mcp", "mcp-http"],
};

/** Compares surfaces with the runtime in this process: the same events, results and error codes. */
export function describeSurfaces(ways: readonly Way[], scenariosOf: (way: Way) => readonly Scenario[]): void {
  describe.each(ways)("scenarios on %s", (way) => {
    const open = useStage();
    const opened = new Map<Way, Promise<Opened>>();
    const on = (one: Way): Promise<Opened> => {
      const known = opened.get(one) ?? open(one, ALL);
      opened.set(one, known);
      return known;
    };

    for (const { name, title } of scenariosOf(way)) {
      it(`[G7] ${name}: ${title}`, { timeout: MS_MAX }, async () => {
        const scenarioRun = await playScenario(await on("runtime"), name);
        expect(scenarioRun.verdict).toEqual({ kind: "ok" });
        const same = await playScenario(
          await on(way === "cli" && BY_PROCESSES.includes(name) ? "cli processes" : way),
          name,
        );
        const isApplicable = !NOT_APPLICABLE[name]?.includes(way);
        expect(same.verdict).toMatchObject({ kind: isApplicable ? "ok" : "not applicable" });
        if (isApplicable) expect(essenceOf(same)).toEqual(essenceOf(scenarioRun));
      });
    }
  });
}

/** Few scenarios that together call every operation a surface can be asked for. */
export function coveringScenarios(way: Way): readonly Scenario[] {
  const candidates = SCENARIOS.filter(({ name }) => !NOT_APPLICABLE[name]?.includes(way));
  const missing = new Set(candidates.flatMap(operationsOf));
  const chosen: Scenario[] = [];
  while (missing.size > 0) {
    const gain = (scenario: Scenario) => operationsOf(scenario).filter((name) => missing.has(name)).length;
    const best = candidates.reduce((left, right) => (gain(right) > gain(left) ? right : left));
    for (const operation of operationsOf(best)) missing.delete(operation);
    chosen.push(best);
  }
  return chosen;
}

function operationsOf({ steps }: Scenario): readonly OperationName[] {
  const calls = steps.flatMap((step) => ("call" in step ? callsIn(step) : []));
  return [...new Set(calls.map(({ call }) => call))];
}

export function callsIn(step: CallStep): readonly CallStep[] {
  return [step, ...(step.meanwhile?.steps ?? [])];
}
