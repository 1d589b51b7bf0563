import type { EntryBody, TurnEnd } from "../contract/entry.ts";
import { messageOf } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";
import { HookAnswer, type HookPatch, type HookPoint } from "../contract/hook.ts";
import type { JsonObject } from "../contract/session.ts";
import { compileGlob, type Glob, matchesGlob } from "../permission/glob.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hook, HookCall, HookSubject } from "../ports/hook.ts";
import { fitPayload } from "./hook-payload.ts";
import type { Redact } from "./redact.ts";

/** Starts background work; false if too much of it is running. */
export type StartInBackground = (work: () => Promise<void>) => boolean;

export interface HookParts {
  readonly hooks: readonly Hook[];
  readonly sessionId: string;
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly clock: Clock;
  readonly redact: Redact;
  /** The timeout of hooks that have none of their own. */
  readonly timeoutMs: number;
  readonly payloadBytesMax: number;
  readonly startInBackground: StartInBackground;
  emit(event: AgentEvent): void;
}

interface HookWait {
  readonly signal: AbortSignal;
  readonly deadlineMs?: number | undefined;
}

export interface Hooks {
  /** Whether any hook is called there; for tool points, for this tool. */
  has(point: HookPoint, tool?: string): boolean;
  /** Whether a hook there can stop the step; otherwise the step need not wait for them. */
  decides(point: HookPoint): boolean;
  /** Not a promise if every hook answered synchronously. */
  run(point: HookPoint, subject: HookSubject, wait: HookWait): Hooked | Promise<Hooked>;
}

export interface HookDenial {
  readonly hookId: string;
  readonly point: HookPoint;
  readonly cause: "hook_denied" | "hook_failure";
  readonly reasonCode: string;
  readonly message: string;
}

interface Hooked {
  /** Events to store, with what caused them. */
  readonly reported: readonly EntryBody[];
  readonly denied?: HookDenial;
  /** A hook that could have refused the step was cut off. */
  readonly isInterrupted?: true;
  /** The new arguments or output of a tool. */
  readonly args?: JsonObject;
  readonly result?: { readonly content: string; readonly isError: boolean };
}

/** Creates the hooks of a session in order; undefined if there are none, so that such turns do no work for them. */
export function createHooks(parts: HookParts): Hooks | undefined {
  if (parts.hooks.length === 0) return undefined;
  const byPoint = arrange(parts.hooks);
  const hooksAt = (point: HookPoint, tool: string | undefined): readonly Hook[] => {
    const { all, globs } = byPoint.get(point) ?? NONE;
    if (tool === undefined || globs.size === 0) return all;
    return all.filter((hook) => globs.get(hook)?.some((glob) => matchesGlob(glob, tool)) ?? true);
  };
  return {
    has: (point, tool) => hooksAt(point, tool).length > 0,
    decides: (point) => byPoint.get(point)?.decides === true,
    run: (point, subject, wait) => {
      const { tool_call, tool_result } = subject;
      const hooks = hooksAt(point, (tool_call ?? tool_result)?.name);
      return runFrom(parts, { hooks, point, wait, reported: [], subject, rewritten: {} }, 0);
    },
  };
}

interface HooksAt {
  readonly all: readonly Hook[];
  readonly globs: ReadonlyMap<Hook, readonly Glob[]>;
  readonly decides: boolean;
}

const NONE: HooksAt = { all: [], globs: new Map(), decides: false };

/** Turns receive the same list again, so it is sorted once. */
const ARRANGED = new WeakMap<readonly Hook[], ReadonlyMap<HookPoint, HooksAt>>();

function arrange(hooks: readonly Hook[]): ReadonlyMap<HookPoint, HooksAt> {
  const known = ARRANGED.get(hooks);
  if (known !== undefined) return known;
  const sorted = hooks.toSorted((a, b) => a.priority - b.priority);
  const byPoint = new Map<HookPoint, HooksAt>();
  for (const [point, all] of Map.groupBy(sorted, (hook) => hook.point)) {
    const globs = all.flatMap((hook) =>
      hook.tools === undefined ? [] : [[hook, hook.tools.map(compileGlob)] as const],
    );
    byPoint.set(point, { all, globs: new Map(globs), decides: all.some(decides) });
  }
  ARRANGED.set(hooks, byPoint);
  return byPoint;
}

/** Whether a hook can stop a step, by its decision or its failure. */
function decides({ mode, capability, failurePolicy }: Hook): boolean {
  return mode === "foreground" && (capability !== "observe" || failurePolicy === "fail_closed");
}

/** A step and the results of its hooks so far. */
interface HookStep {
  readonly hooks: readonly Hook[];
  readonly point: HookPoint;
  readonly wait: HookWait;
  readonly reported: EntryBody[];
  /** As the next hook receives it. */
  subject: HookSubject;
  rewritten: Pick<Hooked, "args" | "result">;
}

/** Calls hooks one after the other; waits only for those that return a promise. */
function runFrom(parts: HookParts, step: HookStep, first: number): Hooked | Promise<Hooked> {
  const { hooks, point, wait, reported } = step;
  const labelled = parts.labels && { labels: parts.labels };
  for (let index = first; index < hooks.length; index += 1) {
    const hook = hooks[index];
    if (hook === undefined) break;
    const call = fitPayload(
      { point, session_id: parts.sessionId, ...step.subject, ...labelled },
      parts.payloadBytesMax,
    );
    if (hook.mode === "background") {
      startInBackground(parts, hook, call);
      continue;
    }
    if (wait.signal.aborted) return cut(step, hook);
    const startedMs = parts.clock.now();
    parts.emit({ type: "hook_started", hook_id: hook.id, point });
    const ended = runOne(parts, hook, { call, wait });
    if (ended instanceof Promise) {
      return ended.then(
        (later) => take(parts, step, { hook, ended: later, startedMs }) ?? runFrom(parts, step, index + 1),
      );
    }
    const over = take(parts, step, { hook, ended, startedMs });
    if (over !== undefined) return over;
  }
  return { reported, ...step.rewritten };
}

/** Records how a hook ended; returns the step's result if no further hook is called. */
function take(
  { emit, redact, clock }: HookParts,
  step: HookStep,
  { hook, ended, startedMs }: { readonly hook: Hook; readonly ended: Ended; readonly startedMs: number },
): Hooked | undefined {
  const { point, reported } = step;
  const hook_id = hook.id;
  if (ended.kind === "interrupted") return cut(step, hook);
  const said = ended.kind === "failed" ? ended : judge(hook, ended.answer);
  if (said.kind === "failed") {
    const error = cutSentence(redact(said.error));
    reported.push({ kind: "event", event: { type: "hook_failed", hook_id, point, error } });
    if (hook.failurePolicy === "fail_open") return undefined;
    const reasonCode = said.isLate === true ? "timeout" : "runtime_error";
    const message = `it failed: ${error}`;
    return { reported, denied: { hookId: hook_id, point, cause: "hook_failure", reasonCode, message } };
  }
  if (said.kind === "denied") {
    const { reason_code, payload } = said;
    const message = cutSentence(redact(said.message));
    const more = payload === undefined ? {} : { payload: kept(payload, redact) };
    const event = { type: "hook_denied" as const, hook_id, point, reason_code, message, ...more };
    reported.push({ kind: "event", event });
    return { reported, denied: { hookId: hook_id, point, cause: "hook_denied", reasonCode: reason_code, message } };
  }
  const duration_ms = Math.max(0, Math.round(clock.now() - startedMs));
  const completed = { type: "hook_completed" as const, hook_id, point, duration_ms };
  if (said.patches.length > 0) {
    reported.push({ kind: "event", event: { ...completed, rewrote: true } });
    for (const patch of said.patches) [step.subject, step.rewritten] = patched(step.subject, step.rewritten, patch);
  } else emit(said.isIgnored ? { ...completed, ignored: true } : completed);
  return undefined;
}

/** A cut-off observer has no effect. */
function cut({ reported, rewritten }: HookStep, { capability }: Hook): Hooked {
  return { reported, ...rewritten, ...(capability === "observe" ? {} : { isInterrupted: true as const }) };
}

type Ended = { readonly kind: "answered"; readonly answer: unknown } | Failed | { readonly kind: "interrupted" };
interface Failed {
  readonly kind: "failed";
  readonly error: string;
  readonly isLate?: true;
}

const LATE = Symbol("late");
const INTERRUPTED = Symbol("interrupted");

/** Runs a hook until it answers, times out or the turn ends; a hook that ignores its signal is abandoned. */
function runOne(parts: Waiting, hook: Hook, { call, wait }: Asked): Ended | Promise<Ended> {
  const ending = new AbortController();
  try {
    const begun: unknown = hook.run(call, ending.signal);
    // A synchronous answer needs no timer.
    if (!isThenable(begun)) return { kind: "answered", answer: begun };
    return waitFor(parts, hook, { begun, ending, wait });
  } catch (thrown) {
    return { kind: "failed", error: messageOf(thrown) };
  }
}

type Waiting = Pick<HookParts, "clock" | "timeoutMs">;
interface Asked {
  readonly call: HookCall;
  readonly wait: HookWait;
}

async function waitFor(
  parts: Waiting,
  hook: Hook,
  { begun, ending, wait }: { begun: PromiseLike<unknown>; ending: AbortController; wait: HookWait },
): Promise<Ended> {
  try {
    const limitMs = limitOf(parts, hook, wait);
    const answer = await within(parts.clock, { running: Promise.resolve(begun), limitMs, signal: wait.signal });
    if (answer !== LATE && answer !== INTERRUPTED) return { kind: "answered", answer };
    ending.abort("not waited for");
    if (answer === INTERRUPTED) return { kind: "interrupted" };
    return { kind: "failed", error: `it did not answer within ${limitMs} ms`, isLate: true };
  } catch (thrown) {
    return { kind: "failed", error: messageOf(thrown) };
  }
}

function limitOf({ clock, timeoutMs }: Waiting, hook: Hook, wait: HookWait): number {
  const leftMs = (wait.deadlineMs ?? Number.POSITIVE_INFINITY) - clock.now();
  return Math.max(0, Math.min(hook.timeoutMs ?? timeoutMs, leftMs));
}

async function within(
  clock: Clock,
  { running, limitMs, signal }: { running: Promise<unknown>; limitMs: number; signal: AbortSignal },
): Promise<unknown> {
  const done = new AbortController();
  const late = clock.sleep(limitMs, done.signal).then(() => LATE);
  try {
    return await Promise.race([running, late, abortOf(signal, done.signal)]);
  } finally {
    running.catch(() => {}); // Where it lost the race, what it says later has no one to tell.
    done.abort("done");
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

function abortOf(signal: AbortSignal, done: AbortSignal): Promise<typeof INTERRUPTED> {
  return new Promise((resolve) => {
    const end = (): void => resolve(INTERRUPTED);
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { once: true, signal: done });
  });
}

type Said =
  | Failed
  | { readonly kind: "denied"; readonly reason_code: string; readonly message: string; readonly payload?: unknown }
  | { readonly kind: "allowed"; readonly patches: readonly HookPatch[]; readonly isIgnored: boolean };

const ALLOWED: Extract<Said, { kind: "allowed" }> = { kind: "allowed", patches: [], isIgnored: false };
const PATCH_AT: Readonly<Record<HookPatch["patch_type"], HookPoint>> = {
  tool_args: "pre_tool_execution",
  tool_result: "post_tool_execution",
};

/** Validates an answer against the hook's capability. */
function judge({ capability, point }: Hook, given: unknown): Said {
  if (given === undefined || given === null) return ALLOWED;
  const read = readAnswer(given);
  if (read === undefined) return { kind: "failed", error: "its answer is not a valid hook answer" };
  const { decision, patches } = read;
  const rewrites = patches ?? [];
  const isDenied = decision?.decision === "deny";
  if (capability === "observe") return { ...ALLOWED, isIgnored: isDenied || rewrites.length > 0 };
  if (isDenied) return { kind: "denied", ...decision };
  if (rewrites.length === 0) return ALLOWED;
  if (capability === "guardrail") return { kind: "failed", error: "a guardrail cannot rewrite" };
  const stray = rewrites.find(({ patch_type }) => PATCH_AT[patch_type] !== point);
  if (stray !== undefined) return { kind: "failed", error: `${stray.patch_type} cannot be rewritten at ${point}` };
  return { kind: "allowed", patches: rewrites, isIgnored: false };
}

/** A returned value may throw when read, change later, or not be serializable. */
function readAnswer(given: unknown): HookAnswer | undefined {
  try {
    const { decision, patches } = HookAnswer.parse(given);
    return { decision, patches: patches?.map((patch) => JSON.parse(JSON.stringify(patch, requireKept))) };
  } catch {
    return undefined;
  }
}

/** JSON would drop these silently, and a tool would receive other arguments than intended. */
function requireKept(_name: string, value: unknown): unknown {
  if (typeof value === "function" || typeof value === "symbol") throw new Error("it is not JSON");
  return value;
}

function patched(
  subject: HookSubject,
  before: Pick<Hooked, "args" | "result">,
  patch: HookPatch,
): [HookSubject, Pick<Hooked, "args" | "result">] {
  const { tool_call, tool_result } = subject;
  if (patch.patch_type === "tool_args") {
    if (tool_call === undefined) return [subject, before];
    const { args } = patch;
    return [
      { ...subject, tool_call: { ...tool_call, args } },
      { ...before, args },
    ];
  }
  if (tool_result === undefined) return [subject, before];
  const { content, is_error } = patch;
  const isError = is_error ?? tool_result.is_error;
  const result = { ...tool_result, content, is_error: isError, has_images: false };
  return [
    { ...subject, tool_result: result },
    { ...before, result: { content, isError } },
  ];
}

/** Background hooks are reported to listeners and not stored: the turn may be over when they end. */
function startInBackground(parts: HookParts, hook: Hook, call: HookCall): void {
  const { clock, emit, redact } = parts;
  const { id: hook_id, point } = hook;
  const wait = { signal: NEVER };
  const isBegun = parts.startInBackground(async () => {
    const startedMs = clock.now();
    emit({ type: "hook_started", hook_id, point });
    const ended = await runOne(parts, hook, { call, wait });
    if (ended.kind === "interrupted") return;
    const said = ended.kind === "failed" ? ended : judge(hook, ended.answer);
    if (said.kind === "failed")
      return emit({ type: "hook_failed", hook_id, point, error: cutSentence(redact(said.error)) });
    const duration_ms = Math.max(0, Math.round(clock.now() - startedMs));
    const isIgnored = said.kind === "allowed" && said.isIgnored;
    emit({ type: "hook_completed", hook_id, point, duration_ms, ...(isIgnored ? { ignored: true } : {}) });
  });
  if (!isBegun)
    emit({ type: "hook_failed", hook_id, point, error: "too many hooks run in the background; it was skipped" });
}

const NEVER = new AbortController().signal;

const SENTENCE_CHARS_MAX = 4_096;
const PAYLOAD_CHARS_MAX = 16_384;

function cutSentence(text: string): string {
  return text.length <= SENTENCE_CHARS_MAX ? text : `${text.slice(0, SENTENCE_CHARS_MAX)}…`;
}

/** The hook's payload as JSON, without secrets; replaced by a note if it is too long or not JSON. */
function kept(payload: unknown, redact: Redact): unknown {
  try {
    const text = redact(JSON.stringify(payload) ?? "null");
    return text.length > PAYLOAD_CHARS_MAX ? "omitted: it is too long" : JSON.parse(text);
  } catch {
    return "omitted: it is not JSON";
  }
}

/** The text for a model or caller about a step that a hook refused. */
export function denialText({ hookId, message }: HookDenial): string {
  return `denied by hook ${hookId}: ${message}`;
}

export function endOfDenial(denial: HookDenial): TurnEnd {
  const { hookId: hook_id, point, cause, reasonCode: reason_code } = denial;
  return {
    status: "failed",
    error_class: "hook",
    error: denialText(denial),
    cause,
    reason: { reason_type: cause, hook_id, point, reason_code },
  };
}
