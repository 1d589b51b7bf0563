import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { mkdir, mkdtemp, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { hostname, constants as osConstants, tmpdir } from "node:os";
import { join } from "node:path";
import { invalid, messageOf } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { JobLook, JobProcesses, JobSpec, JobStop } from "../ports/jobs.ts";
import {
  type CommandEnd,
  createOutputTail,
  OUTPUT_CHARS_MAX,
  reportCommand,
  signalGroup,
  TERMINATION_GRACE_MS,
} from "./command.ts";
import { bootAndNamespace, startOf } from "./process-identity.ts";

/** Characters of each output that are reported, and recorded in the log, of a job that has ended. */
const ENDED_CHARS_MAX = 30_000;
/** How often a job that was told to end is looked at. */
const LOOK_MS = 20;

/**
 * Leads the process group of a job. It runs nothing unless a line comes, leaves the exit code in a file, and ends what the
 * command left behind. A signal to the group must not end it before the command.
 */
const LEADER = `trap : TERM HUP INT
read -r go || exit 0
"$1" -c "$2" </dev/null
code=$?
umask 077
printf %s "$code" >"$3/exit.new" && mv "$3/exit.new" "$3/exit"
kill -KILL 0`;

/** What the folder of a job says about it. Only this decides which processes are signalled: a log may come from elsewhere. */
interface Facts extends Omit<JobLook, "state" | "outputBytes" | "exitCode" | "stopped"> {}

interface JobOptions {
  /** The folder of jobs, which other processes see; without it a temporary one that is deleted at the end. */
  readonly folder?: string | undefined;
  readonly clock: Clock;
  /** Whether jobs go on when this process ends; otherwise they keep it alive. */
  readonly outlives: boolean;
}

export function createJobProcesses({ folder, clock, outlives }: JobOptions): JobProcesses {
  const host = hostname();
  const boot = bootAndNamespace();
  const children = new Map<string, ChildProcess>();
  let temporary: Promise<string> | undefined;

  const home = async (): Promise<string> => {
    if (folder === undefined) {
      temporary ??= mkdtemp(join(tmpdir(), "rkat-jobs-"));
      return temporary;
    }
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  };
  /** The folder of a job; its id may come from a log, and must not lead out of ours. */
  const pathOf = async (jobId: string): Promise<string | undefined> => {
    const parent = folder ?? (await temporary);
    return parent === undefined || !/^[\w-]{1,100}$/.test(jobId) ? undefined : join(parent, jobId);
  };

  const stateOf = (jobId: string, facts: Facts): JobLook["state"] => {
    if (facts.host !== host) return "elsewhere";
    const child = children.get(jobId);
    if (child !== undefined) return child.exitCode === null && child.signalCode === null ? "running" : "ended";
    if (facts.boot !== boot) return "ended";
    if (facts.started === "") return "unknown";
    return startOf(facts.pid) === facts.started ? "running" : "ended";
  };

  const look: JobProcesses["look"] = async (jobId) => {
    const path = await pathOf(jobId);
    const facts = path === undefined ? undefined : await readFacts(path);
    if (path === undefined || facts === undefined) return undefined;
    // Before the exit code: a process that is gone has written it, or never will.
    const state = stateOf(jobId, facts);
    const exit = await readText(join(path, "exit"));
    const stopped = await readText(join(path, "stopped"));
    const sizes = await Promise.all(OUTPUTS.map((name) => stat(join(path, name)).catch(() => ({ size: 0 }))));
    return {
      ...facts,
      state: exit === undefined ? state : "ended",
      outputBytes: Math.max(...sizes.map(({ size }) => size)),
      ...(exit === undefined ? {} : { exitCode: Number(exit) }),
      // `as`: written by `stop`.
      ...(stopped === undefined ? {} : { stopped: stopped as JobStop }),
    };
  };

  /** Waits for a process that was signalled. */
  const isGone = async (jobId: string, facts: Facts): Promise<boolean> => {
    for (let waited = 0; waited < TERMINATION_GRACE_MS; waited += LOOK_MS) {
      if (stateOf(jobId, facts) !== "running") return true;
      await clock.sleep(LOOK_MS, NEVER);
    }
    return false;
  };

  return {
    host,
    start: async ({ id, sessionId }, spec) => {
      const path = join(await home(), id);
      await mkdir(path, { mode: 0o700 });
      try {
        const child = await spawnLeader(path, spec);
        const { pid = 0 } = child;
        children.set(id, child);
        const place = { host, boot, pid, started: startOf(pid) ?? "" };
        const facts: Facts = { ...place, sessionId, startedAtMs: clock.now(), timeoutMs: spec.timeoutMs };
        await writeFile(join(path, "job.new"), JSON.stringify(facts), { mode: 0o600 });
        await rename(join(path, "job.new"), join(path, FACTS));
        const go = (): void => {
          child.stdin?.end("\n");
          if (outlives) child.unref();
        };
        return { ...place, go };
      } catch (cause) {
        children.get(id)?.stdin?.destroy(); // Its leader ends without having run the command.
        children.delete(id);
        await rm(path, { recursive: true, force: true });
        throw invalid(`the command could not be started: ${messageOf(cause)}`, cause);
      }
    },
    look,
    report: async (jobId, seen) => {
      const path = (await pathOf(jobId)) ?? "";
      const hasEnded = seen.state === "ended";
      const charsMax = hasEnded ? ENDED_CHARS_MAX : OUTPUT_CHARS_MAX;
      const [stdout, stderr] = await Promise.all(OUTPUTS.map((name) => readTail(join(path, name), charsMax)));
      if (stdout === undefined || stderr === undefined) throw new Error("a job has two outputs");
      const endedAtMs = (await stat(join(path, "exit")).catch(() => undefined))?.mtimeMs ?? clock.now();
      const durationMs = Math.max(0, endedAtMs - seen.startedAtMs);
      return reportCommand({ stdout, stderr }, hasEnded ? endOf(seen) : undefined, durationMs);
    },
    stop: async (jobId, why) => {
      const seen = await look(jobId);
      const path = await pathOf(jobId);
      if (seen?.state !== "running" || path === undefined) return;
      await writeFile(join(path, "stopped"), why, { mode: 0o600 });
      signalGroup(seen, "SIGTERM");
      if (await isGone(jobId, seen)) return;
      signalGroup(seen, "SIGKILL");
      await isGone(jobId, seen);
    },
    remove: async (jobId) => {
      const path = await pathOf(jobId);
      const facts = path === undefined ? undefined : await readFacts(path);
      if (path === undefined) return;
      // While members of a group live, its id is not given to another process: without a leader they are the job's.
      if (facts?.boot === boot && facts.started !== "" && startOf(facts.pid) === undefined)
        signalGroup(facts, "SIGKILL");
      children.delete(jobId);
      await rm(path, { recursive: true, force: true });
    },
    list: async () => {
      const parent = folder ?? (await temporary);
      return parent === undefined ? [] : await readdir(parent).catch(() => []);
    },
    close: async () => {
      if (temporary !== undefined) await rm(await temporary, { recursive: true, force: true });
    },
  };
}

const NEVER = new AbortController().signal;
const FACTS = "job.json";
const OUTPUTS = ["stdout", "stderr"] as const;

async function spawnLeader(path: string, { program, command, folder, env }: JobSpec): Promise<ChildProcess> {
  const files = await Promise.all(OUTPUTS.map((name) => open(join(path, name), "a", 0o600)));
  try {
    const child = spawn("/bin/sh", ["-c", LEADER, "rkat-job", program, command, path], {
      cwd: folder,
      env,
      stdio: ["pipe", ...files.map(({ fd }) => fd)],
      detached: true,
    });
    await once(child, "spawn");
    // A leader that is gone is reported by its state.
    child.on("error", () => {});
    child.stdin?.on("error", () => {});
    return child;
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

function endOf({ stopped, exitCode }: JobLook): CommandEnd | undefined {
  if (stopped !== undefined) return { kind: stopped };
  if (exitCode === undefined) return undefined;
  // As a shell reports it.
  const signal = Object.entries(osConstants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  return signal === undefined ? { kind: "exited", exitCode } : { kind: "signalled", signal };
}

async function readTail(path: string, charsMax: number) {
  const tail = createOutputTail(charsMax);
  try {
    for await (const bytes of createReadStream(path)) tail.push(bytes);
  } catch {
    // Another process has reported the end and deleted the output.
  }
  tail.end();
  return tail;
}

async function readFacts(path: string): Promise<Facts | undefined> {
  const text = await readText(join(path, FACTS));
  // `as`: written by `start`, whole or not at all.
  return text === undefined ? undefined : (JSON.parse(text) as Facts);
}

function readText(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}
