import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import type { Clock } from "../../ports/clock.ts";
import { createOutputTail, type OutputTail } from "./output-tail.ts";
import { signalGroup } from "./process-group.ts";

export interface CommandSpec {
  readonly program: string;
  readonly command: string;
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

export type CommandEnd =
  | { readonly kind: "exited"; readonly exitCode: number }
  | { readonly kind: "signalled"; readonly signal: string }
  | { readonly kind: "timed_out" }
  | { readonly kind: "cancelled" }
  | { readonly kind: "not_started"; readonly reason: string };

export interface RunningCommand {
  readonly startedAtMs: number;
  readonly stdout: OutputTail;
  readonly stderr: OutputTail;
  /** Never rejects. Once it has resolved, every process left in the command's group has been killed. */
  readonly ended: Promise<{ readonly end: CommandEnd; readonly durationMs: number }>;
  /** Ends the command as cancelled, unless it has ended already. */
  cancel(): void;
}

/** Time a command has to end by itself after SIGTERM, before SIGKILL. */
export const TERMINATION_GRACE_MS = 2_000;
/** Time output may still arrive after the shell has exited: a child it left behind can hold the pipe forever. */
export const DRAIN_MS = 500;

/** Starts a command in a process group of its own, and sees the whole group to its end. */
export function startCommand(spec: CommandSpec, clock: Clock): RunningCommand {
  const startedAtMs = clock.now();
  const stdout = createOutputTail();
  const stderr = createOutputTail();
  const cancelling = new AbortController();
  const ended = supervise(spec, clock, { stdout, stderr, cancelled: cancelling.signal }).then((end) => {
    stdout.end();
    stderr.end();
    return { end, durationMs: clock.now() - startedAtMs };
  });
  return { startedAtMs, stdout, stderr, ended, cancel: () => cancelling.abort() };
}

interface Supervision {
  readonly stdout: OutputTail;
  readonly stderr: OutputTail;
  readonly cancelled: AbortSignal;
}

async function supervise(spec: CommandSpec, clock: Clock, watch: Supervision): Promise<CommandEnd> {
  const started = startProcess(spec);
  if ("reason" in started) return { kind: "not_started", reason: started.reason };
  const { child, stdout, stderr } = started;
  collect(stdout, watch.stdout);
  collect(stderr, watch.stderr);

  const over = new AbortController();
  let isClosed = false;
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => {
      isClosed = true;
      resolve();
    });
  });
  const closedWithin = (ms: number) => Promise.race([closed, clock.sleep(ms, over.signal)]);
  try {
    const end = await Promise.race([
      exitOf(child),
      clock.sleep(spec.timeoutMs, over.signal).then((): CommandEnd => ({ kind: "timed_out" })),
      abortOf(watch.cancelled).then((): CommandEnd => ({ kind: "cancelled" })),
    ]);
    if (end.kind === "not_started") return end;
    if (end.kind === "exited" || end.kind === "signalled") await closedWithin(DRAIN_MS);
    if (!isClosed) {
      signalGroup(child, "SIGTERM");
      await closedWithin(TERMINATION_GRACE_MS);
    }
    // Also after a clean exit: what the command left in the background must not outlive it.
    signalGroup(child, "SIGKILL");
    // A process that left the group is beyond our reach; it may keep the pipe, but not us waiting.
    if (!isClosed) await closedWithin(DRAIN_MS);
    return end;
  } finally {
    over.abort();
    stdout.destroy();
    stderr.destroy();
  }
}

function collect(stream: Readable, tail: OutputTail): void {
  stream.on("data", (bytes: Buffer) => tail.push(bytes));
  // Unheard, a broken pipe would end the whole runtime; the stream's end is all that matters here.
  stream.on("error", () => stream.destroy());
}

type StartedProcess =
  | { readonly child: ChildProcess; readonly stdout: Readable; readonly stderr: Readable }
  | { readonly reason: string };

function startProcess({ program, command, folder, env }: CommandSpec): StartedProcess {
  try {
    const child = spawn(program, ["-c", command], {
      cwd: folder,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    return { child, stdout: child.stdout, stderr: child.stderr };
  } catch (error) {
    // Thrown, not emitted, where an argument can be no argument: a NUL in the command, a list too long.
    return { reason: error instanceof Error ? error.message : String(error) };
  }
}

function exitOf(child: ChildProcess): Promise<CommandEnd> {
  return new Promise((resolve) => {
    child.on("error", (error) => resolve({ kind: "not_started", reason: error.message }));
    child.once("exit", (exitCode, signal) =>
      resolve(exitCode === null ? { kind: "signalled", signal: signal ?? "unknown" } : { kind: "exited", exitCode }),
    );
  });
}

function abortOf(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
