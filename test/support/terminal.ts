import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, it, onTestFinished, vi } from "vitest";
import { type ControlledModel, WAIT_MS_MAX } from "./controlled-model.ts";
import { findProgram } from "./find-program.ts";

const CLI = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");
const tmuxPath = findProgram(["tmux"]);
// There it must be: tests that leave themselves out would be taken for tests that pass.
if (tmuxPath === undefined && process.env.CI === "true") throw new Error("no terminal: tmux is not in PATH");

/** Tests in a real terminal: left out, with the reason in their name, where there is no tmux. */
export function withTerminal(name: string, tests: () => void): void {
  if (tmuxPath !== undefined) describe(name, tests);
  else describe(`${name} (left out: tmux is not in PATH)`, () => it.skip("needs tmux", () => {}));
}

interface TerminalOptions {
  readonly columns?: number;
  readonly rows?: number;
  /** Whom sessions ask; without it, the model that is built in. */
  readonly model?: ControlledModel;
  /** Lines of ~/.rkat/config.toml after those that name the model. */
  readonly config?: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface ScreenOptions {
  /** Rows that the terminal itself wrapped are one line again. */
  readonly isJoined?: boolean;
  /** With what has scrolled away. */
  readonly isWhole?: boolean;
  /** With colours, as escape sequences. */
  readonly hasEscapes?: boolean;
}

/** A window of a terminal with a command in it. */
export interface Terminal {
  /** The folder that the command runs in. */
  readonly folder: string;
  /** Types a text, which has no names of keys. */
  type(text: string): Promise<void>;
  /** Presses keys by their names, such as `Enter`, `C-c`, `Left`, `BSpace`. */
  press(...names: readonly string[]): Promise<void>;
  /** Types a line and sends it. */
  enter(line: string): Promise<void>;
  /** Pastes as people do, with the marks that a program may have asked for. */
  paste(text: string): Promise<void>;
  resize(columns: number, rows: number): Promise<void>;
  screen(options?: ScreenOptions): Promise<string>;
  /** Waits until a text is on the screen, joined and whole, and returns what is there then. */
  until(wanted: string | RegExp | ((screen: string) => boolean)): Promise<string>;
  /** A value of tmux's formats, such as `pane_title`. */
  value(name: string): Promise<string>;
  /** Sends a signal to the rkat that was started last. */
  signal(name: NodeJS.Signals): Promise<void>;
  /** Waits until the command has ended, and returns its exit code. */
  exit(): Promise<number>;
  /** After the command has ended: what it left of the terminal that the next one would stumble over. */
  leftovers(): Promise<readonly string[]>;
  /** Runs a command of tmux. */
  tmux(...args: readonly string[]): Promise<string>;
}

const HISTORY_LINES_MAX = 50_000;

/** Runs the command and says on the screen how it ended; from then on the terminal echoes what comes. */
const PANE = `trap : INT
"$@"
code=$?
stty -a >"$HOME/modes"
stty sane
echo "[exit $code]"
while :; do cat >"$HOME/typed"; done
`;

/** Opens a terminal of its own with a command in it, such as `["rkat", "chat"]`; it ends with the test. */
export async function openTerminal(command: readonly string[], options: TerminalOptions = {}): Promise<Terminal> {
  const { columns = 80, rows = 24, model, config = "", env = {} } = options;
  const home = await mkdtemp(join(tmpdir(), "rkat-terminal-"));
  const folder = join(home, "project");
  const socket = join(home, "tmux");
  await mkdir(folder);
  await mkdir(join(home, ".rkat"));
  await mkdir(join(home, "bin"));
  await writeFile(join(home, ".rkat/config.toml"), `${modelConfig(model)}\n${config}\n`);
  await writeFile(join(home, "pane"), PANE);
  const rkat = `#!/bin/sh\necho $$ >"$HOME/pid"\nexec "${process.execPath}" "${CLI}" "$@"\n`;
  await writeFile(join(home, "bin/rkat"), rkat, { mode: 0o755 });

  const path = [join(home, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter);
  const clean = { PATH: path, HOME: home, LC_ALL: "C.UTF-8", TERM: "tmux-256color", SHELL: "/bin/sh", ...env };
  const run = (args: readonly string[], input?: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const child = execFile(
        tmuxPath ?? "tmux",
        ["-S", socket, "-f", "/dev/null", ...args],
        { cwd: folder, env: clean, maxBuffer: 64 * 1024 * 1024 },
        (error, stdout) => (error === null ? resolve(stdout) : reject(error)),
      );
      child.stdin?.on("error", () => {}); // A command that takes no input closes it early.
      child.stdin?.end(input);
    });
  const tmux = (...args: readonly string[]): Promise<string> => run(args);
  const screen = async ({ isJoined = false, isWhole = false, hasEscapes = false }: ScreenOptions = {}) => {
    const flags = [isJoined ? ["-J"] : [], isWhole ? ["-S", "-"] : [], hasEscapes ? ["-e"] : []].flat();
    const text = await tmux("capture-pane", "-p", ...flags);
    return text.replace(/ +$/gm, "").trimEnd();
  };
  onTestFinished(async ({ task }) => {
    if (task.result?.state === "fail") {
      const last = await screen({ isWhole: true }).catch(() => "gone");
      process.stderr.write(`the screen when it failed: ${task.name}\n${last}\n`);
    }
    await tmux("kill-server").catch(() => {});
    await rm(home, { recursive: true, force: true, maxRetries: 20 });
  });

  await run([
    ...["start-server", ";", "set", "-g", "history-limit", String(HISTORY_LINES_MAX)],
    ...[";", "set", "-g", "status", "off", ";", "set", "-g", "default-terminal", "tmux-256color"],
    // What a program could do to the person at the terminal is let through, so that it is seen.
    ...[";", "set", "-g", "set-clipboard", "on", ";", "set", "-g", "allow-passthrough", "on"],
    ...[";", "set", "-g", "allow-rename", "on", ";", "set", "-g", "automatic-rename", "off"],
    ...[";", "new-session", "-d", "-x", String(columns), "-y", String(rows), "sh", join(home, "pane"), ...command],
  ]);

  const type = async (text: string): Promise<void> => {
    // A semicolon at the end would be taken for that of tmux's own commands.
    await tmux("send-keys", "-l", "--", text.replace(/;$/, "\\;"));
  };
  const press = async (...names: readonly string[]): Promise<void> => {
    await tmux("send-keys", ...names);
  };
  const until: Terminal["until"] = async (wanted) => {
    const isThere =
      typeof wanted === "function"
        ? wanted
        : (text: string) => (typeof wanted === "string" ? text.includes(wanted) : wanted.test(text));
    const look = async (): Promise<string> => {
      const text = await screen({ isJoined: true, isWhole: true });
      if (!isThere(text)) throw new Error(`${wanted} is not on the screen:\n${text}`);
      return text;
    };
    return vi.waitFor(look, { timeout: WAIT_MS_MAX, interval: 20 });
  };
  const paste = async (text: string): Promise<void> => {
    await run(["load-buffer", "-b", "pasted", "-"], text);
    await tmux("paste-buffer", "-p", "-d", "-b", "pasted");
  };
  const value = async (name: string): Promise<string> => (await tmux("display-message", "-p", `#{${name}}`)).trim();
  return {
    folder,
    type,
    press,
    enter: async (line) => {
      await type(line);
      await press("Enter");
    },
    paste,
    resize: async (width, height) => {
      await tmux("resize-window", "-x", String(width), "-y", String(height));
      // The program is told later.
      const tty = await value("pane_tty");
      await vi.waitFor(async () => {
        const { stdout } = await promisify(execFile)("stty", ["-F", tty, "size"]);
        if (stdout.trim() !== `${height} ${width}`) throw new Error(`the program is told of ${stdout}`);
      }, WAIT_MS_MAX);
    },
    screen,
    until,
    value,
    signal: async (name) => {
      process.kill(Number(await readFile(join(home, "pid"), "utf8")), name);
    },
    exit: async () => Number(/\[exit (\d+)\]/.exec(await until(/\[exit \d+\]/))?.[1]),
    leftovers: async () => {
      const modes = (await readFile(join(home, "modes"), "utf8")).split(/[\s;]+/);
      const off = ["icanon", "echo", "isig", "icrnl", "opost"].filter((mode) => !modes.includes(mode));
      await paste("pasted afterwards");
      const text = await until("pasted afterwards");
      const marks = text.includes("[200~") ? ["marks around pastes"] : [];
      const flags = ["alternate_on", "mouse_any_flag", "keypad_cursor_flag", "insert_flag"];
      const values = await Promise.all(flags.map(async (flag) => ((await value(flag)) === "1" ? [flag] : [])));
      const cursor = (await value("cursor_flag")) === "1" ? [] : ["no cursor"];
      return [...off.map((mode) => `no ${mode}`), ...marks, ...values.flat(), ...cursor];
    },
    tmux,
  };
}

function modelConfig(model: ControlledModel | undefined): string {
  const features = 'features = ["session-store", "session-compaction"]';
  if (model === undefined) return `${features}\n[agent]\nmodel = "offline"`;
  return `${features}\n[agent]\nmodel = "local/told"\n[self_hosted.servers.local]\nbase_url = "${model.baseUrl}"`;
}

/** No turn runs any more, and all is drawn: how things stand comes last. */
export const IS_OVER = (screen: string): boolean =>
  !screen.includes("Ctrl-C stops") && /^local\/told\b.*$/.test(screen.trimEnd().split("\n").at(-1) ?? "");

/** What stands where the next prompt is typed: before it is there, keys mean something else. */
export const EMPTY_PROMPT = /^> ?$/m;

interface ChatOptions extends TerminalOptions {
  readonly model: ControlledModel;
  readonly args?: readonly string[];
}

/** Opens a terminal with a chat in it that waits for the first prompt. */
export async function openChat({ args = [], ...options }: ChatOptions): Promise<Terminal> {
  const terminal = await openTerminal(["rkat", "chat", ...args], options);
  await terminal.until(EMPTY_PROMPT);
  return terminal;
}
