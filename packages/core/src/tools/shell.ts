import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { invalid, RuntimeError } from "../contract/error.ts";
import { z } from "../contract/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionJobs } from "../ports/jobs.ts";
import type { Tool, ToolOutput } from "../ports/tool.ts";
import {
  type CommandEnd,
  type CommandSpec,
  DRAIN_MS,
  OUTPUT_CHARS_MAX,
  type RunningCommand,
  reportCommand,
  startCommand,
  TERMINATION_GRACE_MS,
} from "./command.ts";
import { defineTool } from "./define-tool.ts";
import { resolveInProject } from "./project-path.ts";

// The kernel accepts 131 072 bytes in one argument.
const COMMAND_CHARS_MAX = 100_000;
const TIMEOUT_SECS_DEFAULT = 30;
const TIMEOUT_SECS_MAX = 86_400;

export interface ShellOptions {
  /** The project's folder: commands start here, and `working_dir` cannot leave it. */
  readonly root: string;
  readonly clock: Clock;
  /** Called as `program -c command`; defaults to bash, else sh. */
  readonly program?: string | undefined;
  /** The environment of commands, without its secrets. */
  readonly env: Env;
  /** Which variables of `env` are withheld from commands. */
  readonly secretsFilter?: ((name: string, value: string) => boolean) | undefined;
  /** The default timeout of a command; 30 unless given. */
  readonly timeoutSecs?: number | undefined;
  /** Sessions are created after their tools. */
  readonly jobs: () => SessionJobs;
}

export interface ShellTools {
  readonly tools: readonly Tool[];
  /** Kills every command that a call waits for, and refuses new ones. */
  close(): Promise<void>;
}

const jobId = z.string().min(1).max(100);

const shellInput = (timeoutSecsDefault: number) =>
  z.strictObject({
    command: z.string().min(1).max(COMMAND_CHARS_MAX).describe("The command line to run"),
    working_dir: z
      .string()
      .min(1)
      .optional()
      .describe("Folder to run it in, relative to the project; the project itself unless given"),
    timeout_secs: z
      .number()
      .positive()
      .max(TIMEOUT_SECS_MAX)
      .default(Math.min(timeoutSecsDefault, TIMEOUT_SECS_MAX))
      .describe("Seconds after which the command and all it started are killed, also in the background"),
    background: z.boolean().default(false).describe("Answer at once with a job_id and let the command run on"),
    notify: z
      .enum(["notice", "turn"])
      .default("notice")
      .describe("At the end of a background command: add a notice to your context, or begin a turn with it"),
  });
const NoInput = z.strictObject({});
const OneJob = z.strictObject({ job_id: jobId.describe("The job_id that shell answered with") });

export function createShellTools(options: ShellOptions): ShellTools {
  const { clock, jobs } = options;
  const running = new Set<RunningCommand>();
  let isOpen = true;
  let program: Promise<string> | undefined;

  const start = (spec: CommandSpec): RunningCommand => {
    if (!isOpen) throw new RuntimeError("REQUEST_CANCELLED", "the runtime is closing and starts no more commands");
    const command = startCommand(spec, clock);
    running.add(command);
    void command.ended.then(() => running.delete(command));
    return command;
  };

  const shell = defineTool({
    name: "shell",
    description: `Run a command line in the project and wait for it, or, with background, let it run on as a job. Answers with exit_code and the last ${OUTPUT_CHARS_MAX} characters of stdout and stderr. There is no input and no terminal. Processes that the command leaves behind are killed when it ends.`,
    input: shellInput(options.timeoutSecs ?? TIMEOUT_SECS_DEFAULT),
    // The command's own timeout decides; this covers the killing that follows.
    timeoutMs: TIMEOUT_SECS_MAX * 1_000 + TERMINATION_GRACE_MS + 2 * DRAIN_MS + 10_000,
    run: async (input, { sessionId, signal, shellEnv }) => {
      program ??= options.program === undefined ? findShell(options.env) : Promise.resolve(options.program);
      const spec = {
        program: await program,
        command: input.command,
        folder: await resolveFolder(options.root, input.working_dir ?? "."),
        env: childEnv(options.env, shellEnv, options.secretsFilter ?? isSecret),
        timeoutMs: input.timeout_secs * 1_000,
      };
      if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the command was interrupted before it started");
      if (!input.background) {
        if (input.notify === "turn") throw invalid("notify: it is for a command with background; leave it out");
        return runToEnd(start(spec), signal);
      }
      const job_id = await jobs().start(sessionId, { ...spec, beginsTurn: input.notify === "turn" });
      const message = `started in the background; shell_job_status with job_id ${job_id} reports its state, and its end is announced`;
      return JSON.stringify({ job_id, status: "running", message });
    },
  });

  return {
    tools: [shell, ...createJobTools(jobs)],
    close: async () => {
      isOpen = false;
      const commands = [...running];
      for (const command of commands) command.cancel();
      await Promise.all(commands.map((command) => command.ended));
    },
  };
}

function createJobTools(jobs: () => SessionJobs): readonly Tool[] {
  return [
    defineTool({
      name: "shell_jobs",
      effects: "none",
      description: "List the background jobs of this session, oldest first.",
      input: NoInput,
      run: async (_input, { sessionId }) => JSON.stringify(await jobs().list(sessionId)),
    }),
    defineTool({
      name: "shell_job_status",
      effects: "none",
      description: "Read how a background job goes: its status, output so far and, once it has ended, exit_code.",
      input: OneJob,
      run: async ({ job_id }, { sessionId }) => JSON.stringify(await jobs().report(sessionId, job_id)),
    }),
    defineTool({
      name: "shell_job_cancel",
      description: "Kill a running background job and everything it started.",
      input: OneJob,
      run: async ({ job_id }, { sessionId }) => {
        await jobs().cancel(sessionId, job_id);
        return JSON.stringify({ job_id, status: "cancelled" });
      },
    }),
  ];
}

async function runToEnd(command: RunningCommand, signal: AbortSignal): Promise<ToolOutput> {
  signal.addEventListener("abort", command.cancel, { once: true });
  const { end, durationMs } = await command.ended;
  signal.removeEventListener("abort", command.cancel);
  switch (end.kind) {
    case "exited":
    case "signalled":
    case "timed_out":
    case "flooded":
      return JSON.stringify(reportCommand(command, end, durationMs));
    case "cancelled":
      throw new RuntimeError("REQUEST_CANCELLED", "the command was interrupted and killed");
    case "not_started":
      return { content: `the command could not be started: ${end.reason}`, isError: true };
  }
}

export interface OwnCommand extends Pick<ShellOptions, "root" | "env" | "clock"> {
  readonly command: string;
  readonly signal: AbortSignal;
  onOutput(bytes: Uint8Array, from: "stdout" | "stderr"): void;
}

/** Runs a command that the user typed, with the full environment and no timeout. */
export async function runOwnCommand({ command, root, env, clock, signal, onOutput }: OwnCommand): Promise<CommandEnd> {
  const program = await findShell(env);
  const whole = childEnv(env, {}, () => false);
  const timeoutMs = Number.POSITIVE_INFINITY;
  const running = startCommand({ program, command, folder: root, env: whole, timeoutMs, onOutput }, clock);
  signal.addEventListener("abort", running.cancel, { once: true });
  if (signal.aborted) running.cancel();
  const { end } = await running.ended;
  signal.removeEventListener("abort", running.cancel);
  return end;
}

async function resolveFolder(root: string, workingDir: string): Promise<string> {
  const folder = await resolveInProject(root, workingDir);
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory()) return folder;
  throw invalid(`working_dir ${workingDir} is not a folder of the project`);
}

async function findShell(env: Env): Promise<string> {
  for (const folder of (env.PATH ?? "/usr/local/bin:/usr/bin:/bin").split(delimiter)) {
    const bash = join(folder, "bash");
    const isThere = await access(bash, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return bash;
  }
  return "sh";
}

export type Env = Readonly<Record<string, string | undefined>>;

/** Names of secret variables; some have a suffix: `STRIPE_KEY_LIVE`. */
const SECRET_NAME =
  /(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEYS?|OTLP(?:_[A-Z]+)?_HEADERS)(?:_[A-Z0-9]+)?$|(?:^|_)(?:KEY|PAT|DSN)(?:_[A-Z0-9]+)?$|_(?:PASS|PWD|AUTH)$|^(?:.+_)?(?:DATABASE|DB|MONGO(?:DB)?|REDIS|POSTGRES(?:QL)?|PG|MYSQL|AMQP|BROKER|CLOUDAMQP)_UR[IL]$|CONNECTION_STRING$/i;
const NO_SECRET = /_PUBLIC_KEY$/i;
/** An address with a password: `postgres://app:hunter2@db/app`. */
const HOLDS_PASSWORD = /:\/\/[^\s/:@]{0,100}:([^\s/@]{1,200})@/;

const isSecretName = (name: string): boolean => SECRET_NAME.test(name) && !NO_SECRET.test(name);

/** Whether a variable is secret, by its name or its value. */
export const isSecret = (name: string, value: string): boolean => isSecretName(name) || HOLDS_PASSWORD.test(value);

export function secretsIn(env: Env): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined || !isSecret(name, value)) return [];
    const password = HOLDS_PASSWORD.exec(value)?.[1];
    return password === undefined ? [value] : [value, password];
  });
}

/** A command's environment: the runtime's without its secrets, plus the session's own variables. */
export function childEnv(
  env: Env,
  shellEnv: Readonly<Record<string, string>>,
  isKept: (name: string, value: string) => boolean,
): Readonly<Record<string, string>> {
  const open = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !isKept(entry[0], entry[1]),
  );
  return { ...Object.fromEntries(open), ...shellEnv };
}
