import { HookEntry, HookPoint, hookFault } from "@rkat/core/contract/hook";
import type { HookOptions } from "@rkat/core/sessions/hooks";
import { below, chance, pick } from "../compaction/chances.ts";

type Random = () => number;

/** What a hook says, as far as anybody can tell who knows what it was written to do. */
type Says = "nothing" | "deny" | "patch" | "stray patch" | "fail";

const DENY = { decision: { decision: "deny", reason_code: "safety_violation", message: "not that" } } as const;
/** Long enough for any machine, and too short for what never ends. */
const [PATIENT_MS, IMPATIENT_MS] = [120_000, 20];

const patchAt = (point: HookPoint, id: string) =>
  point === "pre_tool_execution"
    ? ({ patch_type: "tool_args", args: { n: 100 } } as const)
    : ({ patch_type: "tool_result", content: `rewritten by ${id}` } as const);
const strayAt = (point: HookPoint, id: string) =>
  patchAt(point === "pre_tool_execution" ? "post_tool_execution" : "pre_tool_execution", id);

type Run = (point: HookPoint, id: string) => HookOptions["run"];
const never = (): Promise<undefined> => new Promise(() => {});
// What a program without types may answer.
const lie = (answer: unknown): HookOptions["run"] => (() => answer) as unknown as HookOptions["run"];

/** Functions, with what each says. */
const FUNCTIONS: readonly { readonly says: Says; readonly run: Run; readonly isEndless?: true }[] = [
  { says: "nothing", run: () => () => undefined },
  { says: "nothing", run: () => async () => ({ decision: { decision: "allow" } }) },
  { says: "deny", run: () => () => DENY },
  { says: "deny", run: () => async () => DENY },
  { says: "patch", run: (point, id) => async () => ({ patches: [patchAt(point, id)] }) },
  { says: "stray patch", run: (point, id) => () => ({ patches: [strayAt(point, id)] }) },
  { says: "fail", run: () => lie({ permit: false }) },
  { says: "fail", run: () => lie({ decision: "deny" }) },
  { says: "fail", run: () => lie("deny") },
  {
    says: "fail",
    run: () => () => {
      throw new Error("broken");
    },
  },
  { says: "fail", run: () => async () => Promise.reject(new Error("broken later")) },
  { says: "fail", run: () => never, isEndless: true },
];

/** Command lines, with what each says. */
const COMMANDS: readonly {
  readonly says: Says;
  readonly line: (point: HookPoint, id: string) => string;
  readonly isEndless?: true;
}[] = [
  { says: "nothing", line: () => "cat > /dev/null" },
  { says: "nothing", line: () => "true" },
  { says: "deny", line: () => `cat > /dev/null; echo '${JSON.stringify(DENY)}'` },
  { says: "deny", line: () => "echo not that >&2; exit 2" },
  { says: "patch", line: (point, id) => `echo '${JSON.stringify({ patches: [patchAt(point, id)] })}'` },
  { says: "fail", line: () => 'echo \'{"decision": {"decision": "deny"}}\'' },
  { says: "fail", line: () => "echo no JSON at all" },
  { says: "fail", line: () => "exit 3" },
  { says: "fail", line: () => "kill -9 $$" },
  { says: "fail", line: () => "yes 'too much of it'" },
  { says: "fail", line: () => "sleep 600", isEndless: true },
  { says: "fail", line: () => "trap '' TERM; sleep 600 & wait; wait", isEndless: true },
];

export interface PlannedHook {
  readonly id: string;
  readonly point: HookPoint;
  readonly capability: "observe" | "guardrail" | "rewrite";
  readonly mode: "foreground" | "background";
  readonly priority: number;
  readonly failurePolicy: "fail_open" | "fail_closed" | undefined;
  readonly tools: readonly string[] | undefined;
  readonly says: Says;
  readonly own?: HookOptions;
  readonly entry?: HookEntry;
}

const HOOKS_MAX = 5;
/** Compactions are tried elsewhere. */
const POINTS = HookPoint.options.filter((point) => !point.endsWith("_compaction"));

export function planHooks(random: Random): readonly PlannedHook[] {
  const planned: PlannedHook[] = [];
  const many = 1 + below(random, HOOKS_MAX);
  // What cannot be configured is drawn again; most can.
  for (let drawn = 0; planned.length < many && drawn < 200; drawn += 1) {
    const hook = planOne(random, `h${planned.length}`);
    if (hook !== undefined) planned.push(hook);
  }
  return planned;
}

function planOne(random: Random, id: string): PlannedHook | undefined {
  const point = pick(random, POINTS) ?? "run_started";
  const capability = pick(random, ["observe", "guardrail", "guardrail", "rewrite"] as const) ?? "observe";
  const mode: PlannedHook["mode"] = chance(random, 0.15) ? "background" : "foreground";
  const failurePolicy = pick(random, [undefined, "fail_open", "fail_closed"] as const);
  const isAboutTools = point.includes("_tool_");
  const tools = isAboutTools && chance(random, 0.3) ? [pick(random, ["mark", "m*", "other"]) ?? "*"] : undefined;
  if (hookFault({ point, mode, capability, failurePolicy, tools }) !== undefined) return undefined;
  const priority = below(random, 3) * 50;
  const common = { id, point, capability, mode, priority, failurePolicy, tools };
  const given = { ...(failurePolicy && { failurePolicy }), ...(tools && { tools }) };
  if (chance(random, 0.6)) {
    const { says, run, isEndless } = pick(random, FUNCTIONS) ?? {
      says: "nothing" as const,
      run: () => () => undefined,
    };
    const timeoutMs = isEndless ? IMPATIENT_MS : PATIENT_MS;
    const own = { id, point, capability, mode, priority, timeoutMs, run: run(point, id), ...given };
    return { ...common, says, own };
  }
  const { says, line, isEndless } = pick(random, COMMANDS) ?? { says: "nothing" as const, line: () => "true" };
  const entry = HookEntry.parse({
    id,
    point,
    capability,
    mode,
    priority,
    ...(failurePolicy && { failure_policy: failurePolicy }),
    ...(tools && { tools }),
    timeout_ms: isEndless ? IMPATIENT_MS : PATIENT_MS,
    runtime: { type: "command", command: "sh", args: ["-c", line(point, id)] },
  });
  return { ...common, says, entry };
}

/** What a turn of two calls and an answer comes to. */
export interface Foreseen {
  /** Undefined: it completes. */
  readonly stoppedAt: HookPoint | undefined;
  readonly cause: "hook_denied" | "hook_failure" | undefined;
  /** What tools were really given. */
  readonly effects: readonly number[];
  /** What the model is told of each call; undefined where it never asked for one that is kept. */
  readonly results: readonly string[] | undefined;
  /** What the log keeps of hooks, as `type id point`. */
  readonly kept: readonly string[];
}

type Verdict = { readonly stop?: "hook_denied" | "hook_failure"; readonly by?: string; readonly isPatched: boolean };

/** The policy in other words than the program's: what must come of these hooks. */
export function foresee(hooks: readonly PlannedHook[]): Foreseen {
  const kept: string[] = [];
  const at = (point: HookPoint): Verdict => {
    let last: string | undefined;
    const here = hooks
      .filter((hook) => hook.point === point && hook.mode === "foreground" && hook.tools?.[0] !== "other")
      // Of two alike, functions of the program come before commands of its configuration.
      .toSorted((a, b) => a.priority - b.priority || Number(a.own === undefined) - Number(b.own === undefined));
    for (const { id, capability, failurePolicy, says } of here) {
      const isLying = (says === "patch" && capability === "guardrail") || says === "stray patch";
      if (says === "fail" || (isLying && capability !== "observe")) {
        kept.push(`hook_failed ${id} ${point}`);
        const isClosed = (failurePolicy ?? (capability === "observe" ? "fail_open" : "fail_closed")) === "fail_closed";
        if (isClosed) return { stop: "hook_failure", by: id, isPatched: last !== undefined };
      } else if (capability !== "observe" && says === "deny") {
        kept.push(`hook_denied ${id} ${point}`);
        return { stop: "hook_denied", by: id, isPatched: last !== undefined };
      } else if (capability === "rewrite" && says === "patch") {
        kept.push(`hook_completed ${id} ${point}`);
        last = id;
      }
    }
    return { ...(last === undefined ? {} : { by: last }), isPatched: last !== undefined };
  };
  const effects: number[] = [];
  let results: string[] | undefined;
  const ended = (stoppedAt?: HookPoint, cause?: Foreseen["cause"]): Foreseen => {
    at(stoppedAt === undefined ? "run_completed" : "run_failed");
    return { stoppedAt, cause, effects, results, kept: kept.toSorted() };
  };
  at("session_created");
  for (const point of ["run_started", "pre_llm_request", "post_llm_response"] as const) {
    const { stop } = at(point);
    if (stop !== undefined) return ended(point, stop);
  }
  results = [1, 2].map((n) => {
    const before = at("pre_tool_execution");
    if (before.stop !== undefined) return `denied by hook ${before.by}:`;
    const given = before.isPatched ? 100 : n;
    effects.push(given);
    const after = at("post_tool_execution");
    if (after.stop !== undefined) return `denied by hook ${after.by}:`;
    return after.isPatched ? `rewritten by ${after.by}` : `marked ${given}`;
  });
  for (const point of ["turn_boundary", "pre_llm_request", "post_llm_response", "turn_boundary"] as const) {
    const { stop } = at(point);
    if (stop !== undefined) return ended(point, stop);
  }
  return ended();
}
