import { beforeAll, describe, expect, it } from "vitest";
import { goOn, otherWork, waitForEvent } from "../../../../test/support/prepared-sessions.ts";
import { listen, typesOf } from "../../../../test/support/runtime.ts";
import { COMPACTION_PROMPT } from "../compaction/shown-messages.ts";
import { createInMemoryStore, createRuntime } from "../create-runtime.ts";
import type { ModelRequest } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import { createScriptedModel, type ScriptedStep } from "../providers/scripted.ts";
import type { Session } from "../sessions/session-handle.ts";
import type { CompactionOptions } from "../sessions/session-settings.ts";

// Loaded by the first compaction otherwise, which takes as long as many turns.
beforeAll(async () => {
  await import("../compaction/run-compaction.ts");
  await import("../compaction/published.ts");
});

const LINE = "export const heron = 'the heron stood in the reeds';\n"; // about 13 tokens
/** Tool output leaves from 3,600 on, a summary is made ready from 4,800 on and used from 6,000 on. */
const SMALL = { autoCompactThreshold: 6_000, maxSummaryTokens: 100, recentTurnBudget: 2, prepare: true } as const;

const read: Tool = {
  name: "read",
  description: "Reads so many lines of a file.",
  inputSchema: { type: "object", properties: { lines: { type: "number" } } },
  execute: ({ lines }) => LINE.repeat(Number(lines)),
};

const isForSummary = ({ messages }: ModelRequest): boolean => {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
};

/** A session whose model makes the calls it is told to and then is done; a preparation begins when `begun` is not 0. */
function open(compaction: CompactionOptions) {
  const script: ScriptedStep[] = [];
  const gate = Promise.withResolvers<undefined>();
  let begun = 0;
  const beforeCompaction = () => {
    begun += 1;
    return gate.promise;
  };
  const runtime = createRuntime({
    model: createScriptedModel((request) => {
      if (isForSummary(request)) return { text: "They talked about a heron." };
      return script.shift() ?? { text: "Done." };
    }),
    env: {},
    store: createInMemoryStore(),
    toolPreset: "safe",
    tools: [read],
    compaction: { ...SMALL, ...compaction, beforeCompaction },
  });
  let calls = 0;
  const reading = (lines: number): ScriptedStep => ({ calls: [{ id: `c${calls++}`, name: "read", args: { lines } }] });
  return { runtime, script, reading, begun: () => begun, release: () => gate.resolve(undefined) };
}

const size = async (session: Session): Promise<number> => (await session.context()).estimatedTokens;

async function turn(session: Session, prompt: string): Promise<readonly string[]> {
  const { events } = await listen(session.stream(prompt));
  await otherWork();
  return typesOf(events);
}

describe("[J1] [J2] tool output and a summary that is made ready", () => {
  for (const prepare of [true, false]) {
    const what = prepare
      ? "nothing leaves while one is made or waits, so it is not spoilt"
      : "otherwise it would leave";
    it(what, async () => {
      const { runtime, script, reading, begun, release } = open({ prepare, prepareAt: 0.7 });
      const session = await runtime.createSession(LINE.repeat(60));
      while ((await size(session)) < 4_250) await turn(session, LINE.repeat(10));
      await turn(session, "And?");
      expect(begun()).toBe(prepare ? 1 : 0);
      // The same output twice: of the first nothing is needed.
      script.push(reading(48), reading(48));
      const types = [...(await turn(session, "Read it twice.")), ...(await turn(session, "And now?"))];
      expect(await size(session)).toBeLessThan(5_900);
      expect(types.includes("context_evicted")).toBe(!prepare);
      release();
      if (!prepare) return runtime.close();
      const { compaction_id } = await waitForEvent(session, "compaction_prepared");
      expect(await turn(session, "And then?")).not.toContain("context_evicted");
      const events = await goOn(session, async () => (await session.compactions()).length > 0);
      expect(typesOf(events)).toContain("compaction_completed");
      expect(await session.compactions()).toEqual([
        expect.objectContaining({ compactionId: compaction_id, trigger: "threshold" }),
      ]);
      await runtime.close();
    });
  }

  for (const evict of [true, false]) {
    const what = evict ? "leaves before one is made ready, which is not needed then" : "that stays has one made ready";
    it(`output ${what}`, async () => {
      const { runtime, script, reading, begun, release } = open({ evict });
      release();
      script.push(...[60, 60, 60, 61, 62, 63, 64].map(reading));
      const session = await runtime.createSession("Read it three times, and then some.");
      await otherWork();
      const evictions = (await session.compactions()).filter(({ trigger }) => trigger === "eviction");
      expect({ begun: begun(), evictions: evictions.length }).toEqual({
        begun: evict ? 0 : 1,
        evictions: evict ? 1 : 0,
      });
      if (evict) expect(await size(session)).toBeLessThan(4_800);
      await runtime.close();
    });
  }

  it.each([0, 2])("[J1] a share of %s is refused in a sentence", (evictAt) => {
    expect(() => open({ evictAt })).toThrow("compaction.evictAt: write a fraction above 0 and up to 1, like 0.8");
  });

  it("[J1] a switch that is none is refused in a sentence", () => {
    const wrong = { evict: "yes" } as unknown as { evict: boolean }; // As whoever writes JavaScript may.
    expect(() => open(wrong)).toThrow("compaction.evict: write true or false");
  });
});
