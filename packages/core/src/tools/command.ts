import { type ChildProcess, spawn } from "node:child_process";
import { kill } from "node:process";
import type { Readable } from "node:stream";
import { TextDecoder } from "node:util";
import type { CommandReport } from "../contract/entry.ts";
import type { Clock } from "../ports/clock.ts";

export interface CommandSpec {
  readonly program: string;
  /** A shell command line, or a program that is started with `args`. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Stdin; without it there is none. */
  readonly input?: string;
  /** The command is killed when either output exceeds this; without it there is no limit. */
  readonly outputBytesMax?: number;
  /** Receives both outputs as they come. */
  onOutput?(bytes: Uint8Array, from: "stdout" | "stderr"): void;
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

export type CommandEnd =
  | { readonly kind: "exited"; readonly exitCode: number }
  | { readonly kind: "signalled"; readonly signal: string }
  | { readonly kind: "timed_out" }
  | { readonly kind: "cancelled" }
  | { readonly kind: "flooded" }
  | { readonly kind: "not_started"; readonly reason: string };

export interface RunningCommand {
  readonly startedAtMs: number;
  readonly stdout: OutputTail;
  readonly stderr: OutputTail;
  /** Never rejects. When it resolves, every process of the command's group has been killed. */
  readonly ended: Promise<{ readonly end: CommandEnd; readonly durationMs: number }>;
  /** Cancels the command, unless it has ended. */
  cancel(): void;
}

/** Time between SIGTERM and SIGKILL. */
export const TERMINATION_GRACE_MS = 2_000;
/** Time for remaining output after the shell has exited: a child may hold the pipe forever. */
export const DRAIN_MS = 500;

/** Starts a command in its own process group, and waits until the whole group has ended. */
export function startCommand(spec: CommandSpec, clock: Clock): RunningCommand {
  const startedAtMs = clock.now();
  // Bounded output is kept whole: the end of an answer can look like another one.
  const stdout = createOutputTail(spec.outputBytesMax);
  const stderr = createOutputTail(spec.outputBytesMax);
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
  const flooded = Promise.withResolvers<CommandEnd>();
  const flood = (): void => flooded.resolve({ kind: "flooded" });
  collect(stdout, watch.stdout, { bytesMax: spec.outputBytesMax, flood });
  collect(stderr, watch.stderr, { bytesMax: spec.outputBytesMax, flood });
  stdout.on("data", (bytes: Buffer) => spec.onOutput?.(bytes, "stdout"));
  stderr.on("data", (bytes: Buffer) => spec.onOutput?.(bytes, "stderr"));
  feed(child, spec.input);

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
      flooded.promise,
    ]);
    if (end.kind === "not_started") return end;
    if (end.kind === "exited" || end.kind === "signalled") await closedWithin(DRAIN_MS);
    if (!isClosed) {
      signalGroup(child, "SIGTERM");
      await closedWithin(TERMINATION_GRACE_MS);
    }
    // Also after a clean exit: background processes must not outlive the command.
    signalGroup(child, "SIGKILL");
    // A process that left the group may keep the pipe, but must not block us.
    if (!isClosed) await closedWithin(DRAIN_MS);
    return end;
  } finally {
    over.abort();
    stdout.destroy();
    stderr.destroy();
  }
}

function collect(
  stream: Readable,
  tail: OutputTail,
  { bytesMax = Number.POSITIVE_INFINITY, flood }: { readonly bytesMax: number | undefined; readonly flood: () => void },
): void {
  let bytesTotal = 0;
  stream.on("data", (bytes: Buffer) => {
    bytesTotal += bytes.length;
    if (bytesTotal > bytesMax) flood();
    tail.push(bytes);
  });
  // Without a listener a broken pipe would crash the runtime; only the stream's end matters.
  stream.on("error", () => stream.destroy());
}

/** A command may ignore its input. */
function feed({ stdin }: ChildProcess, input: string | undefined): void {
  if (stdin === null || input === undefined) return;
  stdin.on("error", () => {});
  stdin.end(input);
}

type StartedProcess =
  | { readonly child: ChildProcess; readonly stdout: Readable; readonly stderr: Readable }
  | { readonly reason: string };

function startProcess({ program, command, args, input, folder, env }: CommandSpec): StartedProcess {
  try {
    const child = spawn(program, args ?? ["-c", command], {
      cwd: folder,
      env,
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      detached: true,
    });
    const { stdout, stderr } = child;
    if (stdout === null || stderr === null) return { reason: "its output cannot be read" };
    return { child, stdout, stderr };
  } catch (error) {
    // Invalid arguments throw instead of emitting: a NUL in the command, a list too long.
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

/** Characters kept of each output stream: the end, where a command reports its result. */
export const OUTPUT_CHARS_MAX = 100_000;

export interface OutputTail {
  push(bytes: Uint8Array): void;
  /** Call once, after the last byte. */
  end(): void;
  read(): {
    readonly text: string;
    /** Whether bytes that are not UTF-8 were replaced. */
    readonly isLossy: boolean;
    readonly charsTotal: number;
  };
}

/** Keeps the end of a stream in bounded memory. */
export function createOutputTail(charsMax = OUTPUT_CHARS_MAX): OutputTail {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  // A second decoder detects invalid bytes: a replacement character may also be in the output itself.
  const judge = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let isLossy = false;
  let kept = "";
  let charsTotal = 0;

  const accept = (bytes: Uint8Array | undefined) => {
    const streaming = { stream: bytes !== undefined };
    isLossy ||= !isValid(judge, bytes, streaming);
    const text = decoder.decode(bytes, streaming);
    charsTotal += text.length;
    kept += text;
    // Cut at twice the bound: cutting at each push would copy the tail for every small write.
    if (kept.length > 2 * charsMax) kept = tailOf(kept, charsMax);
  };

  return {
    push: accept,
    end: () => accept(undefined),
    read: () => ({ text: tailOf(kept, charsMax), isLossy, charsTotal }),
  };
}

function isValid(judge: TextDecoder, bytes: Uint8Array | undefined, streaming: { readonly stream: boolean }): boolean {
  try {
    judge.decode(bytes, streaming);
    return true;
  } catch {
    return false;
  }
}

function tailOf(text: string, charsMax: number): string {
  // Drop half of a surrogate pair.
  return text.slice(-charsMax).replace(/^[\uDC00-\uDFFF]/, "");
}

/** Signals a detached child and everything in its group. */
export function signalGroup({ pid }: { readonly pid?: number | undefined }, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    kill(-pid, signal);
  } catch (error) {
    // An empty group is the goal; macOS reports EPERM for a group of zombies.
    const isGone = error instanceof Error && "code" in error && (error.code === "ESRCH" || error.code === "EPERM");
    if (!isGone) throw error;
  }
}

/** A command's result for the model. */
export function reportCommand(
  { stdout, stderr }: Pick<RunningCommand, "stdout" | "stderr">,
  end: CommandEnd | undefined,
  durationMs: number,
): CommandReport {
  const out = reportOutput(stdout);
  const err = reportOutput(stderr);
  return {
    exit_code: end?.kind === "exited" ? end.exitCode : null,
    stdout: out.text,
    stderr: err.text,
    timed_out: end?.kind === "timed_out",
    duration_secs: durationMs / 1_000,
    ...(out.isLossy ? { stdout_lossy: true } : {}),
    ...(err.isLossy ? { stderr_lossy: true } : {}),
    ...(out.isCut ? { stdout_truncated: true, stdout_chars_total: out.charsTotal } : {}),
    ...(err.isCut ? { stderr_truncated: true, stderr_chars_total: err.charsTotal } : {}),
    ...(end?.kind === "signalled" ? { signal: end.signal } : {}),
  };
}

function reportOutput(tail: OutputTail) {
  const output = tail.read();
  return { ...output, isCut: output.text.length < output.charsTotal };
}
