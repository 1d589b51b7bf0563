import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, mkdtemp, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
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
/** Bytes of the end of an output that are read, and of every other file. */
const OUTPUT_BYTES_MAX = 32 * 1_024 * 1_024;
const TEXT_BYTES_MAX = 4_096;
/** A folder that says nothing about a job after this time is left over from a process that ended while it made it. */
const UNFINISHED_MS = 600_000;

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
    const [exit] = /^\d{1,3}$/.exec((await readText(join(path, "exit"))) ?? "") ?? [];
    const written = await readText(join(path, "stopped"));
    const stopped = STOPS.find((why) => why === written);
    const files = await Promise.all(OUTPUTS.map((name) => lstat(join(path, name)).catch(() => undefined)));
    return {
      ...facts,
      state: exit === undefined ? state : "ended",
      // A command that has removed or replaced its output could write without a limit.
      outputBytes: Math.max(...files.map((file) => (file?.isFile() ? file.size : Number.POSITIVE_INFINITY))),
      ...(exit === undefined ? {} : { exitCode: Number(exit) }),
      ...(stopped === undefined ? {} : { stopped }),
    };
  };
  const names = async (): Promise<readonly string[]> => {
    const parent = folder ?? (await temporary);
    return parent === undefined ? [] : await readdir(parent).catch(() => []);
  };
  /** Whether a folder describes a job. One that does not is deleted after a while. */
  const isJob = async (jobId: string): Promise<boolean> => {
    const path = await pathOf(jobId);
    if (path === undefined) return false;
    if ((await readFacts(path)) !== undefined) return true;
    const made = await stat(path).catch(() => undefined);
    const isLeftOver = made !== undefined && clock.now() > made.mtimeMs + UNFINISHED_MS;
    if (isLeftOver) await rm(path, { recursive: true, force: true });
    return false;
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
      // What stands in its place must not keep the job from being stopped.
      await writeFile(join(path, "stopped"), why, { mode: 0o600, flag: WRITE_PLAIN }).catch(() => {});
      // A command that floods its output would go on doing so.
      if (why !== "flooded") signalGroup(seen, "SIGTERM");
      if (why !== "flooded" && (await isGone(jobId, seen))) return;
      signalGroup(seen, "SIGKILL");
      await isGone(jobId, seen);
    },
    remove: async (jobId) => {
      const path = await pathOf(jobId);
      const facts = path === undefined ? undefined : await readFacts(path);
      if (path === undefined) return;
      if (facts?.boot === boot && facts.started !== "") {
        const started = startOf(facts.pid);
        // While members of a group live, its id is not given to another process: without a leader they are the job's. A
        // leader that wrote the exit code has ended them; since then the id may have been given away.
        const isLeft = started === undefined && (await readText(join(path, "exit"))) === undefined;
        if (isLeft || started === facts.started) signalGroup(facts, "SIGKILL");
      }
      children.delete(jobId);
      await rm(path, { recursive: true, force: true });
    },
    list: async () => {
      const jobs: string[] = [];
      for (const name of await names()) if (await isJob(name)) jobs.push(name);
      return jobs;
    },
    eraseText: async (finds) => {
      for (const jobId of await names()) {
        const path = await pathOf(jobId);
        if (path !== undefined) for (const name of OUTPUTS) await eraseIn(join(path, name), finds);
      }
    },
    close: async () => {
      if (temporary !== undefined) await rm(await temporary, { recursive: true, force: true });
    },
  };
}

const NEVER = new AbortController().signal;
const FACTS = "job.json";
const OUTPUTS = ["stdout", "stderr"] as const;
const STOPS: readonly JobStop[] = ["cancelled", "timed_out", "flooded"];
// Neither through a link nor waiting for the other end of a pipe.
const PLAIN = constants.O_NOFOLLOW | constants.O_NONBLOCK;
const WRITE_PLAIN = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | PLAIN;

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

/** Uses a plain file. The command may have put a link, a pipe or a folder in its place, which counts as no file. */
async function withFile<T>(
  path: string,
  flags: number,
  use: (file: FileHandle, stat: Stats) => Promise<T>,
): Promise<T | undefined> {
  const file = await open(path, flags | PLAIN).catch(() => undefined);
  if (file === undefined) return undefined;
  try {
    const stat = await file.stat();
    return stat.isFile() ? await use(file, stat) : undefined;
  } finally {
    await file.close();
  }
}

async function readTail(path: string, charsMax: number) {
  const tail = createOutputTail(charsMax);
  // Up to its present end: a job may write faster than this reads.
  await withFile(path, constants.O_RDONLY, async (file, { size }) => {
    if (size === 0) return;
    const start = Math.max(0, size - OUTPUT_BYTES_MAX);
    const bytes = file.createReadStream({ start, end: size - 1, autoClose: false });
    for await (const piece of bytes) tail.push(piece);
  }).catch(() => {}); // Another process has reported the end and deleted the output.
  tail.end();
  return tail;
}

const ERASED_BYTES = 1_024 * 1_024;
/** A text may lie across two readings. */
const SHARED_BYTES = 64 * 1_024;

/** Overwrites the lines that contain a text, or all that was read if the text is not in one line; the job only appends. */
async function eraseIn(path: string, finds: (bytes: Uint8Array) => boolean): Promise<void> {
  await withFile(path, constants.O_RDWR, async (file, { size }) => {
    for (let from = 0; from < size; from += ERASED_BYTES - SHARED_BYTES) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(ERASED_BYTES), 0, ERASED_BYTES, from);
      const bytes = buffer.subarray(0, bytesRead);
      if (!finds(bytes)) continue;
      for (let at = 0; at < bytes.length; ) {
        const end = bytes.indexOf(NEWLINE, at);
        const line = bytes.subarray(at, end < 0 ? bytes.length : end);
        if (finds(line)) line.fill(BLANK);
        at += line.length + 1;
      }
      if (finds(bytes)) bytes.fill(BLANK);
      await file.write(bytes, 0, bytes.length, from);
      await file.sync();
    }
  });
}

const NEWLINE = 0x0a;
const BLANK = 0x20;

async function readFacts(path: string): Promise<Facts | undefined> {
  try {
    // `as`: written by `start`. After a power failure it may be empty.
    const facts = JSON.parse((await readText(join(path, FACTS))) ?? "") as Facts;
    // A group of another number would be that of this process, or all processes.
    return Number.isInteger(facts.pid) && facts.pid > 1 ? facts : undefined;
  } catch {
    return undefined;
  }
}

function readText(path: string): Promise<string | undefined> {
  return withFile(path, constants.O_RDONLY, async (file) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TEXT_BYTES_MAX), 0, TEXT_BYTES_MAX, 0);
    return buffer.toString("utf8", 0, bytesRead);
  }).catch(() => undefined);
}
