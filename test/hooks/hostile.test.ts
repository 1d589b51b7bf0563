import type { AgentEvent } from "@rkat/core/contract/event";
import { HookEntry } from "@rkat/core/contract/hook";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import type { HookOptions } from "@rkat/core/sessions/hooks";
import { describe, expect, it } from "vitest";
import { configWith } from "../support/runtime.ts";

const CALL: ScriptedStep = { calls: [{ id: "call-1", name: "say", args: { text: "plain" } }] };

function open(options: RuntimeOptions) {
  const said: unknown[] = [];
  const say = {
    name: "say",
    description: "Says a text.",
    inputSchema: { type: "object", properties: { text: { type: "string" } } },
    execute: (args: Record<string, unknown>) => {
      said.push(args);
      return `said ${args.text}`;
    },
  };
  const store = createInMemoryStore();
  const model = createScriptedModel([CALL, { text: "Done." }]);
  const runtime = createRuntime({ model, env: process.env, tools: [say], store, ...options });
  const received: AgentEvent[] = [];
  const listener = ({ event }: { readonly event: AgentEvent }) => received.push(event);
  const run = () => runtime.dispatch("createSession", { prompt: "Speak." }, { listener });
  const results = () => received.flatMap((event) => (event.type === "tool_execution_completed" ? [event.result] : []));
  return { runtime, received, run, results, said };
}

/** A call as one without types sees it, which may do to it what it likes. */
type Loose = { [name: string]: Record<string, unknown> | undefined };

const at = (
  point: HookOptions["point"],
  run: (call: Loose) => unknown,
  more: Partial<HookOptions> = {},
): HookOptions => ({
  id: "odd",
  point,
  // It is to break what the types promise.
  run: run as unknown as HookOptions["run"],
  ...more,
});
const throwing = {
  get decision(): never {
    throw new Error("no looking");
  },
};

describe("a hook that is hostile", () => {
  it("[N2] answers what throws when it is read: that is a failure of the hook, not of the turn", async () => {
    for (const point of ["run_started", "pre_tool_execution", "turn_boundary", "run_completed"] as const) {
      const { run, received } = open({ hooks: [at(point, () => throwing)] });
      expect({ point, ...(await run()) }).toMatchObject({ point, text: "Done." });
      expect(received).toContainEqual(expect.objectContaining({ type: "hook_failed", hook_id: "odd", point }));
    }
    const guarded = open({ hooks: [at("pre_tool_execution", () => throwing, { capability: "guardrail" })] });
    await guarded.run();
    expect(guarded.results()[0]).toMatch(/^denied by hook odd: it failed/);
    expect(guarded.said).toEqual([]);
  });

  it("[N2] does so in the background, and the process lives", async () => {
    const { run, runtime, received } = open({
      hooks: [at("run_started", async () => throwing, { mode: "background" })],
    });
    expect(await run()).toMatchObject({ text: "Done." });
    await runtime.close();
    expect(received).toContainEqual(expect.objectContaining({ type: "hook_failed", hook_id: "odd" }));
  });

  it("[N1] changes what it is told: neither the next hook nor the turn sees that", async () => {
    const seen: unknown[] = [];
    const change = (value: unknown): void => {
      if (typeof value !== "object" || value === null) return;
      for (const [name, one] of Object.entries(value)) {
        if (typeof one === "string" && name !== "point") Reflect.set(value, name, "changed");
        else if (typeof one === "number") Reflect.set(value, name, 1e9);
        else change(one);
      }
    };
    const points = ["pre_llm_request", "post_llm_response", "pre_tool_execution", "post_tool_execution"] as const;
    const hooks = points.flatMap((point) => [
      at(point, change, { id: `${point}-1` }),
      at(point, (call) => void seen.push(call), { id: `${point}-2` }),
    ]);
    const { run, results } = open({ hooks });
    expect(await run()).toMatchObject({ usage: { total_tokens: 30 } });
    expect(results()).toEqual(["said plain"]);
    expect(seen.length).toBeGreaterThan(points.length);
    expect(JSON.stringify(seen)).not.toMatch(/changed|1000000000/);
  });

  it("[N2] rewrites arguments to what is no JSON: that is a failure of the hook", async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    for (const args of [{ text: () => 1 }, cyclic, { text: 1n }, { text: Symbol("x") }]) {
      const patches = [{ patch_type: "tool_args", args }];
      const { run, results, said } = open({
        hooks: [
          at("pre_tool_execution", () => ({ patches }), { capability: "rewrite" }),
          at("pre_tool_execution", () => undefined, { id: "next" }),
        ],
      });
      expect(await run()).toMatchObject({ text: "Done." });
      expect(results()[0]).toMatch(/^denied by hook odd: it failed/);
      expect(said).toEqual([]);
    }
  });

  it("[N2] rewrites arguments to what the tool does not take: the tool is not run", async () => {
    const patches = [{ patch_type: "tool_args", args: { text: 7 } }];
    const { run, results, said } = open({
      hooks: [at("pre_tool_execution", () => ({ patches }), { capability: "rewrite" })],
    });
    await run();
    expect(results()[0]).toMatch(/^the arguments of say are wrong/);
    expect(said).toEqual([]);
  });

  it("[N2] throws a text without an end: what is kept of it is short", async () => {
    const { run, received } = open({
      hooks: [
        at("run_started", () => {
          throw new Error("x".repeat(1_000_000));
        }),
      ],
    });
    await run();
    const failed = received.find((event) => event.type === "hook_failed");
    expect(JSON.stringify(failed).length).toBeLessThan(10_000);
  });
});

const command = (fields: object, line: string): HookEntry =>
  HookEntry.parse({
    id: "odd",
    timeout_ms: 120_000,
    ...fields,
    runtime: { type: "command", command: "sh", args: ["-c", line] },
  });

describe("a command that is a hook", () => {
  it("[N1] may answer with as much as it may say", async () => {
    const line = `printf '{"patches":[{"patch_type":"tool_result","content":"'; head -c 300000 /dev/zero | tr '\\0' x; printf '"}]}'`;
    const entries = [command({ point: "post_tool_execution", capability: "rewrite" }, line)];
    const { run, results, runtime } = open({ config: configWith({ hooks: { entries } }) });
    await run();
    await runtime.close();
    expect(results()[0]).toMatch(/^x+/);
  });

  it("[N2] that refuses and then says much is no yes", async () => {
    const deny = '{"decision":{"decision":"deny","reason_code":"policy_violation","message":"no"}}';
    const line = `printf '%s' '${deny}'; head -c 300000 /dev/zero | tr '\\0' ' '`;
    const entries = [command({ point: "pre_tool_execution", capability: "guardrail" }, line)];
    const { run, results, said, runtime } = open({ config: configWith({ hooks: { entries } }) });
    await run();
    await runtime.close();
    expect(results()[0]).toBe("denied by hook odd: no");
    expect(said).toEqual([]);
  });
});
