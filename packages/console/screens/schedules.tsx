import type { Occurrence, Schedule } from "@rkat/core/contract/wire/schedule";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { formatCost, formatCount, formatId, formatTime } from "../format.ts";
import { Action, Badge, Empty, Facts, Loaded, Note, type Request, Table, type Tone, useRequest } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { call, hasScope } from "../server.ts";
import { LongText } from "../transcript-text.tsx";

const SHOWN_MAX = 500;
const POLL_MS = 5_000;
const RUNS_SHOWN = 50;
const NAME_CHARS_MAX = 100;

/** The routes `#/schedules` and `#/schedules/ID`. */
export function SchedulesScreen({ path }: { path: readonly string[] }): JSX.Element {
  const [id] = path;
  return id === undefined ? <ScheduleList /> : <ScheduleDetails key={id} id={id} />;
}

/** Sends a request again while the page is visible: times are due without the page. */
function usePolled<T>(request: Request<T>): Request<T> {
  useEffect(() => {
    const poll = (): void => {
      if (document.visibilityState === "visible") request.repeat();
    };
    const timer = setInterval(poll, POLL_MS);
    return () => clearInterval(timer);
  }, []);
  return request;
}

function ScheduleList(): JSX.Element {
  // One extra schedule tells whether there are more.
  const list = async () => (await call("listSchedules", { limit: SHOWN_MAX + 1 })).schedules;
  const request = usePolled(useRequest(list, []));
  return (
    <div class="stack">
      <h1>Schedules</h1>
      <Loaded request={request}>
        {(schedules) =>
          schedules.length === 0 ? (
            <Empty>
              No schedules yet. <code>rkat schedule create PROMPT --cron "0 9 * * 1-5"</code> makes one.
            </Empty>
          ) : (
            <>
              <Table columns={hasScope("run") ? [...COLUMNS, ["Actions", "wide"]] : COLUMNS}>
                {schedules.slice(0, SHOWN_MAX).map((one) => (
                  <tr key={one.schedule_id}>
                    <td class="title">
                      <a href={linkTo(["schedules", one.schedule_id])}>
                        <bdi>{nameOf(one)}</bdi>
                      </a>
                    </td>
                    <td>
                      <Phase schedule={one} />
                    </td>
                    <td>{dueText(one)}</td>
                    <td class="wide">
                      <bdi>{triggerText(one)}</bdi>
                    </td>
                    <td class="number wide">{costToday(one)}</td>
                    {hasScope("run") && (
                      <td class="wide">
                        <Actions schedule={one} after={request.repeat} />
                      </td>
                    )}
                  </tr>
                ))}
              </Table>
              {schedules.length > SHOWN_MAX && <p class="soft">Showing the {SHOWN_MAX} that changed last.</p>}
            </>
          )
        }
      </Loaded>
    </div>
  );
}

const COLUMNS = [["Schedule"], ["State"], ["Next due"], ["When", "wide"], ["Cost today", "number wide"]] as const;

function nameOf({ name, target, schedule_id }: Schedule): string {
  const { prompt, event_type } = Object(target.action);
  return name ?? (String(prompt ?? event_type ?? "").slice(0, NAME_CHARS_MAX) || formatId(schedule_id));
}

function Phase({ schedule: { phase, running } }: { schedule: Schedule }): JSX.Element {
  if (running > 0) return <Badge tone="live">{running === 1 ? "running" : `${formatCount(running)} running`}</Badge>;
  return <Badge tone={phase === "active" ? "good" : phase === "paused" ? "warn" : "plain"}>{phase}</Badge>;
}

function dueText({ phase, next_due_at_utc }: Schedule): string {
  if (phase !== "active") return "";
  return next_due_at_utc === undefined ? "never again" : formatTime(next_due_at_utc);
}

function costToday({ cost_today, max_cost_per_day }: Schedule): string {
  const spent = formatCost({ amount: cost_today ?? 0 });
  return max_cost_per_day === undefined ? spent : `${spent} of ${formatCost({ amount: max_cost_per_day })}`;
}

function triggerText({ trigger: { type, ...fields } }: Schedule): string {
  const words = Object.entries(fields).map(
    ([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`,
  );
  return `${type}: ${words.join(", ")}`;
}

const ACTIONS = [
  ["Pause", "pauseSchedule", "active"],
  ["Resume", "resumeSchedule", "paused"],
  ["Delete", "deleteSchedule", undefined],
] as const;

function Actions({ schedule, after }: { schedule: Schedule; after: () => void }): JSX.Element {
  const { schedule_id, phase } = schedule;
  const name = nameOf(schedule);
  const run = async (operation: (typeof ACTIONS)[number][1]): Promise<void> => {
    if (operation === "deleteSchedule" && !confirm(`Delete ${name} for good?`)) return;
    await call(operation, { schedule_id });
    after();
  };
  return (
    <span class="row">
      {ACTIONS.filter(([, , of = phase]) => of === phase && phase !== "deleted").map(([verb, operation]) => (
        <Action key={verb} class="quiet" run={() => run(operation)} label={`${verb} ${name}`}>
          {verb}
        </Action>
      ))}
    </span>
  );
}

function ScheduleDetails({ id }: { id: string }): JSX.Element {
  const request = usePolled(
    useRequest(async () => {
      const [schedule, { occurrences }] = await Promise.all([
        call("readSchedule", { schedule_id: id }),
        call("listOccurrences", { schedule_id: id, limit: RUNS_SHOWN }),
      ]);
      return { schedule, occurrences };
    }, [id]),
  );
  return (
    <div class="stack">
      <Loaded request={request}>
        {({ schedule, occurrences }) => (
          <>
            <div class="row">
              <h1>
                <bdi>{nameOf(schedule)}</bdi>
              </h1>
              <Phase schedule={schedule} />
              <span class="grow" />
              {hasScope("run") && <Actions schedule={schedule} after={request.repeat} />}
            </div>
            {schedule.phase_reason !== undefined && (
              <Note kind="bad">
                Paused: <bdi>{schedule.phase_reason}</bdi>
              </Note>
            )}
            <section class="card stack" aria-label="Definition">
              <Facts
                rows={[
                  ["Next due", dueText(schedule) || schedule.phase],
                  ["When", triggerText(schedule)],
                  ["If missed", schedule.misfire_policy.type],
                  ["If still running", schedule.overlap_policy],
                  ["Cost today", costToday(schedule)],
                  ["Acts for", schedule.caller ?? "the user of the server"],
                ]}
              />
              <LongText text={JSON.stringify(schedule.target, null, 2)} isCode />
              <a href={linkTo(["sessions"], { label: `schedule=${id}` })}>Sessions of this schedule</a>
            </section>
            <Runs occurrences={occurrences} />
          </>
        )}
      </Loaded>
      <a href={linkTo(["schedules"])}>All schedules</a>
    </div>
  );
}

const TONES: Readonly<Record<string, Tone>> = {
  awaiting_completion: "live",
  completed: "good",
  delivery_failed: "bad",
};

function Runs({ occurrences }: { occurrences: readonly Occurrence[] }): JSX.Element {
  return (
    <section class="card" aria-labelledby="runs">
      <h2 id="runs">Runs</h2>
      <Table label="Runs" columns={[["Due"], ["State"], ["Cost", "number"], ["Session"], ["Why"]]}>
        {occurrences.map((one) => (
          <tr key={one.occurrence_id}>
            <td>{formatTime(one.due_at_utc)}</td>
            <td>
              <Badge tone={TONES[one.phase] ?? "plain"}>{one.phase.replace("_", " ")}</Badge>
            </td>
            <td class="number">{formatCost(one.cost === undefined ? undefined : { amount: one.cost })}</td>
            <td>
              {one.session_id !== undefined && (
                <a href={linkTo(["sessions", one.session_id])}>{formatId(one.session_id)}</a>
              )}
            </td>
            <td>
              <bdi>{one.failure_detail}</bdi>
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
