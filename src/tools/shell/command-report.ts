import type { CommandEnd, RunningCommand } from "./command.ts";
import type { OutputTail } from "./output-tail.ts";

/** A command as the model is told of it. */
export interface CommandReport {
  /** Null while it runs, and where something ended it from outside. */
  readonly exit_code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly timed_out: boolean;
  readonly duration_secs: number;
  readonly stdout_lossy?: true;
  readonly stderr_lossy?: true;
  /** Only the end of the output is shown. */
  readonly stdout_truncated?: true;
  readonly stderr_truncated?: true;
  readonly stdout_chars_total?: number;
  readonly stderr_chars_total?: number;
  /** The signal that ended it, where it was not ours. */
  readonly signal?: string;
}

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
