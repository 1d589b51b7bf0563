import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, readFile, realpath, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kill, env as processEnv } from "node:process";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_JOBS, toolContext } from "../../../../test/support/tool-context.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Clock } from "../ports/clock.ts";
import { DRAIN_MS, TERMINATION_GRACE_MS } from "./command.ts";
import { createShellTools, type ShellOptions, type ShellTools } from "./shell.ts";

/** A clock whose sleeps end only when the test says so: nothing here depends on how fast the machine is. */
function createManualClock() {
  const sleepers = new Set<{ readonly ms: number; readonly wake: () => void }>();
  const clock: Clock = {
    now: () => Date.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        const sleeper = { ms, wake: resolve };
        sleepers.add(sleeper);
        signal.addEventListener("abort", () => {
          sleepers.delete(sleeper);
          resolve();
        });
      }),
    random: () => 0,
    newId: () => randomUUID(),
    yieldToEventLoop: () => undefined,
  };
  /** Waits until someone sleeps for `ms`, then lets the time pass. */
  const pass = (ms: number) =>
    eventually(() => {
      const sleeper = [...sleepers].find((candidate) => candidate.ms === ms);
      if (sleeper === undefined) throw new Error(`nobody sleeps for ${ms} ms`);
      sleepers.delete(sleeper);
      sleeper.wake();
    });
  return { clock, pass };
}

const eventually = <T>(check: () => T | Promise<T>) => vi.waitFor(check, { timeout: 20_000, interval: 5 });

async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  // A zombie is dead; only its parent has not looked yet.
  return stat !== undefined && !/\) [ZX] /.test(stat);
}

async function groupOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const [, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(group);
}

const expectDead = (pid: number) => eventually(async () => expect(await isAlive(pid)).toBe(false));
const DEFAULT_TIMEOUT_MS = 30_000;
const env = { PATH: processEnv.PATH, HOME: "/nowhere" };

let root: string;
let time: ReturnType<typeof createManualClock>;
let shell: ShellTools;

function open(options: Partial<ShellOptions> = {}) {
  shell = createShellTools({ root, clock: time.clock, env, jobs: NO_JOBS, ...options });
}

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "rkat-shell-")));
  time = createManualClock();
  open();
});
afterEach(async () => {
  await shell.close();
  await rm(root, { recursive: true });
});

interface CallOptions {
  readonly signal?: AbortSignal;
  readonly sessionId?: string;
  readonly shellEnv?: Readonly<Record<string, string>>;
}

async function callRaw(name: string, args: JsonObject, options: CallOptions = {}) {
  const tool = shell.tools.find((candidate) => candidate.name === name);
  return tool?.execute(args, toolContext(options));
}
const call = async (name: string, args: JsonObject, options: CallOptions = {}) =>
  JSON.parse(String(await callRaw(name, args, options)));

/** The number a command has written to a file, once it has. */
const numberIn = (file: string) =>
  eventually(async () => {
    const text = await readFile(join(root, file), "utf8");
    if (!text.endsWith("\n")) throw new Error("not written yet");
    return Number(text);
  });

const duration_secs = expect.any(Number);

describe("shell", () => {
  it("answers with exit code, output and duration", async () => {
    expect(await call("shell", { command: "echo out; echo err >&2; exit 3" })).toEqual({
      exit_code: 3,
      stdout: "out\n",
      stderr: "err\n",
      timed_out: false,
      duration_secs,
    });
  });

  it("gives commands an empty input", async () => {
    expect(await call("shell", { command: "cat; echo end" })).toMatchObject({ exit_code: 0, stdout: "end\n" });
  });

  it("uses bash where there is one, and the program it is told to", async () => {
    expect(await call("shell", { command: "echo $BASH_VERSION" })).toMatchObject({
      stdout: expect.stringMatching(/^\d/),
    });
    open({ program: "/bin/echo" });
    expect(await call("shell", { command: "hello" })).toMatchObject({ stdout: "-c hello\n" });
  });

  it("says which signal ended a command", async () => {
    expect(await call("shell", { command: "kill -9 $$" })).toMatchObject({ exit_code: null, signal: "SIGKILL" });
  });

  it("[A5] calls it an error when the command cannot be started", async () => {
    open({ program: "no-such-shell" });
    const missing = await callRaw("shell", { command: "true" });
    expect(missing).toEqual({ content: expect.stringMatching(/could not be started: .*no-such-shell/), isError: true });
    open();
    expect(await callRaw("shell", { command: "echo a\0b" })).toMatchObject({ isError: true });
  });

  it("[H1] runs in a folder of the project and nowhere else", async () => {
    await mkdir(join(root, "sub"));
    await symlink("/", join(root, "out"));
    expect(await call("shell", { command: "pwd" })).toMatchObject({ stdout: `${root}\n` });
    expect(await call("shell", { command: "pwd", working_dir: "sub" })).toMatchObject({
      stdout: `${join(root, "sub")}\n`,
    });
    for (const working_dir of ["..", "/", "out", "out/tmp", "sub/../.."]) {
      await expect(call("shell", { command: "pwd", working_dir })).rejects.toThrow(/outside the project|is absolute/);
    }
    await expect(call("shell", { command: "pwd", working_dir: "none" })).rejects.toThrow("working_dir none is not");
  });

  it("[H3] keeps keys from commands, and hands them what the session was given", async () => {
    const secrets = {
      OPENAI_API_KEY: "k1",
      GITHUB_TOKEN: "k2",
      aws_secret: "k3",
      PGPASSWORD: "k4",
      Db_Password: "k5",
      GITHUB_PAT: "k1",
      DATABASE_URL: "k2",
      OPENAI_APIKEY: "k3",
      STRIPE_KEY_LIVE: "k4",
      NPM_CONFIG__AUTH: "k5",
      SENTRY_DSN: "k1",
      AZURE_CONNECTION_STRING: "k2",
      UPSTREAM: "https://ada:k3@registry.example/npm",
    };
    const plain = {
      TOKENS: "plain",
      KEYBOARD: "de",
      PATTERN: "x",
      SSH_AUTH_SOCK: "/tmp/agent",
      HOMEPAGE: "https://a.example",
    };
    open({ env: { ...env, ...secrets, ...plain } });
    const { stdout } = await call("shell", { command: "env" }, { shellEnv: { SESSION_TOKEN: "given" } });
    const names = stdout.split("\n").map((line: string) => line.split("=")[0]);
    expect(names).toEqual(expect.arrayContaining([...Object.keys(plain), "SESSION_TOKEN", "PATH", "HOME"]));
    expect(names.filter((name: string) => name in secrets)).toEqual([]);
    expect(stdout).not.toMatch(/k[1-5]/);
    expect(stdout).toContain("SESSION_TOKEN=given");
  });

  it("[H5] keeps the last 100 000 characters of a huge output", async () => {
    const result = await call("shell", { command: "yes | head -c 50000000; echo; echo end" });
    expect(result.stdout).toHaveLength(100_000);
    expect(result.stdout.endsWith("y\n\nend\n")).toBe(true);
    expect(result).toMatchObject({ exit_code: 0, stdout_truncated: true, stdout_chars_total: 50_000_005, stderr: "" });
    expect(result).not.toHaveProperty("stdout_lossy");
    expect(result).not.toHaveProperty("stderr_truncated");
  });

  it("says so when output was not UTF-8", async () => {
    const result = await call("shell", { command: "printf 'a\\377b'; printf '\\357\\277\\275' >&2" });
    expect(result).toEqual({
      exit_code: 0,
      stdout: "a\uFFFDb",
      stderr: "\uFFFD",
      timed_out: false,
      duration_secs,
      stdout_lossy: true,
    });
  });

  it("[H5] bounds command and timeout", async () => {
    await expect(call("shell", { command: "x".repeat(100_001) })).rejects.toThrow(/^command: /);
    await expect(call("shell", { command: "true", timeout_secs: 1e9 })).rejects.toThrow(/^timeout_secs: /);
    await expect(call("shell", { command: "true", timeout_secs: 0 })).rejects.toThrow(/^timeout_secs: /);
  });
});

describe("a command that does not end", () => {
  it("[A5] is terminated at its timeout, with what it wrote", async () => {
    const result = call("shell", { command: "echo begun; echo $$ > pid; sleep 1000", timeout_secs: 7 });
    const pid = await numberIn("pid");
    await time.pass(7_000);
    expect(await result).toEqual({ exit_code: null, stdout: "begun\n", stderr: "", timed_out: true, duration_secs });
    await expectDead(pid);
  });

  it("[A5] is given the configured time where the model does not say", async () => {
    open({ timeoutSecs: 11 });
    const result = call("shell", { command: "sleep 1000" });
    await time.pass(11_000);
    expect(await result).toMatchObject({ timed_out: true });
  });

  it("[A5] is killed when it goes on after SIGTERM, and its children with it", async () => {
    const child = "(trap '' TERM; echo $BASHPID > child; while :; do sleep 1; done) &";
    const command = `trap 'echo 1 > terminated' TERM; ${child} echo $$ > pid; while :; do wait; done`;
    const result = call("shell", { command });
    const pids = [await numberIn("pid"), await numberIn("child")];
    await time.pass(DEFAULT_TIMEOUT_MS);
    await numberIn("terminated");
    for (const pid of pids) expect(await isAlive(pid)).toBe(true);
    await time.pass(TERMINATION_GRACE_MS);
    expect(await result).toMatchObject({ exit_code: null, timed_out: true });
    for (const pid of pids) await expectDead(pid);
  });

  it("[A5] is killed when the call is aborted", async () => {
    const turn = new AbortController();
    const result = call(
      "shell",
      { command: "sleep 1000 & echo $! > child; echo $$ > pid; wait" },
      { signal: turn.signal },
    );
    const pids = [await numberIn("child"), await numberIn("pid")];
    turn.abort();
    await expect(result).rejects.toThrow("the command was interrupted and killed");
    for (const pid of pids) await expectDead(pid);
    const late = call("shell", { command: "touch late" }, { signal: turn.signal });
    await expect(late).rejects.toThrow("interrupted before it started");
  });
});

describe("a process that outlives its command", () => {
  it("[A5] is killed when it has let go of the output", async () => {
    const command =
      "(trap '' TERM HUP; echo $BASHPID > child; exec sleep 1000) >/dev/null 2>&1 & until [ -s child ]; do :; done";
    expect(await call("shell", { command })).toMatchObject({ exit_code: 0 });
    await expectDead(await numberIn("child"));
  });

  it("[A5] is killed when it holds the output, which is kept", async () => {
    const result = call("shell", { command: "sleep 1000 & echo $! > child; echo done" });
    const pid = await numberIn("child");
    await time.pass(DRAIN_MS);
    expect(await result).toMatchObject({ exit_code: 0, stdout: "done\n", timed_out: false });
    await expectDead(pid);
  });

  it("[A5] does not keep the call waiting when it has left the process group", async () => {
    const result = call("shell", { command: "setsid sleep 1000 & echo $! > child; echo done" });
    const pid = await numberIn("child");
    // On a busy machine it has not left yet, and would end with its group.
    await eventually(async () => expect(await groupOf(pid)).toBe(pid));
    await time.pass(DRAIN_MS);
    await time.pass(TERMINATION_GRACE_MS);
    await time.pass(DRAIN_MS);
    expect(await result).toMatchObject({ exit_code: 0, stdout: "done\n" });
    kill(pid, "SIGKILL");
  });
});

describe("closing", () => {
  it("kills everything that runs, starts nothing more, and may be repeated", async () => {
    const foreground = call("shell", { command: "echo $$ > front; sleep 1000" });
    const interrupted = expect(foreground).rejects.toThrow("the command was interrupted and killed");
    const pid = await numberIn("front");
    await Promise.all([shell.close(), shell.close()]);
    await interrupted;
    await expectDead(pid);
    await expect(call("shell", { command: "true" })).rejects.toThrow("the runtime is closing");
    await shell.close();
  });
});
