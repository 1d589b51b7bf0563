import { RuntimeError } from "../contract/error.ts";
import { failurePolicyFor, type HookEntry } from "../contract/hook.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hook, HookCall } from "../ports/hook.ts";
import { type CommandSpec, type RunningCommand, startCommand } from "./command.ts";
import { childEnv, type Env, isSecret } from "./shell.ts";

export interface HookCommandOptions {
  /** The project's folder, in which commands start. */
  readonly root: string;
  readonly env: Env;
  readonly clock: Clock;
}

export interface HookCommands {
  hook(entry: HookEntry): Hook;
  /** Kills every running command, and refuses new ones. */
  close(): Promise<void>;
}

/** A command with more output is broken. */
const OUTPUT_BYTES_MAX = 1_048_576;
/** The exit code that refuses a step without JSON. */
const REFUSES = 2;
/** The caller keeps the hook's timeout; this covers a call that is never aborted. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;
const SAID_CHARS_MAX = 2_000;

/** Hooks as programs: the call on stdin, the answer on stdout, each one JSON object. */
export function createHookCommands({ root, env, clock }: HookCommandOptions): HookCommands {
  const running = new Set<RunningCommand>();
  let isOpen = true;
  const start = (spec: CommandSpec): RunningCommand => {
    if (!isOpen) throw new RuntimeError("REQUEST_CANCELLED", "the runtime is closing and starts no more commands");
    const command = startCommand(spec, clock);
    running.add(command);
    void command.ended.then(() => running.delete(command));
    return command;
  };
  return {
    hook: (entry) => {
      const { id, point, mode, capability, priority, timeout_ms: timeoutMs, tools, runtime } = entry;
      const failurePolicy = entry.failure_policy ?? failurePolicyFor(capability);
      const run = async (call: HookCall, signal: AbortSignal): Promise<unknown> => {
        const command = start({
          program: runtime.command,
          command: "",
          args: runtime.args ?? [],
          input: `${JSON.stringify(call)}\n`,
          outputBytesMax: OUTPUT_BYTES_MAX,
          folder: root,
          env: childEnv(env, runtime.env ?? {}, isSecret),
          timeoutMs: TIMEOUT_MS_MAX,
        });
        signal.addEventListener("abort", command.cancel, { once: true });
        if (signal.aborted) command.cancel();
        return answerOf(command);
      };
      return { id, point, mode, capability, priority, failurePolicy, timeoutMs, tools, run };
    },
    close: async () => {
      isOpen = false;
      const commands = [...running];
      for (const command of commands) command.cancel();
      await Promise.all(commands.map(({ ended }) => ended));
    },
  };
}

/** Reads a command's answer; throws if there is none. */
async function answerOf({ ended, stdout, stderr }: RunningCommand): Promise<unknown> {
  const { end } = await ended;
  const said = stderr.read().text.trim().slice(-SAID_CHARS_MAX);
  switch (end.kind) {
    case "exited":
      if (end.exitCode === 0) return parse(stdout.read().text);
      if (end.exitCode === REFUSES) return denial(said);
      throw new Error(`its command ended with exit code ${end.exitCode}${said === "" ? "" : `: ${said}`}`);
    case "signalled":
      throw new Error(`its command was ended by ${end.signal}`);
    case "flooded":
      throw new Error(`its command wrote more than ${OUTPUT_BYTES_MAX} bytes and was ended`);
    case "timed_out":
    case "cancelled":
      throw new Error("its command was cancelled");
    case "not_started":
      throw new Error(`its command could not be started: ${end.reason}`);
  }
}

function denial(message: string): unknown {
  const decision = "deny" as const;
  return { decision: { decision, reason_code: "policy_violation", message: message === "" ? "it said no" : message } };
}

function parse(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error("its command's answer is not JSON", { cause });
  }
}
