import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Caller } from "@rkat/core/contract/caller";
import type { AgentEvent } from "@rkat/core/contract/event";
import { HookEntry } from "@rkat/core/contract/hook";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import type { HookOptions } from "@rkat/core/sessions/hooks";
import { afterEach, describe, expect, it } from "vitest";
import { isRunning } from "../support/mcp-servers.ts";
import { configWith } from "../support/runtime.ts";

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

const CALL: ScriptedStep = { calls: [{ id: "call-1", name: "say", args: { text: "plain" } }] };
const SAY = {
  name: "say",
  description: "Says a text.",
  inputSchema: { type: "object" },
  execute: ({ text }: Record<string, unknown>) => `said ${text}`,
};

function open(steps: readonly ScriptedStep[], options: RuntimeOptions) {
  const store = options.store ?? createInMemoryStore();
  const model = createScriptedModel(steps);
  const runtime = createRuntime({ model, env: process.env, tools: [SAY], ...options, store });
  const received: AgentEvent[] = [];
  const listener = ({ event }: { readonly event: AgentEvent }) => received.push(event);
  const logOf = async (id: string) => (await store.log.read(id, 0, 1_000)).map(({ body }) => body);
  return { runtime, store, model, received, call: { listener }, logOf };
}

const command = (fields: object, line: string): HookEntry =>
  HookEntry.parse({ timeout_ms: 120_000, ...fields, runtime: { type: "command", command: "sh", args: ["-c", line] } });

describe("a hook", () => {
  it("[N1] refuses an answer: its text is not kept, what it took is counted, and the next turn goes on", async () => {
    const guard: HookOptions = {
      id: "quiet",
      point: "post_llm_response",
      capability: "guardrail",
      run: ({ llm_response }) =>
        llm_response?.assistant_text.includes("secret")
          ? { decision: { decision: "deny", reason_code: "safety_violation", message: "it tells" } }
          : undefined,
    };
    const { runtime, logOf, received, call } = open([{ text: "The secret is 7." }, { text: "Hello." }], {
      hooks: [guard],
    });
    const refused = runtime.dispatch("createSession", { prompt: "Tell me." }, call);
    const details = { terminal_cause_kind: "hook_denied", core_apply_failure_cause: "hook_denied" };
    const message = "denied by hook quiet: it tells";
    await expect(refused).rejects.toMatchObject({ code: "HOOK_DENIED", message, details });
    expect(received.map(({ type }) => type)).toContain("hook_started");
    const [{ session_id } = { session_id: "" }] = (await runtime.dispatch("listSessions", {})).sessions;
    const bodies = await logOf(session_id);
    expect(bodies.map(({ kind }) => kind)).toEqual([
      "session_created",
      "turn_opened",
      "model_called",
      "event",
      "call_failed",
      "turn_closed",
    ]);
    expect(JSON.stringify(bodies)).not.toContain("secret is 7");
    const next = await runtime.dispatch("startTurn", { session_id, prompt: "And now?" });
    expect(next).toMatchObject({ text: "Hello.", usage: { total_tokens: 30 } });
  });

  it("[N1] rewrites what a tool is given; that is judged, asked about, and run by whoever goes on elsewhere", async () => {
    const store = createInMemoryStore();
    const rewrite: HookOptions = {
      id: "polite",
      point: "pre_tool_execution",
      capability: "rewrite",
      tools: ["s*"],
      run: () => ({ patches: [{ patch_type: "tool_args", args: { text: "please" } }] }),
    };
    const permissions = { ask: ["say"] };
    const here = open([CALL], { store, hooks: [rewrite] });
    const asked = Promise.withResolvers<Extract<AgentEvent, { type: "tool_approval_requested" }>>();
    const listener = ({ event }: { readonly event: AgentEvent }) => {
      if (event.type === "tool_approval_requested") asked.resolve(event);
    };
    const leaving = new AbortController();
    const turn = here.runtime.dispatch(
      "createSession",
      { prompt: "Speak.", permissions },
      { listener, leaving: leaving.signal },
    );
    turn.catch(() => {});
    const { session_id, approval_id, calls } = await asked.promise;
    expect(calls).toMatchObject([{ id: "call-1", args: { text: "please" } }]);
    await here.runtime.close();
    // Another process, whose hook rewrites nothing: what was decided stands.
    const there = open([{ text: "Done." }], { store, hooks: [{ ...rewrite, run: () => undefined }] });
    const answer = { session_id, approval_id, decision: "allow", calls: ["call-1"] };
    let turnThere: Promise<unknown> | undefined;
    await there.runtime.dispatch("answerApproval", answer, {
      background: (gone) => {
        turnThere = gone;
      },
    });
    await turnThere;
    await there.runtime.close();
    const bodies = await there.logOf(session_id);
    const results = bodies.flatMap((body) => (body.kind === "tool_results" ? body.message.results : []));
    expect(results).toMatchObject([{ content: "said please", is_error: false }]);
    const said = bodies.flatMap((body) => (body.kind === "assistant" ? body.message.blocks : []));
    expect(said).toContainEqual(
      expect.objectContaining({ data: expect.objectContaining({ args: { text: "plain" } }) }),
    );
    const reported = bodies.flatMap((body) => (body.kind === "event" ? [body.event] : []));
    expect(reported).toContainEqual(
      expect.objectContaining({ type: "hook_completed", hook_id: "polite", rewrote: true }),
    );
  });

  it("[N1] rewrites what a tool gave, and the original is kept nowhere", async () => {
    const long = `the number is 4711 ${"x".repeat(400_000)}`;
    const tools = [{ ...SAY, execute: () => long }];
    const hooks: HookOptions[] = [
      {
        id: "redact",
        point: "post_tool_execution",
        capability: "rewrite",
        run: ({ tool_result, truncated }) => ({
          patches: [{ patch_type: "tool_result", content: `${tool_result?.content.length} ${truncated} redacted` }],
        }),
      },
    ];
    const { runtime, store, logOf } = open([CALL, { text: "Done." }], { hooks, tools });
    const blobs: string[] = [];
    const put = store.blobs.put.bind(store.blobs);
    store.blobs.put = async (blob) => {
      blobs.push(new TextDecoder().decode(blob.data));
      return put(blob);
    };
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Speak." });
    const kept = JSON.stringify(await logOf(session_id));
    expect(kept).toMatch(/1[0-9]{5} true redacted/);
    expect(kept + blobs.join()).not.toContain("4711");
  });

  it("[N1] that only observes cannot refuse or rewrite, and that it tried is told", async () => {
    const hooks: HookOptions[] = [
      {
        id: "loud",
        point: "pre_tool_execution",
        run: () => ({ decision: { decision: "deny", reason_code: "policy_violation", message: "no" } }),
      },
    ];
    const { runtime, received, call } = open([CALL, { text: "Done." }], { hooks });
    await expect(runtime.dispatch("createSession", { prompt: "Speak." }, call)).resolves.toMatchObject({
      text: "Done.",
    });
    const reported = received.filter(({ type }) => type === "hook_completed");
    expect(reported).toMatchObject([{ hook_id: "loud", point: "pre_tool_execution", ignored: true }]);
  });

  it("[N1] that only observes is told of what is kept, and nothing is appended for its sake", async () => {
    const points = ["run_started", "pre_llm_request", "turn_boundary"] as const;
    const live = async (isWatched: boolean) => {
      const store = createInMemoryStore();
      const [appends, seen]: [string[][], string[]] = [[], []];
      const append = store.log.append.bind(store.log);
      store.log.append = async (...given) => {
        const entries = await append(...given);
        appends.push(entries.map(({ body }) => body.kind));
        return entries;
      };
      const hooks = points.map((point): HookOptions => {
        const run = (): undefined => void seen.push(`${point} after ${appends.flat().at(-1)}`);
        return { id: point, point, run };
      });
      const { runtime } = open([CALL, { text: "Done." }], { store, ...(isWatched && { hooks }) });
      await runtime.dispatch("createSession", { prompt: "Speak." });
      return { appends, seen };
    };
    const watched = await live(true);
    expect(watched.appends).toEqual((await live(false)).appends);
    const before = "after model_called";
    expect(watched.seen).toEqual([
      `run_started ${before}`,
      `pre_llm_request ${before}`,
      `turn_boundary ${before}`,
      `pre_llm_request ${before}`,
      `turn_boundary ${before}`,
    ]);
  });

  it("[N1] vetoes a compaction and is told of one, whoever asked for it", async () => {
    let isOpen = false;
    const seen: unknown[] = [];
    const hooks: HookOptions[] = [
      {
        id: "keep",
        point: "pre_compaction",
        capability: "guardrail",
        run: ({ compaction }) => {
          seen.push(compaction);
          return isOpen
            ? undefined
            : { decision: { decision: "deny", reason_code: "policy_violation", message: "not now" } };
        },
      },
      { id: "after", point: "post_compaction", run: ({ compaction }) => void seen.push(compaction) },
    ];
    const steps = Array.from({ length: 20 }, (_, n) => ({ text: `Answer ${n}: ${"word ".repeat(80)}` }));
    const { runtime, logOf } = open(steps, { hooks, compaction: { recentTurnBudget: 1 } });
    const { session_id } = await runtime.dispatch("createSession", { prompt: "One." });
    for (const prompt of ["Two.", "Three.", "Four."]) await runtime.dispatch("startTurn", { session_id, prompt });
    const vetoed = await runtime.dispatch("compactSession", { session_id });
    expect(vetoed).toMatchObject({ compacted: false, reason: "vetoed: denied by hook keep: not now" });
    const kept = (await logOf(session_id)).flatMap((body) => (body.kind === "event" ? [body.event.type] : []));
    expect(kept).toContain("hook_denied");
    isOpen = true;
    expect(await runtime.dispatch("compactSession", { session_id })).toMatchObject({ compacted: true });
    expect(seen).toMatchObject([{ trigger: "manual" }, { trigger: "manual" }, { compaction_id: expect.any(String) }]);
  });

  it("[N2] that is a command is killed with all it started when the turn is interrupted", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rkat-hook-"));
    folders.push(folder);
    const entry = command(
      { id: "slow", point: "pre_tool_execution", capability: "guardrail" },
      `sleep 600 & echo $! > ${folder}/pid.new; mv ${folder}/pid.new ${folder}/pid; wait`,
    );
    const config = configWith({ hooks: { entries: [entry] } });
    const { runtime, logOf } = open([CALL], { config });
    const stop = new AbortController();
    const turn = runtime.dispatch("createSession", { prompt: "Speak." }, { signal: stop.signal });
    turn.catch(() => {});
    const pid = await until(async () => Number(await readFile(join(folder, "pid"), "utf8").catch(() => "0")));
    stop.abort();
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    const [{ session_id } = { session_id: "" }] = (await runtime.dispatch("listSessions", {})).sessions;
    const results = (await logOf(session_id)).flatMap((body) =>
      body.kind === "tool_results" ? body.message.results : [],
    );
    const content = "not run: the turn was interrupted before hooks checked it";
    expect(results).toEqual([{ tool_use_id: "call-1", is_error: true, content }]);
    await runtime.close();
    expect(isRunning(pid)).toBe(false);
  });

  it("[N2] in the background is waited for by the end of the runtime alone, and one too many is skipped and told", async () => {
    const gate = Promise.withResolvers<undefined>();
    const done: string[] = [];
    const hooks: HookOptions[] = [1, 2].map((n) => ({
      id: `bg-${n}`,
      point: "run_started" as const,
      mode: "background" as const,
      run: async () => {
        await gate.promise;
        done.push(`bg-${n}`);
        return undefined;
      },
    }));
    const config = configWith({ hooks: { background_max_concurrency: 1 } });
    const { runtime, received, call } = open([{ text: "Done." }], { hooks, config });
    await runtime.dispatch("createSession", { prompt: "Speak." }, call);
    expect(done).toEqual([]);
    const failed = received.filter(({ type }) => type === "hook_failed");
    expect(failed).toMatchObject([{ hook_id: "bg-2", error: expect.stringContaining("skipped") }]);
    const closed = runtime.close();
    gate.resolve(undefined);
    await closed;
    expect(done).toEqual(["bg-1"]);
  });
});

describe("whose hooks they are", () => {
  const caller: Caller = { name: "guest", scopes: new Set(["read", "run", "tools", "config"]), labels: {} };
  const admin: Caller = { name: "boss", scopes: new Set(["admin"]), labels: {} };
  const entries = [{ id: "mine", point: "run_started", runtime: { type: "command", command: "true" } }];

  it("[N3] a turn's own are for the user of the process and for who has admin; nothing is begun otherwise", async () => {
    const guard: HookOptions = { id: "guard", point: "run_started", capability: "guardrail", run: () => undefined };
    const { runtime } = open([{ text: "A." }, { text: "B." }], { hooks: [guard] });
    const asks = [{ entries }, { disable: ["guard"] }];
    for (const hooks_override of asks) {
      const refused = runtime.dispatch("createSession", { prompt: "Hi.", hooks_override }, { caller });
      const message = "hooks_override needs the scope admin, which guest does not have";
      await expect(refused).rejects.toMatchObject({ code: "PERMISSION_DENIED", message });
    }
    const unknown = runtime.dispatch("createSession", { prompt: "Hi.", hooks_override: { disable: ["gard"] } });
    await expect(unknown).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: /there is no hook gard; there are: guard/,
    });
    const clash = { entries: entries.map((entry) => ({ ...entry, id: "guard" })) };
    const twice = runtime.dispatch("createSession", { prompt: "Hi.", hooks_override: clash });
    await expect(twice).rejects.toMatchObject({ code: "INVALID_PARAMS", message: /there is a hook guard; disable it/ });
    expect((await runtime.dispatch("listSessions", {})).sessions).toEqual([]);
    await runtime.dispatch("createSession", { prompt: "Hi.", hooks_override: { entries } }, { caller: admin });
    await runtime.dispatch("createSession", { prompt: "Hi.", hooks_override: { ...clash, disable: ["guard"] } });
  });

  const base = { id: "a", point: "pre_llm_request", runtime: { type: "command", command: "true" } };
  it.each([
    [
      { ...base, capability: "rewrite" },
      /capability: only pre_tool_execution and post_tool_execution can be rewritten/,
    ],
    [{ ...base, point: "run_completed", capability: "guardrail" }, /nothing can be refused at run_completed any more/],
    [{ ...base, capability: "guardrail", mode: "background" }, /mode: a guardrail is waited for/],
    [{ ...base, point: "run_failed", failure_policy: "fail_closed" }, /failure_policy: nothing can be refused there/],
    [{ ...base, tools: ["shell"] }, /tools: pre_llm_request is not about a tool/],
    [{ ...base, runtime: { type: "http", command: "x" } }, /runtime.type: write "command"/],
    [{ ...base, priorty: 1 }, /priorty: there is no such field/],
  ])("[N1] one that could not do what it says is refused in a sentence: %j", async (entry, message) => {
    const { runtime } = open([], {});
    const refused = runtime.dispatch("createSession", { prompt: "Hi.", hooks_override: { entries: [entry] } });
    await expect(refused).rejects.toMatchObject({ code: "INVALID_PARAMS", message });
  });
});

/** Looks again until something is there; the test's own limit of time ends it. */
async function until(look: () => Promise<number>): Promise<number> {
  for (;;) {
    const found = await look();
    if (found > 0) return found;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
