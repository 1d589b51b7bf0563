import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { type Driver, failure, type Outcome, openRuntimeDriver, type ReportedEvent } from "./driver.ts";
import { readPresent, runScenario } from "./run-scenario.ts";
import type { Scenario } from "./scenario.ts";

const HELLO: Scenario = {
  name: "hello",
  title: "a turn and a read",
  steps: [
    {
      call: "createSession",
      input: { prompt: "What is 2 + 3?", model: "offline" },
      result: { turns: 1, terminal_cause_kind: undefined },
      keep: { session: "session_id" },
      events: [
        { type: "run_started", session_id: "{session}", prompt: "What is 2 + 3?" },
        { type: "turn_started" },
        { type: "text_delta" },
        { type: "text_complete", content: /5/ },
        { type: "turn_completed" },
        { type: "run_completed" },
      ],
    },
    { call: "readSession", input: { session_id: "{session}" }, result: { session_id: "{session}", message_count: 2 } },
  ],
};

describe("a scenario", () => {
  it("[G7] is told well, and its first difference is named", async () => {
    const driver = await driverOf();
    expect(await verdictOf(driver)).toEqual({ kind: "ok" });
    const lies: readonly [Partial<Driver>, RegExp][] = [
      [context(driver, (event) => (event.type === "turn_started" ? [] : [event])), /events\[1\]\.type is "text_delta"/],
      [context(driver, (event) => (event.type === "run_completed" ? [event, event] : [event])), /7 elements/],
      [answering(driver, "createSession", { ok: true, result: { turns: 2 } }), /turns is 2, and must be 1/],
      [
        answering(driver, "createSession", { ok: true, result: { turns: 1 } }),
        /events has 0 elements, and must have 6/,
      ],
      [answering(driver, "readSession", { ok: false, code: "X", message: "no" }), /step 2, readSession: .* X: no/],
      [{ call: () => Promise.reject(new Error("gone")) }, /NO_ANSWER: gone/],
    ];
    for (const [lie, sentence] of lies) {
      const verdict = await verdictOf({ ...driver, ...lie });
      expect(verdict).toEqual({ kind: "failed", difference: expect.stringMatching(sentence) });
    }
    await driver.close();
  });

  it("[G7] is not told where its capability or the surface's form for it is absent", async () => {
    const driver = await driverOf();
    const present = await readPresent(driver);
    expect([...present]).toEqual(["session-store"]);
    const needing = (scenario: Scenario, own: Partial<Driver> = {}) =>
      runScenario({ ...driver, ...own }, scenario, { present, run: "x" }).then(({ verdict }) => verdict.kind);
    expect(await needing({ ...HELLO, requires: ["memory-store"] })).toBe("not applicable");
    expect(await needing({ ...HELLO, needs: ["pins"] }, { lacks: () => "no form" })).toBe("not applicable");
    const search: Scenario = { ...HELLO, steps: [{ call: "searchMemory", input: { query: "heron" } }] };
    expect(await needing(search)).toBe("ok");
    await driver.close();
  });

  it("[G7] a code that comes with another number than the table's is another code", () => {
    const reported = { code: "SESSION_BUSY", message: "busy" };
    expect(failure(reported, { kind: "http", value: 409 })).toMatchObject({ code: "SESSION_BUSY" });
    expect(failure(reported, { kind: "http", value: 500 }).code).toMatch(/^SESSION_BUSY with the status 500/);
    expect(failure(reported, { kind: "exit", value: 1 }).code).toMatch(/exit code 1/);
  });
});

function driverOf(): Promise<Driver> {
  return openRuntimeDriver("runtime", async () => createRuntime({ env: {}, store: createInMemoryStore() }));
}

async function verdictOf(driver: Driver) {
  const present = new Set(["session-store"] as const);
  return (await runScenario(driver, HELLO, { present, run: "0000" })).verdict;
}

function context(driver: Driver, change: (event: ReportedEvent) => readonly ReportedEvent[]): Partial<Driver> {
  return {
    call: (operation, input, onEvent) =>
      driver.call(operation, input, (event) => {
        for (const reported of change(event)) onEvent?.(reported);
      }),
  };
}

function answering(driver: Driver, lied: string, outcome: Outcome): Partial<Driver> {
  return {
    call: (operation, ...rest) => (operation === lied ? Promise.resolve(outcome) : driver.call(operation, ...rest)),
  };
}
