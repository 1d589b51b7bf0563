import { BudgetLimits, cliFlag, Duration, nonnegative, positive } from "../input.ts";
import { jsonChars } from "../json.ts";
import { TurnInputs } from "../permission.ts";
import { fieldOf, z } from "../schema.ts";
import { Labels, NewSession, SessionId } from "../session.ts";

const TEXT_MAX = 200;
const CRON_CHARS_MAX = 200;
/** A record is read at every occurrence, and listed. */
const SPEC_CHARS_MAX = 65_536;
/** Schedules that are due more often would only ever wait for one another. */
const EVERY_SECONDS_MIN = 10;

const timeWanted = { error: "write a time with its offset, like 2026-11-30T09:00:00Z" };
const Time = z.iso.datetime({ offset: true, ...timeWanted });
const shortText = z.string().max(TEXT_MAX, { error: `write at most ${TEXT_MAX} characters` });
const tooOften = { error: `write a whole number of at least ${EVERY_SECONDS_MIN}` };
const seconds = z
  .int(tooOften)
  .min(EVERY_SECONDS_MIN, tooOften)
  .max(Number.MAX_SAFE_INTEGER / 1_000, tooOften);
const zone = z.string().max(TEXT_MAX).describe("a time zone by its IANA name, such as Europe/Berlin");
const expression = z
  .string()
  .max(CRON_CHARS_MAX, { error: `write at most ${CRON_CHARS_MAX} characters` })
  .regex(/^\s*(?:\S+\s+){4}\S+\s*$/u, { error: "write five fields: minute hour day-of-month month day-of-week" })
  .describe("minute, hour, day of month, month and day of week, such as 0 9 * * 1-5");
const field = (min: number, max: number) =>
  z
    .union(
      [
        z.object({ kind: z.literal("any").describe("all of them") }),
        z.object({
          kind: z.literal("values").describe("those of a list"),
          values: z.array(z.int().min(min).max(max)).min(1).max(100).describe("the list"),
        }),
      ],
      { error: `write {"kind": "any"} or {"kind": "values", "values": [${min}]} of numbers from ${min} to ${max}` },
    )
    .default({ kind: "any" })
    .describe(`{kind: "any"}, or {kind: "values", values: [${min} to ${max}]}`);

/** When a schedule is due. */
export const Trigger = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("once").describe("one time"), due_at_utc: Time.describe("the time") }),
    z.object({
      type: z.literal("interval").describe("again and again"),
      start_at_utc: Time.describe("the first time"),
      every_seconds: seconds.describe("the seconds between two times"),
      end_at_utc: Time.optional().describe("the last time"),
    }),
    z.object({ type: z.literal("cron").describe("by a cron expression"), expression, timezone: zone.default("UTC") }),
    z.object({
      type: z.literal("calendar").describe("by lists of fields"),
      timezone: zone,
      minute: field(0, 59),
      hour: field(0, 23),
      day_of_month: field(1, 31),
      month: field(1, 12),
      day_of_week: field(0, 6),
      year: field(1970, 9_999).optional(),
    }),
  ])
  .describe("when it is due; both days of a calendar must match, and either of a cron expression that has both");
export type Trigger = z.infer<typeof Trigger>;

const notKept = (why: string) =>
  z
    .never({ error: `leave it out: ${why}` })
    .optional()
    .describe(`refused: ${why}`);
const secrets = "a schedule keeps no secrets";
const ofCode = "a schedule has no client beside it";
const NewRun = NewSession.omit({ prompt: true, initial_turn: true, idempotency_key: true, history: true })
  .extend({ shell_env: notKept(secrets), hooks_override: notKept(secrets) })
  .extend({ client_tools: notKept(ofCode), external_tools: notKept(ofCode) });

const action = z
  .discriminatedUnion("type", [
    z.object({
      type: z.literal("prompt").describe("runs a turn"),
      prompt: fieldOf(NewSession, "prompt"),
      system_prompt: fieldOf(NewSession, "system_prompt"),
      skill_refs: fieldOf(NewSession, "skill_refs"),
      additional_instructions: fieldOf(NewSession, "additional_instructions"),
    }),
    z.object({
      type: z.literal("event").describe("sends an event, and runs no turn"),
      event_type: shortText.min(1).describe("what happened"),
      payload: z.unknown().describe("facts of the event, any JSON"),
    }),
  ])
  .describe("what it does in the session");
const target_kind = z.literal("session", { error: 'write "session"; there are no mobs' }).describe("there is no other");

/** What an occurrence does: a turn in a given session, in a new one each time, or in one that is made at the first. */
export const ScheduleTarget = z.discriminatedUnion("type", [
  z.object({
    target_kind,
    type: z.enum(["exact_session", "resumable_session"]).describe("a session that is there; both mean the same"),
    session_id: SessionId,
    action,
  }),
  z.object({
    target_kind,
    type: z
      .enum(["new_session", "materialize_on_demand_session"])
      .describe("a session for each occurrence, or one that the first makes"),
    create: NewRun.describe("what its sessions are made with"),
    action,
  }),
]);
export type ScheduleTarget = z.infer<typeof ScheduleTarget>;

const Misfire = z
  .discriminatedUnion("type", [
    z.object({ type: z.literal("run_once").describe("the last of them runs") }),
    z.object({ type: z.literal("skip").describe("none runs that is 30 s late") }),
    z.object({
      type: z.literal("catch_up_within").describe("each of a window runs"),
      window_seconds: nonnegative.describe("how long it is"),
    }),
  ])
  .describe(
    "of times that passed while no server ran: run_once, the default, runs the last; skip runs none that is 30 s late; catch_up_within runs each of the last window_seconds",
  );
const Overlap = z
  .enum(["skip_if_running", "allow_concurrent", "queue", "interrupt"])
  .describe(
    "when it is due while it runs or its session is busy: skip_if_running, the default; queue runs once afterwards; interrupt ends what runs; allow_concurrent starts another",
  );
const Missing = z
  .enum(["mark_misfired", "skip"])
  .describe("how an occurrence ends whose session is gone; mark_misfired by default");
const cost = { error: "write an amount of US dollars above 0, like 0.5" };

/** What a schedule is; a record holds exactly this. */
export const ScheduleSpec = z.object({
  name: shortText.optional().describe("what people call it"),
  description: z.string().optional().describe("what it is for"),
  trigger: Trigger,
  target: ScheduleTarget,
  misfire_policy: Misfire,
  overlap_policy: Overlap,
  missing_target_policy: Missing,
  max_cost_per_day: z.number().positive().optional(),
  labels: z.record(z.string(), z.string()).default({}).describe("labels to find it by, and of the sessions it makes"),
});
export type ScheduleSpec = z.infer<typeof ScheduleSpec>;

const horizon = positive.optional().describe("accepted; occurrences are not planned ahead");
const fields = {
  name: cliFlag("--name <text>", fieldOf(ScheduleSpec, "name")),
  description: fieldOf(ScheduleSpec, "description"),
  trigger: cliFlag("--trigger <json>", Trigger.optional()),
  cron: cliFlag("--cron <expression>", expression.optional()),
  timezone: cliFlag("--timezone <name>", zone.optional()),
  every: cliFlag("--every <time>", Duration.optional().describe("the time between two occurrences, such as 30m or 1d")),
  at: cliFlag("--at <timestamp>", Time.optional().describe("the one time, or with every the first")),
  target: cliFlag("--target <json>", ScheduleTarget.optional().describe("what it does")),
  prompt: cliFlag("PROMPT", fieldOf(NewSession, "prompt").optional()),
  session_id: cliFlag("--session <id>", SessionId.optional().describe("the session; by default each run has its own")),
  model: fieldOf(NewSession, "model"),
  tool_preset: fieldOf(NewSession, "tool_preset"),
  budget_limits: BudgetLimits.optional().describe(
    "limits of the sessions it makes, so of one run in a session of its own",
  ),
  misfire_policy: cliFlag("--misfire <json>", Misfire.optional()),
  overlap_policy: cliFlag("--overlap <policy>", Overlap.optional()),
  missing_target_policy: Missing.optional(),
  max_cost_per_day: cliFlag(
    "--max-cost-per-day <usd>",
    z
      .number(cost)
      .positive(cost)
      .optional()
      .describe("what its turns may cost between two midnights, UTC, in US dollars"),
  ),
  labels: cliFlag("--label <key=value>", Labels.optional().describe("labels to find it by")),
  planning_horizon_days: horizon,
  planning_horizon_occurrences: horizon,
};
const isSmall = (input: object): boolean => jsonChars(input) <= SPEC_CHARS_MAX;
const tooLarge = { error: `a schedule has at most ${SPEC_CHARS_MAX} characters of JSON; refer to a skill or a file` };

/** Either the whole trigger and target, or the short fields for them. */
export const CreateSchedule = z.strictObject(fields).refine(isSmall, tooLarge);
export type CreateSchedule = z.infer<typeof CreateSchedule>;

const schedule_id = cliFlag(
  "ID",
  z.uuid({ error: "expected a schedule id (a UUID)" }).describe("the schedule, by its id"),
);
const OneSchedule = z.object({ schedule_id });
const UpdateSchedule = z
  .strictObject({
    schedule_id,
    ...fields,
    expected_revision: positive.optional().describe("only if this is its revision; otherwise refuse"),
  })
  .refine(isSmall, tooLarge);
export type UpdateSchedule = z.infer<typeof UpdateSchedule>;

const time = z.iso.datetime();
export const SCHEDULE_PHASES = ["active", "paused", "deleted"] as const;
const Phase = z.enum(SCHEDULE_PHASES);
export type SchedulePhase = z.infer<typeof Phase>;

const described = (what: string) => z.looseObject({ type: z.string().describe("its kind") }).describe(what);

export const Schedule = ScheduleSpec.extend({
  trigger: described("when it is due, as it was given"),
  target: described("what it does, as it was given"),
  max_cost_per_day: z.number().optional().describe("what its turns may cost a day, in US dollars"),
  schedule_id: z.string().describe("the schedule's id"),
  phase: Phase.describe("active: it runs; paused: it does not until it is resumed; deleted: never again"),
  phase_reason: z.string().optional().describe("why it was paused, if not by request"),
  revision: positive.describe("grows with every change of what it is"),
  next_due_at_utc: time.optional().describe("when it is due next; absent if never again"),
  next_occurrence_ordinal: nonnegative.describe("the number of the next occurrence"),
  running: nonnegative.describe("occurrences that have not ended"),
  caller: z.string().optional().describe("the name of the token with whose rights it acts"),
  cost_today: z
    .number()
    .nonnegative()
    .optional()
    .describe("what its turns have cost since midnight, UTC, in US dollars"),
  created_at_utc: time.describe("when it was made"),
  updated_at_utc: time.describe("when it last changed, or was due"),
});
export type Schedule = z.infer<typeof Schedule>;

export const OCCURRENCE_PHASES = [
  "pending",
  "awaiting_completion",
  "completed",
  "skipped",
  "misfired",
  "delivery_failed",
] as const;
const OccurrencePhase = z.enum(OCCURRENCE_PHASES);
const FAILURES = ["target_missing", "target_busy", "runtime_rejected", "internal_error"] as const;

/** How an occurrence ended. */
const occurrenceEnd = {
  failure_class: z.enum(FAILURES).optional().describe("why it did not complete"),
  failure_detail: z.string().optional().describe("the same in a sentence"),
  session_id: z.string().optional().describe("the session it ran in"),
  cost: z.number().nonnegative().optional().describe("what its turn cost, in US dollars"),
};
export const Occurrence = z.object({
  occurrence_id: z.string().describe("the occurrence's id: of a schedule and a time, always the same"),
  schedule_id: z.string().describe("the schedule's id"),
  schedule_revision: positive.describe("the revision of the schedule"),
  occurrence_ordinal: nonnegative.describe("its number"),
  phase: OccurrencePhase.describe("pending: it is due next; awaiting_completion: it runs; any other: it has ended"),
  due_at_utc: time.describe("when it is, or was, due"),
  missed_since_utc: time.optional().describe("the first of the times before it that passed without a run"),
  claimed_at_utc: time.optional().describe("when a server took it"),
  completed_at_utc: time.optional().describe("when it ended"),
  ...occurrenceEnd,
});
export type Occurrence = z.infer<typeof Occurrence>;

const ms = z.number().int();
const next_due_ms = ms.optional();
const ended = { phase: OccurrencePhase, ...occurrenceEnd };

/** What a schedule's log keeps; without a caller it acts for the user of the process. The next time is computed by the writer: rules of time zones change. */
export const ScheduleEntryBody = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("schedule_set"), spec: ScheduleSpec, caller: TurnInputs.caller, next_due_ms }),
  z.object({ kind: z.literal("schedule_phase"), phase: Phase, reason: z.string().optional(), next_due_ms }),
  /** Claims a time: it is appended once, by one server. */
  z.object({
    ...ended,
    kind: z.literal("occurrence"),
    occurrence_id: z.string(),
    schedule_revision: positive,
    occurrence_ordinal: nonnegative,
    due_ms: ms,
    missed_since_ms: ms.optional(),
    /** The part of the day's budget that its session may use. */
    max_cost: z.number().optional(),
    next_due_ms,
  }),
  z.object({ ...ended, kind: z.literal("occurrence_ended"), occurrence_id: z.string() }),
]);
export type ScheduleEntryBody = z.infer<typeof ScheduleEntryBody>;
export type ScheduleEntryOf<K extends ScheduleEntryBody["kind"]> = Extract<ScheduleEntryBody, { readonly kind: K }>;
export type OccurrenceEnd = Omit<ScheduleEntryOf<"occurrence_ended">, "kind" | "occurrence_id">;

const limit = cliFlag("--limit <n>", positive.max(1_000).optional().describe("at most so many"));
const READS = { scope: "read", sees: "own", requires: "session-store", mcpListed: false } as const;
const CHANGES = { ...READS, scope: "run" } as const;

/** The rows of the table about schedules. */
export const SCHEDULE_OPERATIONS = {
  createSchedule: {
    summary: "Create a schedule: turns that servers of the realm run at its times, with the rights of the caller.",
    input: CreateSchedule,
    output: Schedule,
    rpc: "schedule/create",
    http: "POST /schedules",
    mcp: "meerkat_schedule_create",
    cli: "rkat schedule create PROMPT",
    audited: { action: "schedule_created" },
    effect: "adds",
    ...CHANGES,
  },
  listSchedules: {
    summary: "List schedules, last changed first; labels must all match.",
    input: z.object({
      labels: fields.labels,
      limit,
      offset: nonnegative.optional().describe("leave out so many first"),
    }),
    output: z.object({ schedules: z.array(Schedule).describe("the schedules") }),
    rpc: "schedule/list",
    rpcNulls: true,
    http: "GET /schedules",
    mcp: "meerkat_schedule_list",
    cli: "rkat schedule list",
    ...READS,
  },
  readSchedule: {
    summary: "Read a schedule: when it is due next, what it does, and whether it runs.",
    input: OneSchedule,
    output: Schedule,
    rpc: "schedule/get",
    http: "GET /schedules/{schedule_id}",
    mcp: "meerkat_schedule_get",
    cli: "rkat schedule show ID",
    ...READS,
  },
  updateSchedule: {
    summary: "Change a schedule; from then on it acts with the rights of the caller that changed it.",
    input: UpdateSchedule,
    output: Schedule,
    rpc: "schedule/update",
    http: "PATCH /schedules/{schedule_id}",
    mcp: "meerkat_schedule_update",
    cli: "rkat schedule update ID",
    audited: { action: "schedule_changed" },
    ...CHANGES,
  },
  pauseSchedule: {
    summary: "Pause a schedule: none of its times begins a run until it is resumed; a run goes on.",
    input: OneSchedule,
    output: Schedule,
    rpc: "schedule/pause",
    http: "POST /schedules/{schedule_id}/pause",
    mcp: "meerkat_schedule_pause",
    cli: "rkat schedule pause ID",
    audited: { action: "schedule_paused" },
    effect: "idempotent",
    ...CHANGES,
  },
  resumeSchedule: {
    summary: "Resume a paused schedule; times that passed meanwhile are not run.",
    input: OneSchedule,
    output: Schedule,
    rpc: "schedule/resume",
    http: "POST /schedules/{schedule_id}/resume",
    mcp: "meerkat_schedule_resume",
    cli: "rkat schedule resume ID",
    audited: { action: "schedule_resumed" },
    effect: "idempotent",
    ...CHANGES,
  },
  deleteSchedule: {
    summary: "Delete a schedule for good; its history stays readable.",
    input: OneSchedule,
    output: Schedule,
    rpc: "schedule/delete",
    http: "DELETE /schedules/{schedule_id}",
    mcp: "meerkat_schedule_delete",
    cli: "rkat schedule delete ID",
    audited: { action: "schedule_deleted" },
    ...CHANGES,
  },
  listOccurrences: {
    summary: "List a schedule's occurrences, newest first: the next time, what runs, and how each one ended.",
    input: OneSchedule.extend({
      include_terminal: z.boolean().nullish().describe("false leaves out those that have ended"),
      limit,
    }),
    output: z.object({ occurrences: z.array(Occurrence).describe("the occurrences") }),
    rpc: "schedule/occurrences",
    rpcNulls: true,
    http: "GET /schedules/{schedule_id}/occurrences",
    mcp: "meerkat_schedule_occurrences",
    cli: "rkat schedule history ID",
    ...READS,
  },
} as const;
