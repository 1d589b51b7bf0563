import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { RuntimeError } from "@rkat/core/contract/error";

/** How a server or a command is started. */
export interface Start {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A process that was started, and what it said. */
export interface Child {
  readonly spawned: ChildProcessWithoutNullStreams;
  /** What it wrote to stderr, the newest of it. */
  readonly complaints: () => string;
  /** Resolves with its exit code when it has ended. */
  readonly ended: Promise<number | null>;
  /** Ends its input, asks it to end, and ends it when it does not. */
  stop(): Promise<void>;
}

const COMPLAINT_CHARS_MAX = 4_000;
/** How long a process may take to end by itself; as the clients of the wire have it. */
const END_MS_MAX = 5_000;

/** Starts a process; throws INVALID_PARAMS, in a sentence, when that cannot be. */
export async function startChild({ command, args, cwd, env }: Start): Promise<Child> {
  const child = spawn(command, [...args], { cwd, env: { ...env }, stdio: ["pipe", "pipe", "pipe"] });
  let complaints = "";
  child.stderr.on("data", (data) => {
    complaints = `${complaints}${data}`.slice(-COMPLAINT_CHARS_MAX);
  });
  child.stdin.on("error", () => {}); // One that has ended does not read; its end is told.
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (cause) => {
      reject(new RuntimeError("INVALID_PARAMS", `${command} cannot be started: ${cause.message}`, { cause }));
    });
  });
  return {
    spawned: child,
    complaints: () => complaints.trim(),
    ended,
    stop: async () => {
      child.stdin.end();
      child.kill("SIGTERM");
      const kill = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
      await ended;
      clearTimeout(kill);
    },
  };
}

/** The first line of a stream of the process that has something to say; rejects when the process ends before. */
export function firstLine<T>(
  child: Child,
  stream: "stdout" | "stderr",
  read: (line: string) => T | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.spawned[stream] });
    lines.on("line", (line) => {
      const found = read(line);
      if (found !== undefined) resolve(found);
    });
    void child.ended.then((code) => reject(endedEarly(child, code)));
  });
}

/** What to say of a process that was not meant to end. */
export function endedEarly({ spawned, complaints }: Child, code: number | null): RuntimeError {
  const message = `${spawned.spawnargs.join(" ")} ended with ${code ?? "a signal"}: ${complaints() || "it said nothing"}`;
  return new RuntimeError("AGENT_ERROR", message);
}

/** How long one answer may take before it is given up; nothing in a scenario waits for more than milliseconds. */
const ANSWER_MS_MAX = 30_000;

/** What the work comes to, unless that takes too long: a server that never answers must not be waited for. */
export async function withinTime<T>(work: Promise<T>, who: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const message = `${who} did not answer in ${ANSWER_MS_MAX / 1_000} s`;
  const timer = setTimeout(() => late.reject(new RuntimeError("AGENT_ERROR", message)), ANSWER_MS_MAX);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
