import { CAPABILITY_ABSENT, type Capability } from "@rkat/core/contract/capability";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { withinTime } from "./child.ts";
import type { Driver, Outcome, ReportedEvent } from "./driver.ts";
import type { CallStep, Expected, Scenario } from "./scenario.ts";

/** What came of a scenario on a surface. */
export type Verdict =
  | { readonly kind: "ok" }
  | { readonly kind: "failed"; readonly difference: string }
  | { readonly kind: "not applicable"; readonly reason: string };

export interface ScenarioRun {
  readonly verdict: Verdict;
  /** What was told, step by step, for comparing surfaces with each other. */
  readonly reported: readonly StepRecord[];
  readonly kept: Kept;
}

/** Tells a scenario through a surface, up to the first difference. `run` sets its texts apart from those of other runs. */
export async function runScenario(
  driver: Driver,
  scenario: Scenario,
  { present, run }: { readonly present: ReadonlySet<Capability>; readonly run: string },
): Promise<ScenarioRun> {
  const kept = new Map<string, unknown>([["run", run]]);
  const reported: StepRecord[] = [];
  const reason = whyNot(driver, scenario, present);
  if (reason !== undefined) return { verdict: { kind: "not applicable", reason }, reported, kept };
  for (const [index, step] of scenario.steps.entries()) {
    if ("restart" in step) {
      await driver.restart();
      continue;
    }
    const difference = await runStep({ driver, present, kept, reported }, step);
    if (difference === undefined) continue;
    const verdict = { kind: "failed", difference: `step ${index + 1}, ${difference}` } as const;
    return { verdict, reported, kept };
  }
  return { verdict: { kind: "ok" }, reported, kept };
}

function whyNot(driver: Driver, { requires = [], needs = [] }: Scenario, present: ReadonlySet<Capability>) {
  const absent = requires.find((capability) => !present.has(capability));
  if (absent !== undefined) return `it needs ${absent}, which is absent`;
  return needs.map((ability) => driver.lacks(ability, present)).find((lack) => lack !== undefined);
}

interface Scene {
  readonly driver: Driver;
  readonly present: ReadonlySet<Capability>;
  readonly kept: Map<string, unknown>;
  readonly reported: StepRecord[];
}

/** Makes one call; what is not as expected is the answer. */
async function runStep(scene: Scene, step: CallStep): Promise<string | undefined> {
  const { driver, kept, reported } = scene;
  const { call, meanwhile } = step;
  const events: ReportedEvent[] = [];
  const received = Promise.withResolvers<void>();
  const listen = (event: ReportedEvent): void => {
    events.push(event);
    if (event.type === meanwhile?.after) received.resolve();
  };
  // Filling in keeps an object an object.
  const input = filled(step.input, kept) as Readonly<Record<string, unknown>>;
  const calling = answerOf(driver, driver.call(call, input, driver.hasEvents(call) ? listen : undefined));
  if (meanwhile !== undefined) {
    await Promise.race([received.promise, calling]);
    for (const inner of meanwhile.steps) {
      // A new session is known by the first event of its turn.
      const session = events.find(({ type }) => type === "run_started")?.session_id;
      if (session !== undefined) kept.set("session", session);
      const difference = await runStep(scene, inner);
      if (difference !== undefined) return `while ${call} ran, ${difference}`;
    }
  }
  const outcome = await calling;
  const joined = joinDeltas(events);
  reported.push({ call, events: joined, outcome });
  const missing = keep(kept, step.keep ?? {}, outcome);
  const difference = judge(scene, step, { outcome, events: joined }) ?? missing;
  return difference === undefined ? undefined : `${call}: ${difference}`;
}

/** Keeps what later steps speak of: values of the result, or of what a failure says besides its sentence. */
function keep(
  kept: Map<string, unknown>,
  paths: Readonly<Record<string, string>>,
  outcome: Outcome,
): string | undefined {
  const reported = outcome.ok ? outcome.result : outcome.details;
  for (const [name, path] of Object.entries(paths)) {
    const value = valueAt(reported, path);
    if (value === undefined) return `${path} is missing`;
    kept.set(name, value);
  }
  return undefined;
}

function judge(
  { driver, present, kept }: Scene,
  step: CallStep,
  { outcome, events }: { readonly outcome: Outcome; readonly events: readonly ReportedEvent[] },
): string | undefined {
  const operation = OPERATIONS[step.call];
  const required = step.asksFor ?? ("requires" in operation ? operation.requires : undefined);
  // What an operation answers without its capability is no matter of the scenario: it is the same everywhere.
  const refusal = required !== undefined && !present.has(required) ? CAPABILITY_ABSENT[required] : step.error;
  const difference = refusal === undefined ? judgeResult(step, outcome, kept) : judgeError(refusal, outcome, kept);
  if (difference !== undefined || step.events === undefined || !driver.hasEvents(step.call)) return difference;
  const wanted = filled(step.events, kept) as readonly ReportedEvent[]; // Filling in keeps a list of events one.
  return firstDifference(wanted, events, "events") === undefined
    ? undefined
    : `${firstDifference(wanted, events, "events")}; told were ${events.map(({ type }) => type).join(", ") || "none"}`;
}

function judgeResult({ result = {} }: CallStep, outcome: Outcome, kept: Kept): string | undefined {
  if (!outcome.ok) return `it failed with ${outcome.code}: ${outcome.message}`;
  return firstDifference(filled(result, kept), outcome.result);
}

function judgeError(
  { code, message }: { readonly code: string; readonly message?: string | RegExp },
  outcome: Outcome,
  kept: Kept,
): string | undefined {
  if (outcome.ok) return `it succeeded, and must fail with ${code}`;
  if (outcome.code !== code) return `it failed with ${outcome.code} (${outcome.message}), and must with ${code}`;
  return message === undefined ? undefined : firstDifference(filled(message, kept), outcome.message, "message");
}

/** A surface that never answers is a difference like another. */
async function answerOf(driver: Driver, calling: Promise<Outcome>): Promise<Outcome> {
  try {
    return await withinTime(calling, driver.surface);
  } catch (thrown) {
    return { ok: false, code: "NO_ANSWER", message: reasonOf(thrown) };
  }
}

/** Why something failed; of a connection, which says nothing of itself, what its cause says. */
export function reasonOf(thrown: unknown): string {
  const isOurs = thrown instanceof RuntimeError;
  return messageOf(!isOurs && thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown);
}

/** What a surface says it can do. */
export async function readPresent(driver: Driver): Promise<ReadonlySet<Capability>> {
  const outcome = await answerOf(driver, driver.call("readCapabilities", {}));
  const rows = outcome.ok ? valueAt(outcome.result, "capabilities") : undefined;
  if (!Array.isArray(rows)) throw new Error(outcome.ok ? "it says nothing of its capabilities" : outcome.message);
  const isThere = (id: string): boolean =>
    rows.some((row: unknown) => isRecord(row) && row.id === id && row.status === "Available");
  // The keys of CAPABILITY_ABSENT are the capabilities.
  const names = Object.keys(CAPABILITY_ABSENT) as Capability[];
  return new Set(names.filter((name) => isThere(name.replace("-", "_"))));
}

/** The first place where a value is not what is expected, in a sentence; undefined when there is none. */
function firstDifference(expected: Expected, actual: unknown, path = ""): string | undefined {
  if (expected instanceof RegExp) {
    const fits = typeof actual === "string" && expected.test(actual);
    return fits ? undefined : `${at(path)} is ${shown(actual)}, and must fit ${expected}`;
  }
  if (Array.isArray(expected)) return differenceOfLists(expected, actual, path);
  if (typeof expected === "object" && expected !== null) return differenceOfObjects(expected, actual, path);
  return Object.is(expected, actual) ? undefined : `${at(path)} is ${shown(actual)}, and must be ${shown(expected)}`;
}

function differenceOfLists(expected: readonly Expected[], actual: unknown, path: string): string | undefined {
  if (!Array.isArray(actual)) return `${at(path)} is ${shown(actual)}, and must be a list`;
  for (const [index, element] of expected.entries()) {
    if (index >= actual.length) break;
    const difference = firstDifference(element, actual[index], `${path}[${index}]`);
    if (difference !== undefined) return difference;
  }
  if (actual.length === expected.length) return undefined;
  const more = actual.length > expected.length ? `, the first too many ${shown(actual[expected.length])}` : "";
  return `${at(path)} has ${actual.length} elements, and must have ${expected.length}${more}`;
}

function differenceOfObjects(expected: object, actual: unknown, path: string): string | undefined {
  if (typeof actual !== "object" || actual === null) return `${at(path)} is ${shown(actual)}, and must be an object`;
  for (const [field, value] of Object.entries(expected)) {
    const inside = path === "" ? field : `${path}.${field}`;
    const has = Object.hasOwn(actual, field);
    if (value === undefined && has) return `${inside} is there, and must not be`;
    if (value === undefined) continue;
    if (!has) return `${inside} is missing`;
    const difference = firstDifference(value, Reflect.get(actual, field), inside);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

function at(path: string): string {
  return path === "" ? "it" : path;
}

const SHOWN_CHARS_MAX = 200;

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
}

/** Values that were kept, by their names. */
export type Kept = ReadonlyMap<string, unknown>;

const WHOLE = /^\{(\w+)\}$/;
const INSIDE = /\{(\w+)\}/g;

/** The value with what was kept in the place of each `{name}`. */
function filled(value: unknown, kept: Kept): unknown {
  if (typeof value === "string") return filledText(value, kept);
  if (Array.isArray(value)) return value.map((element) => filled(element, kept));
  if (typeof value !== "object" || value === null || value instanceof RegExp) return value;
  return Object.fromEntries(Object.entries(value).map(([field, inside]) => [field, filled(inside, kept)]));
}

/** A text that is nothing but a name becomes the value itself, such as a number. */
function filledText(text: string, kept: Kept): unknown {
  const [, whole] = WHOLE.exec(text) ?? [];
  if (whole !== undefined && kept.has(whole)) return kept.get(whole);
  return text.replaceAll(INSIDE, (written, name: string) => (kept.has(name) ? String(kept.get(name)) : written));
}

/** What lies at a path of fields joined by dots. */
function valueAt(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((inside, field) => Object(inside)[field], value);
}

/** What a step came to: what a surface told while it ran, and its end. */
export interface StepRecord {
  readonly call: OperationName;
  readonly events: readonly ReportedEvent[];
  readonly outcome: Outcome;
}

/** Events with each run of streamed pieces as one: where a stream is cut is nobody's promise. */
function joinDeltas(events: readonly ReportedEvent[]): readonly ReportedEvent[] {
  const joined: ReportedEvent[] = [];
  for (const event of events) {
    const last = joined.at(-1);
    const isMore = event.type === "text_delta" && last?.type === "text_delta";
    if (isMore) joined.splice(-1, 1, { ...last, delta: `${last.delta}${event.delta}` });
    else joined.push(event);
  }
  return joined;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/g;
const HASH = /\b[0-9a-f]{64}\b/g;
/** Fields whose value is of the moment, or of the place. */
const OF_THE_MOMENT = /_ms$|^(?:created_at|updated_at|unix_timestamp|session_ref|sha256|bytes)$/;

/** A transcript with what differs from one telling to the next taken out: what is left must be the same everywhere. */
export function normalised(reported: readonly StepRecord[], kept: Kept): unknown {
  const names = [...kept].flatMap(([name, value]) =>
    typeof value === "string" && value.length > 3 ? [[value, `<${name}>`] as const] : [],
  );
  const plain = (text: string): string => {
    const named = names.reduce((so, [value, name]) => so.replaceAll(value, name), text);
    return named.replace(UUID, "<id>").replace(TIME, "<time>").replace(HASH, "<hash>");
  };
  const visit = (value: unknown): unknown => {
    if (typeof value === "string") return plain(value);
    if (Array.isArray(value)) return value.map(visit);
    if (typeof value !== "object" || value === null) return value;
    const fields = Object.entries(value).filter(([field]) => !OF_THE_MOMENT.test(field));
    return Object.fromEntries(fields.map(([field, inside]) => [field, visit(inside)]));
  };
  return reported.map(({ call, events, outcome }) => visit({ call, events, outcome }));
}
