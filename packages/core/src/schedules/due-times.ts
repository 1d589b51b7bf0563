import { Cron } from "croner";
import { invalid, messageOf } from "../contract/error.ts";
import type { ScheduleSpec, Trigger } from "../contract/wire/schedule.ts";

/**
 * The times of a trigger. A time that a clock change leaves out is taken at the first moment after it; one that comes twice
 * is taken the first time, unless the hour is any.
 */
export interface DueTimes {
  /** The first time after a moment; undefined if there is none. */
  after(ms: number): number | undefined;
  /** The last time up to a moment; undefined if there is none. */
  upTo(ms: number): number | undefined;
}

/** Throws INVALID_PARAMS for an expression or a zone that is none. */
export function dueTimes(trigger: Trigger): DueTimes {
  if (trigger.type === "once") {
    const due = Date.parse(trigger.due_at_utc);
    return { after: (ms) => (due > ms ? due : undefined), upTo: (ms) => (due <= ms ? due : undefined) };
  }
  if (trigger.type === "interval") {
    const [start, step] = [Date.parse(trigger.start_at_utc), trigger.every_seconds * 1_000];
    const end = trigger.end_at_utc === undefined ? Number.POSITIVE_INFINITY : Date.parse(trigger.end_at_utc);
    return {
      after: (ms) => {
        const due = start + Math.max(0, Math.floor((ms - start) / step) + 1) * step;
        return due > end ? undefined : due;
      },
      upTo: (ms) => (ms < start ? undefined : start + Math.floor((Math.min(ms, end) - start) / step) * step),
    };
  }
  const cron = cronOf(trigger);
  return {
    after: (ms) => cron.nextRun(new Date(ms))?.getTime(),
    upTo: (ms) => cron.previousRuns(1, new Date(ms + 1))[0]?.getTime(),
  };
}

function cronOf(trigger: Extract<Trigger, { readonly type: "cron" | "calendar" }>): Cron {
  const { timezone } = trigger;
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
  } catch {
    throw invalid(`timezone: there is no time zone ${timezone}; write a name such as Europe/Berlin`);
  }
  try {
    if (trigger.type === "cron") return new Cron(trigger.expression.trim(), { timezone, paused: true });
    const { minute, hour, day_of_month, month, day_of_week, year } = trigger;
    const fields = [minute, hour, day_of_month, month, day_of_week, year ?? { kind: "any" as const }];
    const pattern = fields.map((field) => (field.kind === "any" ? "*" : field.values.join(","))).join(" ");
    return new Cron(`0 ${pattern}`, { timezone, paused: true, domAndDow: true });
  } catch (cause) {
    const what = trigger.type === "cron" ? `cron: ${trigger.expression}` : "trigger";
    throw invalid(`${what} cannot be read: ${messageOf(cause).replace(/^CronPattern: /, "")}`, cause);
  }
}

/** An occurrence that is late by no more than this is on time. */
const GRACE_MS = 30_000;

/** The time of a schedule that is due: what runs, what has passed without a run, and what is next. */
export interface Due {
  readonly dueMs: number;
  /** The first of the times before it that passed. */
  readonly missedSinceMs?: number;
  /** It has passed, too. */
  readonly isMisfired: boolean;
  readonly nextMs: number | undefined;
}

/** Decides on the times from `firstMs`, which has come, to now. However many they are, the cost is that of one. */
export function decideDue(
  { trigger, misfire_policy, overlap_policy }: ScheduleSpec,
  firstMs: number,
  nowMs: number,
): Due {
  const times = dueTimes(trigger);
  const chosen = (dueMs: number, isMisfired = false): Due => ({
    dueMs,
    ...(dueMs === firstMs ? {} : { missedSinceMs: firstMs }),
    isMisfired,
    nextMs: times.after(dueMs),
  });
  const last = Math.max(times.upTo(nowMs) ?? firstMs, firstMs);
  switch (misfire_policy.type) {
    case "run_once":
      return chosen(last);
    case "skip":
      // A queued occurrence is late because another ran.
      return chosen(last, nowMs - last > GRACE_MS && overlap_policy !== "queue");
    case "catch_up_within": {
      const fromMs = nowMs - misfire_policy.window_seconds * 1_000;
      if (firstMs >= fromMs) return chosen(firstMs);
      const next = times.after(fromMs - 1);
      return next === undefined || next > nowMs ? chosen(last, true) : chosen(next);
    }
  }
}
