import type { CommandReport, EntryBodyOf } from "../contract/entry.ts";
import type { Job } from "../contract/session-operations.ts";

/** A command that may run longer than this process. */
export interface JobSpec {
  /** Called as `program -c command`. */
  readonly program: string;
  readonly command: string;
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Its end begins a turn of its session. */
  readonly beginsTurn?: boolean;
}

/** Where a job runs, as its entry records it. */
export type JobPlace = Pick<EntryBodyOf<"job_started">, "host" | "boot" | "pid" | "started">;

/** Why we ended a job. */
export type JobStop = "cancelled" | "timed_out" | "flooded";

export interface JobLook extends JobPlace {
  readonly sessionId: string;
  /**
   * `elsewhere`: on another machine, whose processes cannot be looked up. `unknown`: this platform cannot tell whether its
   * process is still the same.
   */
  readonly state: "running" | "ended" | "elsewhere" | "unknown";
  readonly startedAtMs: number;
  readonly timeoutMs: number;
  readonly outputBytes: number;
  /** Absent while it runs, and if it was killed before it could be written. */
  readonly exitCode?: number;
  readonly stopped?: JobStop;
}

/** The processes and the output of background jobs. Jobs of other processes that use the same folder are found, too. */
export interface JobProcesses {
  /** Where jobs of this process run. */
  readonly host: string;
  /** Prepares a command; it runs from `go` on. If this process ends before that, the command never runs. */
  start(job: { readonly id: string; readonly sessionId: string }, spec: JobSpec): Promise<JobPlace & { go(): void }>;
  /** Undefined if there is no such job here. */
  look(jobId: string): Promise<JobLook | undefined>;
  /** What a job has written and, once it has ended, its result. */
  report(jobId: string, look: JobLook): Promise<CommandReport>;
  /** Ends a running job with everything it started, and records why. */
  stop(jobId: string, why: JobStop): Promise<void>;
  /** Deletes what was kept about a job that has ended. */
  remove(jobId: string): Promise<void>;
  /** The ids of the jobs that were not removed yet. */
  list(): Promise<readonly string[]>;
  /** Overwrites the parts of all outputs in which a text is found. */
  eraseText(finds: (bytes: Uint8Array) => boolean): Promise<void>;
  close(): Promise<void>;
}

/** A job's output so far and, once it has ended, its result; without output if it runs elsewhere. */
export type JobReport = Job & Partial<CommandReport> & { readonly error?: string };

/** The background jobs of sessions, as tools use them; each session sees only its own. */
export interface SessionJobs {
  /** Rejects if too many jobs run. */
  start(sessionId: string, spec: JobSpec): Promise<string>;
  list(sessionId: string): Promise<readonly Job[]>;
  report(sessionId: string, jobId: string): Promise<JobReport>;
  /** Resolves once the job has ended. */
  cancel(sessionId: string, jobId: string): Promise<void>;
}
