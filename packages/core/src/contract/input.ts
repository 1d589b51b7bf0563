import { type core, globalRegistry } from "zod";
import { RuntimeError } from "./error.ts";
import { defined, isJsonTable, type JsonTable } from "./json.ts";
import { created, onceCreated, z } from "./schema.ts";

const words = new WeakMap<core.$ZodType, string>();

/**
 * Says how a field is written on the command line: as a flag, `--max-turns <n>`, or as the argument that stands in the
 * `cli` of its operations under this name, `ID`. It is kept beside the schema, so no JSON schema has it.
 */
export function cliFlag<T extends z.ZodType>(word: string, field: T): T {
  return onceCreated(field, (schema) => words.set(schema, word));
}

export interface CliField {
  /** Where it stands in the input, from the outermost field on. */
  readonly path: readonly [string, ...string[]];
  readonly word: string;
  readonly schema: core.$ZodType;
}

/** Every field of an input that has a flag or argument on the command line, in the order of the schema. */
export function cliFields(schema: core.$ZodType, path: readonly string[] = []): readonly CliField[] {
  const [first, ...more] = path;
  const word = words.get(schema);
  if (word !== undefined && first !== undefined) return [{ path: [first, ...more], word, schema }];
  const inner = innerOf(schema);
  if (inner !== undefined) return cliFields(inner, path);
  const { def } = unwrapped(schema)._zod;
  if (def.type === "union") return def.options.flatMap((option) => cliFields(option, path));
  if (def.type !== "object") return [];
  return Object.entries(def.shape).flatMap(([name, field]) => cliFields(field, [...path, name]));
}

/** A schema without what wraps it. */
export function unwrapped(schema: core.$ZodType): core.$ZodTypes {
  const inner = innerOf(schema);
  return inner === undefined ? (schema as core.$ZodTypes) : unwrapped(inner); // Every schema is one of the library's kinds.
}

/** What a schema only wraps: what is optional, has a default or is changed after it was read. */
function innerOf(schema: core.$ZodType): core.$ZodType | undefined {
  const { def } = (schema as core.$ZodTypes)._zod; // Every schema is one of the library's kinds.
  if (def.type === "pipe") return (def.in as core.$ZodTypes)._zod.def.type === "transform" ? def.out : def.in;
  return "innerType" in def ? def.innerType : undefined;
}

/** What a field's schema says of it with `describe` and `meta`, however it is wrapped. */
export function metaOf(schema: core.$ZodType): core.GlobalMeta {
  const inner = innerOf(schema);
  return { ...(inner === undefined ? {} : metaOf(inner)), ...globalRegistry.get(created(schema)) };
}

export function accepts(schema: core.$ZodType, value: unknown): boolean {
  return z.safeParse(schema, value).success;
}

/** Deeper, no schema of ours looks. */
const NAMES_DEPTH_MAX = 128;

/** Throws INVALID_PARAMS for the one name under which nothing is kept: its value would be dropped silently. */
export function requireNames(value: unknown, above: readonly string[] = []): void {
  const found = pathOfProto(value, above.length);
  if (found === undefined) return;
  throw new RuntimeError("INVALID_PARAMS", `${[...above, ...found].join(".")}: choose another name for it`);
}

function pathOfProto(value: unknown, depth: number): readonly string[] | undefined {
  if (typeof value !== "object" || value === null || depth > NAMES_DEPTH_MAX) return undefined;
  if (Object.hasOwn(value, "__proto__")) return ["__proto__"];
  for (const name of Object.keys(value)) {
    const found = pathOfProto(Reflect.get(value, name), depth + 1);
    if (found !== undefined) return [name, ...found];
  }
  return undefined;
}

/** One sentence that names each wrong field and what it should be. */
export function invalidInput(error: z.ZodError): RuntimeError {
  const problems = error.issues.flatMap(problemsOf);
  const sentence = problems.map(({ field, problem }) => (field === "" ? problem : `${field}: ${problem}`)).join("; ");
  return new RuntimeError("INVALID_PARAMS", sentence, { details: { problems } });
}

function problemsOf(issue: core.$ZodIssue): readonly { readonly field: string; readonly problem: string }[] {
  // A schema that says more than the library does is listened to.
  const isUnnamed = issue.code === "unrecognized_keys" && issue.message.startsWith("Unrecognized key");
  if (!isUnnamed) return [{ field: issue.path.join("."), problem: issue.message }];
  return issue.keys.map((key) => ({
    field: [...issue.path, key].join("."),
    problem: "there is no such field; leave it out",
  }));
}

const above0 = { error: "write a whole number above 0" };
const atLeast0 = { error: "write a whole number of at least 0" };

export const positive = z.int(above0).positive(above0);
export const nonnegative = z.int(atLeast0).nonnegative(atLeast0);

const above0UpTo1 = { error: "write a fraction above 0 and up to 1, like 0.8" };

/** A part of a whole. */
export const share = z.number(above0UpTo1).positive(above0UpTo1).max(1, above0UpTo1);

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", 1_000],
  ["sec", 1_000],
  ["secs", 1_000],
  ["m", 60_000],
  ["min", 60_000],
  ["mins", 60_000],
  ["h", 3_600_000],
  ["hr", 3_600_000],
  ["d", 86_400_000],
]);

/** Milliseconds of a written duration such as "30s", "5m" or "1h 30m"; undefined when it is not one. */
export function parseDuration(text: string): number | undefined {
  const compact = text.trim().toLowerCase().replace(/\s+/g, "");
  if (!/^(\d+(\.\d+)?[a-z]+)+$/.test(compact)) return undefined;
  let totalMs = 0;
  for (const [, amount, unit] of compact.matchAll(/(?<![\d.])(\d+(?:\.\d+)?)([a-z]+)/g)) {
    const unitMs = UNIT_MS.get(unit ?? "");
    if (unitMs === undefined) return undefined;
    totalMs += Number(amount) * unitMs;
  }
  const ms = Math.round(totalMs);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** A duration of whole milliseconds as it is written, in the largest unit that says it exactly. */
export function spellDuration(ms: number): string {
  const unit = ["d", "h", "m", "s"].find((name) => ms % (UNIT_MS.get(name) ?? 1) === 0) ?? "ms";
  return `${ms / (UNIT_MS.get(unit) ?? 1)}${unit}`;
}

const HumanDuration = z.string().transform((text, issue) => {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  issue.addIssue({ code: "custom", message: `"${text}" is not a duration; write it like 30s, 5m or 1h30m` });
  return z.NEVER;
});

const SplitDuration = z
  .object({
    secs: z.number().int().nonnegative().describe("whole seconds"),
    nanos: z.number().int().nonnegative().default(0).describe("and nanoseconds"),
  })
  .transform(({ secs, nanos }) => secs * 1_000 + Math.round(nanos / 1_000_000));

/** A duration as a string ("30s") or as `{secs, nanos}`, in milliseconds. */
export const Duration = z.union([HumanDuration, SplitDuration], {
  error: "expected a duration like 30s, 5m or 1h30m, or {secs, nanos}",
});

const seconds = { error: "write a number of seconds above 0" };

const dollars = { error: "write an amount of US dollars above 0, like 0.5" };

export const limits = {
  max_tokens: cliFlag(
    "--max-tokens <n>",
    positive
      .optional()
      .describe("tokens of the whole session, input and output")
      .meta({ examples: [10_000] }),
  ),
  max_duration: cliFlag(
    "-d, --max-duration <time>",
    Duration.refine((ms) => ms > 0, { error: "write a duration longer than zero, like 30s" })
      .optional()
      .describe("time for the turn, such as 30s, 5m, 1h30m")
      .meta({ examples: ["30s"] }),
  ),
  max_tool_calls: cliFlag("--max-tool-calls <n>", nonnegative.optional().describe("tool calls of the session")),
  max_duration_secs: z
    .number(seconds)
    .positive(seconds)
    .max(Number.MAX_SAFE_INTEGER / 1_000, seconds)
    .transform((secs) => Math.max(1, Math.round(secs * 1_000)))
    .optional()
    .describe("the same in seconds"),
  max_duration_ms: positive.optional().describe("the same in milliseconds"),
  max_cost: cliFlag(
    "--max-cost <usd>",
    z.number(dollars).positive(dollars).optional().describe("what the session may cost, in US dollars, such as 0.5"),
  ),
};

const NAMES = "max_tokens, max_tool_calls, max_cost, max_duration, max_duration_secs or max_duration_ms";

/** Limits of a session, every spelling of the duration accepted, milliseconds inside. */
export const BudgetLimits = z
  .strictObject(limits, {
    // A limit that is misspelt and ignored would be found missing when the bill comes.
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? `${issue.keys.join(", ")} is no limit; write ${NAMES}`
        : "write an object of limits, like {max_tokens: 10000}",
  })
  .transform(({ max_tokens, max_tool_calls, max_cost, ...durations }, issues) => {
    const [first, ...others] = Object.entries(durations).filter(([, ms]) => ms !== undefined);
    const other = others.find(([, ms]) => ms !== first?.[1]);
    if (first !== undefined && other !== undefined) {
      const message = `${first[0]} and ${other[0]} say different things, so give one of them`;
      issues.addIssue({ code: "custom", path: [first[0]], message });
    }
    return {
      ...defined({ max_tokens, max_tool_calls, max_cost }),
      ...(first?.[1] === undefined ? {} : { max_duration_ms: first[1] }),
    };
  });
export type BudgetLimits = z.input<typeof BudgetLimits>;

/** What we keep is a few tables deep; whatever lies deeper is taken as it is, for a schema to refuse. */
const DEPTH_MAX = 16;

/** A table after a patch of RFC 7396: tables are merged, null removes, anything else replaces. */
export function mergePatch(target: JsonTable, patch: JsonTable, depth = 1): JsonTable {
  const merged = new Map(Object.entries(target));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else if (!isJsonTable(value) || depth >= DEPTH_MAX) merged.set(key, value);
    else {
      const before = merged.get(key);
      merged.set(key, mergePatch(isJsonTable(before) ? before : {}, value, depth + 1));
    }
  }
  return Object.fromEntries(merged);
}

const flag = z.boolean({ error: "write true or false" }).nullish();
const table = z.record(z.string(), z.unknown(), { error: "write an object" }).nullish();

export const SkillRef = z.object({
  kind: z.literal("structured").optional().describe("the form of the reference; there is one"),
  source_uuid: z
    .string()
    .optional()
    .describe("the source of the skill, as skills/list names it; without it, the one that sessions have"),
  skill_name: z.string().describe("the name of the skill there"),
});
const SKILL_REFS_MAX = 64;
const skillRefs = z
  .array(SkillRef, { error: "write a list of {source_uuid, skill_name}" })
  .max(SKILL_REFS_MAX, { error: `write at most ${SKILL_REFS_MAX} skills` })
  .nullish();
/** A skill as a request names it. */
export type SkillRef = z.infer<typeof SkillRef>;

/** The sentence each of {@link UNSERVED} is refused with. */
export const WHY_UNSERVED = {
  enable_schedule: "there are no tools for schedules; schedule/create makes one",
  enable_workgraph: "there are no work graphs",
  enable_mob: "there are no mobs",
  enable_web_search: "there is no web search of the provider's; an MCP server may bring one",
  auth_binding: "keys come from the environment of the runtime alone",
};
const because = (field: keyof typeof WHY_UNSERVED): string =>
  `leave it out, or let it ask for nothing: ${WHY_UNSERVED[field]}`;

/** Fields of the wire that ask for what this runtime does not have. Clients may send them, as long as they ask for nothing. */
export const UNSERVED = {
  enable_schedule: flag.describe(because("enable_schedule")),
  enable_workgraph: flag.describe(because("enable_workgraph")),
  enable_mob: flag.describe(because("enable_mob")),
  enable_web_search: flag.describe(because("enable_web_search")),
  auth_binding: table.describe(because("auth_binding")),
};

/** Fields that name skills; only those `skills/list` names are there. */
export const SKILL_FIELDS = {
  skill_refs: cliFlag(
    "--skill <skill>",
    skillRefs.describe("a skill to load before the prompt, by its name or source_uuid:name"),
  ),
  preload_skills: skillRefs.describe("skills to load before the first prompt, of those skills/list names"),
};

const ASKED_DEPTH_MAX = 3;

/** True of false, of nothing, of an empty list, and of an object in which there is only that. */
export function asksForNothing(value: unknown, depth = 1): boolean {
  if (value === undefined || value === null || value === false || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value !== "object" || depth > ASKED_DEPTH_MAX) return false;
  return Object.values(value).every((inner) => asksForNothing(inner, depth + 1));
}

const busyWanted = { error: "write reject, queue, steer or interrupt" };
/** What happens to a prompt while the session is busy. */
export const WhenBusy = z.enum(["reject", "queue", "steer", "interrupt"], busyWanted);
export type WhenBusy = z.infer<typeof WhenBusy>;

/** Who sent a queued message. */
export const InboxSource = z.object({
  type: z.enum(["user", "job", "goal", "session", "schedule"]).describe("user, or what sent it on its own"),
  id: z.string().optional().describe("the id of that job, goal, session or schedule"),
  name: z.string().optional().describe("the comms_name of that session"),
});
export type InboxSource = z.infer<typeof InboxSource>;

/** Messages that wait in one session, at most. */
export const INBOX_MAX = 100;

export const when_busy = cliFlag(
  "--when-busy <what>",
  WhenBusy.optional().describe(
    "while the session is busy: reject, the default · queue, run after · steer, show it to the running turn · interrupt it, then run",
  ),
);

/** How a background job has ended. */
export const JOB_ENDS = ["completed", "failed", "timed_out", "cancelled", "unknown"] as const;
export const JobEnd = z.enum(JOB_ENDS);
export type JobEnd = z.infer<typeof JobEnd>;
