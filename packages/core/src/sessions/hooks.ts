import type { Compacting } from "../compaction/prepare.ts";
import { type Caller, requireScope } from "../contract/caller.ts";
import type { EntryBody } from "../contract/entry.ts";
import { invalid } from "../contract/error.ts";
import {
  type FailurePolicy,
  failurePolicyFor,
  type HookAnswer,
  type HookCapability,
  type HookEntry,
  type HookMode,
  HookPoint,
  type HooksOverride,
  hookFault,
} from "../contract/hook.ts";
import { asksForNothing } from "../contract/input.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hook, HookCall, HookSubject } from "../ports/hook.ts";
import type { Store } from "../ports/store.ts";
import { createHooks, denialText, type Hooks, type StartInBackground } from "../turn/hooks.ts";
import type { Redact } from "../turn/redact.ts";
import { appendEntries, emitLive, type LiveSession } from "./live-sessions.ts";

/** The hooks of a runtime. */
export interface HookPart {
  /** The hooks of every turn. */
  readonly hooks: readonly Hook[];
  /** The ids of configured hooks that are switched off. */
  readonly off: readonly string[];
  readonly timeoutMs: number;
  readonly payloadBytesMax: number;
  readonly startInBackground: StartInBackground;
  commandHook(entry: HookEntry): Hook;
}

/** A hook that is a function of the embedding program. */
export interface HookOptions {
  readonly id: string;
  readonly point: HookPoint;
  readonly mode?: HookMode;
  readonly capability?: HookCapability;
  readonly priority?: number;
  readonly failurePolicy?: FailurePolicy;
  readonly timeoutMs?: number;
  /** For tool points: only tools with these names; `*` matches any characters. */
  readonly tools?: readonly string[];
  /** Returns nothing or an answer; the signal aborts when the runtime stops waiting. */
  readonly run: (call: HookCall, signal: AbortSignal) => Promise<HookAnswer | undefined> | HookAnswer | undefined;
}

const PRIORITY = 100;

const FIELDS = "id point mode capability priority failurePolicy timeoutMs tools run".split(" ");

/** Reads the hooks passed to the runtime; throws INVALID_PARAMS with the hook's name. */
export function readHooks(given: readonly HookOptions[]): readonly Hook[] {
  if (!Array.isArray(given)) throw invalid("hooks: give a list of hooks");
  const ids = new Set<string>();
  return given.map((options, index) => {
    const fault = optionFault(options);
    if (fault !== undefined) throw invalid(`hooks.${index}: ${fault}`);
    const { id, point, mode = "foreground", capability = "observe", priority = PRIORITY, timeoutMs, tools } = options;
    const failurePolicy = options.failurePolicy ?? failurePolicyFor(capability);
    const wrong = hookFault({ point, mode, capability, failurePolicy, tools });
    if (wrong !== undefined) throw invalid(`hooks.${index}.${wrong.field}: ${wrong.problem}`);
    if (ids.has(id)) throw invalid(`hooks.${index}.id: another hook is called ${id}; give it a name of its own`);
    ids.add(id);
    const run: Hook["run"] = (call, signal) => options.run(call, signal);
    return { id, point, mode, capability, priority, failurePolicy, timeoutMs, tools, isCode: true, run };
  });
}

const isOneOf = (value: unknown, names: readonly string[]): boolean =>
  value === undefined || names.includes(`${value}`);

function optionFault(hook: unknown): string | undefined {
  if (typeof hook !== "object" || hook === null) return "give a hook, {id, point, run}";
  // Any field may be read; its value is unknown.
  const given = hook as { readonly [K in keyof HookOptions]?: unknown };
  const stray = Object.keys(hook).find((name) => !FIELDS.includes(name));
  if (stray !== undefined) return `${stray} is no field of a hook; give ${FIELDS.join(", ")}`;
  if (typeof given.id !== "string" || given.id === "") return "give the hook an id";
  const { id, timeoutMs = 1, priority = PRIORITY, tools = [] } = given;
  if (!HookPoint.safeParse(given.point).success) return `give hook ${id} a point: ${HookPoint.options.join(", ")}`;
  if (typeof given.run !== "function") return `give hook ${id} a function run`;
  if (!isOneOf(given.mode, ["foreground", "background"])) return `mode of ${id}: give "foreground" or "background"`;
  const capabilities = ["observe", "guardrail", "rewrite"];
  if (!isOneOf(given.capability, capabilities)) return `capability of ${id}: give one of ${capabilities.join(", ")}`;
  if (!isOneOf(given.failurePolicy, ["fail_open", "fail_closed"]))
    return `failurePolicy of ${id}: give "fail_open" or "fail_closed"`;
  if (typeof timeoutMs !== "number" || !(timeoutMs > 0)) return `give hook ${id} a timeoutMs above 0`;
  if (typeof priority !== "number" || Number.isNaN(priority)) return `give hook ${id} a number as priority`;
  const isNames = Array.isArray(tools) && tools.every((name) => typeof name === "string");
  return isNames ? undefined : `tools of ${id}: give a list of names of tools`;
}

/** The runtime's hooks with the configured ones. */
export function joinHooks(own: readonly Hook[], configured: readonly Hook[]): readonly Hook[] {
  const clash = configured.find(({ id }) => own.some((hook) => hook.id === id));
  if (clash === undefined) return [...own, ...configured];
  throw invalid(`hooks.entries: ${clash.id} is the id of a hook that the program has; give it its own`);
}

/**
 * The hooks of one turn; undefined if they are those of every turn. Overriding them decides what runs, so a caller
 * needs the scope admin.
 */
export function overrideHooks(
  part: HookPart,
  override: HooksOverride | null | undefined,
  caller: Caller | undefined,
): readonly Hook[] | undefined {
  if (override === undefined || override === null || asksForNothing(override)) return undefined;
  requireScope(caller, "admin", "hooks_override");
  const { entries, disable } = override;
  const known = [...part.hooks.map(({ id }) => id), ...part.off];
  const unknown = disable.find((id) => !known.includes(id));
  if (unknown !== undefined) {
    const there = known.length === 0 ? "there are none" : `there are: ${known.join(", ")}`;
    throw invalid(`hooks_override.disable: there is no hook ${unknown}; ${there}`);
  }
  const kept = part.hooks.filter(({ id }) => !disable.includes(id));
  const clash = entries.find(({ id }) => kept.some((hook) => hook.id === id));
  if (clash !== undefined) {
    throw invalid(`hooks_override.entries: there is a hook ${clash.id}; disable it, or give this one another id`);
  }
  return [...kept, ...entries.filter(({ enabled }) => enabled).map((entry) => part.commandHook(entry))];
}

interface Situated {
  readonly hooks: HookPart;
  readonly clock: Clock;
  readonly redact: Redact;
}

/** The hooks of a session; undefined if there are none. */
export function hooksFor(
  { hooks: part, clock, redact }: Situated,
  live: LiveSession,
  overriding?: readonly Hook[],
): Hooks | undefined {
  const hooks = overriding ?? part.hooks;
  if (hooks.length === 0) return undefined;
  const { sessionId, settings } = live.state;
  const { timeoutMs, payloadBytesMax, startInBackground } = part;
  return createHooks({
    hooks,
    sessionId,
    labels: settings.labels,
    clock,
    redact,
    timeoutMs,
    payloadBytesMax,
    startInBackground,
    emit: (event) => emitLive(live, clock, event),
  });
}

/** Runs observing hooks; returns the entries to append. */
export async function notifyHooks(
  hooks: Hooks | undefined,
  point: Extract<HookPoint, "run_completed" | "run_failed" | "session_created" | "session_archived">,
  subject: HookSubject = {},
): Promise<readonly EntryBody[]> {
  if (hooks?.has(point) !== true) return [];
  // An interrupted step has ended, too, so only the hook's own timeout applies.
  const { reported } = await hooks.run(point, subject, { signal: new AbortController().signal });
  return reported;
}

const UNJUDGED = "it was interrupted before hooks had judged it";

/** Compaction settings with hooks that observe and guard it. */
export function withHooks(compacting: Compacting, hooks: Hooks | undefined): Compacting {
  if (hooks === undefined) return compacting;
  const [isGuarded, isWatched] = [hooks.has("pre_compaction"), hooks.has("post_compaction")];
  if (!isGuarded && !isWatched) return compacting;
  const { before, after } = compacting.hooks;
  const kept: EntryBody[] = [];
  return {
    ...compacting,
    hooks: {
      before: async (plan, signal) => {
        const veto = await before?.(plan, signal);
        if ((typeof veto === "string" && veto !== "") || !isGuarded) return veto;
        const { sessionId: _, ...compaction } = plan;
        const { reported, denied, isInterrupted } = await hooks.run("pre_compaction", { compaction }, { signal });
        kept.push(...reported);
        if (denied !== undefined) return denialText(denied);
        return isInterrupted === true ? UNJUDGED : undefined;
      },
      after: async (compaction, signal) => {
        await after?.(compaction, signal);
        if (!isWatched) return;
        const { reported } = await hooks.run("post_compaction", { compaction }, { signal });
        kept.push(...reported);
      },
      reported: () => kept.splice(0),
    },
  };
}

/** Background hooks: at most this many at once; closing the runtime waits for them. */
export function createBackgroundHooks(most: () => number): {
  readonly start: StartInBackground;
  settled(): Promise<void>;
} {
  const running = new Set<Promise<void>>();
  return {
    start: (work) => {
      if (running.size >= most()) return false;
      // Our own work does not reject unless it has a defect, which must be visible.
      const one = work().finally(() => running.delete(one));
      running.add(one);
      return true;
    },
    settled: async () => {
      await Promise.all(running);
    },
  };
}

/** Runs hooks about a session that has no other writer, and appends their events. */
export async function runSessionHooks(
  parts: Situated & { readonly store: Pick<Store, "log"> },
  session: LiveSession,
  point: "session_created" | "session_archived",
): Promise<void> {
  const reported = await notifyHooks(hooksFor(parts, session), point);
  if (reported.length > 0) await appendEntries(parts.store.log, session, reported);
}
