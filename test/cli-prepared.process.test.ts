import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Compaction } from "@rkat/core/contract/compaction";
import type { ModelClient } from "@rkat/core/ports/model";
import { openRuntime } from "@rkat/node/open-runtime";
import type { Parts } from "rkat/parts";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { CONFIGURATION, fact, NO_MODEL } from "./support/compacting-command-line.ts";
import { createHeldModel, SUMMARY } from "./support/held-summaries.ts";
import { waitForEvent } from "./support/prepared-sessions.ts";

const line = useCommandLine();
const WAIT = "Wait for it.";

/** A turn takes about 150 tokens: one is made ready from 750 on, and used from 1,500 on. */
beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), `${CONFIGURATION}prepare = true\nprepare_at = 0.5\n`));

/** The turn that says WAIT is answered when a compaction is ready. */
function summarised(priced: Partial<ModelClient> = {}) {
  const model = createHeldModel(priced);
  const openOwn: Parts["openRuntime"] = async (options) => {
    const stream: ModelClient["stream"] = async function* (request, signal) {
      if (JSON.stringify(request.messages.at(-1)).includes(WAIT)) {
        const [session] = await runtime.listSessions();
        await waitForEvent(runtime.session(session?.sessionId ?? ""), "compaction_prepared");
      }
      yield* model.stream(request, signal);
    };
    const runtime = await openRuntime({ ...options, model: { ...model, stream } });
    return runtime;
  };
  const succeed = async (args: readonly string[], input?: string): Promise<string> => {
    const given = { env: NO_MODEL, own: { openRuntime: openOwn }, ...(input === undefined ? {} : { input }) };
    const { code, stdout, stderr } = await line.run(args, given);
    expect({ args, code, stderr }).toMatchObject({ code: 0 });
    return stdout;
  };
  const compactions = async (): Promise<readonly Compaction[]> =>
    JSON.parse(await succeed(["compact", "list", "last", "--json"])).compactions;
  return { asked: model.asked, succeed, compactions };
}

const TURNS_MAX = 30;

describe("[J2] where compactions are prepared", () => {
  it("a command that ends with its turn prepares none, and compacts at the threshold", async () => {
    const { asked, succeed, compactions } = summarised();
    await succeed(["run", fact(1), "-t", "none"]);
    for (let turn = 2; turn < TURNS_MAX && asked() === 0; turn += 1) await succeed(["resume", "last", fact(turn)]);
    expect(asked()).toBe(1);
    const made = await compactions();
    expect(made).toEqual([expect.objectContaining({ trigger: "threshold", summary: SUMMARY })]);
    expect(made[0]?.prepared).toBeUndefined();
    expect(made[0]?.tokens_before).toBeGreaterThanOrEqual(1_500);
  });

  it("it uses what a chat has prepared, without asking for another", async () => {
    const { asked, succeed, compactions } = summarised();
    const facts = Array.from({ length: 7 }, (_, at) => fact(at + 1));
    await succeed(["chat", "-t", "none"], [...facts, WAIT].join("\n"));
    expect(asked()).toBe(1);
    expect(await compactions()).toEqual([]);
    for (let turn = 8; turn < TURNS_MAX && (await compactions()).length === 0; turn += 1) {
      await succeed(["resume", "last", fact(turn)]);
    }
    expect(asked()).toBe(1);
    expect(await compactions()).toEqual([
      expect.objectContaining({ prepared: { seq: expect.any(Number), at: expect.any(String) } }),
    ]);
    const shown = await succeed(["compact", "show", "last"]);
    expect(shown).toMatch(/\n {3}prepared +\d{4}-\d\d-\d\dT[\d:.]+Z, without a wait\n/);
  });

  it("[J3] a preview says in money whether it pays", async () => {
    const { succeed } = summarised({ prices: { currency: "USD", input: 3, output: 3 } });
    await succeed(["run", fact(1), "-t", "none", "--compact-policy", "economy"]);
    for (const turn of [2, 3, 4]) await succeed(["resume", "last", fact(turn)]);
    const preview = await succeed(["compact", "run", "last", "--preview"]);
    expect(preview).toMatch(
      /\n {3}pays +saves about \$[\d.]+ over \d+ calls, costs about \$[\d.]+ \(the cache is warm\)\n/,
    );
  });
});
