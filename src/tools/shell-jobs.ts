import { RuntimeError } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import { type CommandEnd, type CommandReport, type RunningCommand, reportCommand } from "./command.ts";

type JobStatus = "running" | "completed" | "failed" | "timed_out" | "cancelled";

interface JobSummary {
  readonly job_id: string;
  readonly command: string;
  readonly status: JobStatus;
  readonly started_at_unix: number;
}

/** What a job has written so far and, once it has ended, how. */
type JobReport = JobSummary & CommandReport & { readonly error?: string };

/** The background commands of all sessions; each session sees only its own. */
export interface JobBoard {
  /** Rejects where too many jobs run, before `start` is called. */
  add(sessionId: string, command: string, start: () => RunningCommand): string;
  list(sessionId: string): readonly JobSummary[];
  report(sessionId: string, jobId: string): JobReport;
  /** Resolves once the job has ended. */
  cancel(sessionId: string, jobId: string): Promise<void>;
}

/** Background commands running at once, in all sessions together. */
export const JOBS_RUNNING_MAX = 32;
/** Finished jobs whose output is still kept; the oldest go first. */
export const JOBS_FINISHED_MAX = 100;

export interface JobBounds {
  readonly runningMax: number;
  readonly finishedMax: number;
}

interface Job {
  readonly id: string;
  readonly sessionId: string;
  readonly command: string;
  readonly running: RunningCommand;
  outcome: { readonly end: CommandEnd; readonly durationMs: number } | undefined;
}

export function createJobBoard(clock: Clock, bounds: JobBounds): JobBoard {
  const jobs = new Map<string, Job>();

  const find = (sessionId: string, jobId: string): Job => {
    const job = jobs.get(jobId);
    if (job === undefined || job.sessionId !== sessionId) {
      throw new RuntimeError("INVALID_PARAMS", `there is no job ${jobId}`);
    }
    return job;
  };

  const forgetOldest = () => {
    const finished = [...jobs.values()].filter((job) => job.outcome !== undefined);
    const surplus = Math.max(0, finished.length - bounds.finishedMax);
    for (const job of finished.slice(0, surplus)) jobs.delete(job.id);
  };

  return {
    add: (sessionId, command, start) => {
      const runningCount = [...jobs.values()].filter((job) => job.outcome === undefined).length;
      if (runningCount >= bounds.runningMax) {
        throw new RuntimeError(
          "INVALID_PARAMS",
          `${runningCount} background jobs are running already; cancel one with shell_job_cancel or wait`,
        );
      }
      const job: Job = { id: clock.newId(), sessionId, command, running: start(), outcome: undefined };
      jobs.set(job.id, job);
      void job.running.ended.then((outcome) => {
        job.outcome = outcome;
        forgetOldest();
      });
      return job.id;
    },
    list: (sessionId) => [...jobs.values()].filter((job) => job.sessionId === sessionId).map(summarise),
    report: (sessionId, jobId) => {
      const job = find(sessionId, jobId);
      const { end, durationMs } = job.outcome ?? { durationMs: clock.now() - job.running.startedAtMs };
      return {
        ...summarise(job),
        ...reportCommand(job.running, end, durationMs),
        ...(end?.kind === "not_started" ? { error: end.reason } : {}),
      };
    },
    cancel: async (sessionId, jobId) => {
      const job = find(sessionId, jobId);
      if (job.outcome === undefined) {
        job.running.cancel();
        await job.running.ended;
      }
      const status = statusOf(job.outcome?.end);
      if (status !== "cancelled")
        throw new RuntimeError("INVALID_PARAMS", `job ${jobId} is not running: it has ${ENDED_AS[status]}`);
    },
  };
}

const ENDED_AS: Readonly<Record<Exclude<JobStatus, "cancelled">, string>> = {
  running: "not ended",
  completed: "completed",
  failed: "failed",
  timed_out: "timed out",
};

function summarise(job: Job): JobSummary {
  return {
    job_id: job.id,
    command: job.command,
    status: statusOf(job.outcome?.end),
    started_at_unix: Math.floor(job.running.startedAtMs / 1_000),
  };
}

/** A command that ran to its own end is completed, whatever it thinks of its work: the exit code says that. */
function statusOf(end: CommandEnd | undefined): JobStatus {
  if (end === undefined) return "running";
  switch (end.kind) {
    case "exited":
      return "completed";
    case "signalled":
    case "not_started":
    case "flooded":
      return "failed";
    case "timed_out":
    case "cancelled":
      return end.kind;
  }
}
