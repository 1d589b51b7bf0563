import { spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { RuntimeError } from "../../contract/error.ts";

/** What is started, and with what. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** What it is called where it is spoken of. */
  readonly name: string;
}

interface Surroundings {
  readonly cwd?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Told what it writes on stderr, a line at a time. */
  readonly log: (line: string) => void;
}

export interface CommandServer {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves, once it has ended, with how: a sentence with its exit code and what it said last. */
  readonly ended: Promise<string>;
  /** Ends its input, asks it to end, and kills it when it does not. Calling it twice does no harm. */
  stop(): Promise<void>;
}

/** How long it may take to end; its turns are interrupted and kept meanwhile. */
const KILL_AFTER_MS = 5_000;

/** Starts a server; throws INVALID_PARAMS for what cannot be started. */
export async function openCommandServer(command: Command, around: Surroundings): Promise<CommandServer> {
  const { cwd, env, log } = around;
  const child = spawn(command.file, command.args, { stdio: "pipe", env, ...(cwd === undefined ? {} : { cwd }) });
  const said = lastLines(child.stderr, log);
  const ended = new Promise<string>((resolve) => {
    child.once("close", (code, signal) => {
      const how = signal === null ? `ended with exit code ${code}` : `was killed by ${signal}`;
      const words = said();
      resolve(words === "" ? `${command.name} ${how}` : `${command.name} ${how} and said: ${words}`);
    });
  });
  child.stdin.on("error", () => {}); // Nobody reads there any more; how it ended is told by `ended`.
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (cause: NodeJS.ErrnoException) => reject(notStarted(command, cwd, cause)));
  });
  child.on("error", () => {}); // Such as a signal that comes too late.
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    child.stdin.end();
    child.kill("SIGTERM");
    const killing = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS);
    await ended;
    clearTimeout(killing);
  };
  return {
    input: child.stdin,
    output: child.stdout,
    ended,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such command",
  EACCES: "it may not be run",
  ENOTDIR: "there is no such command",
};

function notStarted({ file }: Command, cwd: string | undefined, cause: NodeJS.ErrnoException): RuntimeError {
  const where = cwd === undefined ? "" : ` in ${cwd}`;
  const why = FAULTS[cause.code ?? ""] ?? cause.message;
  return new RuntimeError("INVALID_PARAMS", `command: cannot start ${file}${where}: ${why}`, { cause });
}

const LINES_KEPT = 5;
const LINE_CHARS_MAX = 1_000;

/** Hands on each line, and keeps the last few: they are what explains a server that ends. */
function lastLines(stderr: Readable, log: (line: string) => void): () => string {
  let kept: string[] = [];
  let rest = "";
  const take = (line: string): void => {
    if (line.trim() === "") return;
    kept = [...kept, line.slice(0, LINE_CHARS_MAX)].slice(-LINES_KEPT);
    log(line);
  };
  stderr.setEncoding("utf8");
  stderr.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = (lines.pop() ?? "").slice(0, LINE_CHARS_MAX);
    for (const line of lines) take(line);
  });
  stderr.on("end", () => take(rest));
  return () => kept.join(" / ");
}
