import { asRuntimeError } from "@rkat/core/contract/error";
import type { Runtime } from "@rkat/core/create-runtime";
import type { ActivityRow } from "./chat/activity.ts";
import { counted, createPaint, grouped, type Io, type Output, oneLine, writeWarnings } from "./io.ts";

/** Shorter work shows no line. */
const TICK_MS = 400;

/** Runs long work; on a terminal a line shows its name and duration until it is done. */
export async function whileWaiting<T>(io: Io, words: string | (() => string), work: () => Promise<T>): Promise<T> {
  const { dim } = createPaint(io.stderr, io.env);
  const line = createStatusLine(io);
  const startedMs = Date.now();
  const text = (): string => {
    const seconds = Math.floor((Date.now() - startedMs) / 1_000);
    const doing = typeof words === "string" ? words : words();
    return dim(seconds === 0 ? `${doing}…` : `${doing}… ${seconds} s`);
  };
  const ticking = setInterval(() => line.show(text), TICK_MS);
  try {
    return await work();
  } finally {
    clearInterval(ticking);
    line.clear();
  }
}

/** Counts the sessions that a search indexes first, which may be all of them; `words` says it while one waits. */
export function createIndexCount({ dispatch }: Pick<Runtime, "dispatch">, doing: string) {
  let done = 0;
  /** 0 while it is not known. */
  let all: number | undefined;
  const countAll = async (): Promise<void> => {
    all = 0;
    const { sessions_behind } = await dispatch("readMemoryStatus", {});
    all = done + sessions_behind;
  };
  return {
    indexed: (): void => {
      done += 1;
    },
    words: (): string => {
      // Once, and only if a search takes long: it reads the row of every session.
      if (done > 0 && all === undefined) countAll().catch(() => {});
      return all ? `indexing ${grouped(done)} of ${counted(all, "session")}` : doing;
    },
  };
}

/** Goes back to the beginning of the line and clears it. */
export const CLEAR_LINE = "\r\u001b[K";

/** Whether a line may be redrawn: on a capable terminal, unless plain text was requested. */
function canRedraw({ stderr, env }: Pick<Io, "stderr" | "env">): boolean {
  const isPlain = env.TERM === "dumb" || (env.NO_COLOR !== undefined && env.NO_COLOR !== "");
  return stderr.isTerminal && !isPlain;
}

/** A row on stderr with the current activity, cleared before other output; without a terminal it does nothing. */
export function openActivityRow(given: Io): { readonly io: Io; readonly row: ActivityRow } {
  const { stdout, stderr, env } = given;
  if (!canRedraw(given)) return { io: given, row: { showsAnswers: false, show: () => {} } };
  const { dim } = createPaint(stderr, env);
  let isShown = false;
  // Clearing a row that holds an unfinished line would delete that line, too.
  let isMidLine = false;
  const clear = (): void => {
    if (isShown) stderr.write(CLEAR_LINE);
    isShown = false;
  };
  const above = (output: Output): Output => ({
    isTerminal: output.isTerminal,
    get columns() {
      return output.columns;
    },
    write: (text) => {
      clear();
      output.write(text);
      if (output.isTerminal && text.length > 0)
        isMidLine = typeof text === "string" ? !text.endsWith("\n") : text.at(-1) !== LINE_END;
    },
  });
  return {
    io: { ...given, stdout: above(stdout), stderr: above(stderr) },
    row: {
      showsAnswers: false,
      show: (words, time) => {
        clear();
        if (words === undefined || isMidLine) return;
        const room = (stderr.columns ?? COLUMNS_DEFAULT) - time.length - 4;
        if (room < 1) return;
        isShown = true;
        stderr.write(`${CLEAR_LINE}${oneLine(words, isPlain(words) ? room : Math.ceil(room / 2))} ${dim(time)}`);
      },
    },
  };
}

const LINE_END = 10;
const COLUMNS_DEFAULT = 80;

/** Whether each of its signs takes one cell. */
function isPlain(words: string): boolean {
  return /^.?[\x20-\x7e…]*$/u.test(words);
}

/** Whether the lower rows of the terminal can be redrawn while the user types. */
export function canDraw({ stdin, env }: Io): boolean {
  return stdin.kind === "terminal" && env.TERM !== "dumb" && stdin.terminal().output.isTTY === true;
}

/** A line on a terminal that is redrawn, at most every 100 ms; without a terminal it does nothing. */
function createStatusLine({ stderr, env }: Pick<Io, "stderr" | "env">) {
  const isWelcome = canRedraw({ stderr, env });
  let isShown = false;
  let shownAtMs = 0;
  return {
    show: (text: () => string): void => {
      const nowMs = Date.now();
      if (!isWelcome || nowMs - shownAtMs < PAUSE_MS) return;
      shownAtMs = nowMs;
      isShown = true;
      stderr.write(`${CLEAR_LINE}${text()}`);
    },
    clear: (): void => {
      if (isShown) stderr.write(CLEAR_LINE);
      isShown = false;
    },
  };
}

const PAUSE_MS = 100;
/** Shorter work shows no counter. */
const COUNT_MIN = 64;

/** Counts things named so on stderr. `aside` writes in its place; the next count is shown after that. */
export function createProgress({ stderr, env }: Io, noun: string) {
  const { dim } = createPaint(stderr, env);
  const { show, clear } = createStatusLine({ stderr, env });
  return {
    show: (count: number): void => {
      if (count >= COUNT_MIN) show(() => dim(`${grouped(count)} ${noun}…`));
    },
    aside: (write: () => void): void => {
      clear();
      write();
    },
    clear,
  };
}

/** A progress bar. Without a total it only counts. */
interface Bar {
  show(noun: string, done: number, total: number | undefined): void;
  clear(): void;
}

const BAR_SIGNS = 24;

/** Runs work with a progress bar. If it fails midway, `stays` says what is left; a refused place was not touched. */
export async function withBar<T>(io: Io, work: (bar: Bar) => Promise<T>, stays?: string): Promise<T> {
  const { dim } = createPaint(io.stderr, io.env);
  const line = createStatusLine(io);
  const show: Bar["show"] = (noun, done, total) =>
    line.show(() => {
      if (total === undefined) return dim(`${grouped(done)} ${noun}…`);
      const signs = Math.floor((BAR_SIGNS * done) / Math.max(1, total));
      const bar = `${"█".repeat(signs)}${"░".repeat(BAR_SIGNS - signs)} `;
      return `${bar}${dim(`${grouped(done)} of ${grouped(total)} ${noun}…`)}`;
    });
  try {
    return await work({ show, clear: line.clear });
  } catch (thrown) {
    line.clear();
    if (stays !== undefined && asRuntimeError(thrown).code !== "INVALID_PARAMS") writeWarnings(io, [stays]);
    throw thrown;
  } finally {
    line.clear();
  }
}

export interface LogLines {
  print(line: string): void;
  /** Lines that arrive while something else owns the screen are written after it. */
  heldDuring<T>(work: () => Promise<T>): Promise<T>;
  /** From now on lines are written within this, which makes room for them on the screen. */
  writeWithin(makeRoom: MakeRoom): void;
}

/** Clears what stands where a line would be written, lets it be written, and puts the rest back. */
type MakeRoom = (write: () => void) => void;

/** A line quotes what a provider answered, which may be a page. */
const LINE_CHARS_MAX = 2_000;
const HELD_LINES_MAX = 1_000;

export function createLogLines({ stderr, env }: Io): LogLines {
  const { dim } = createPaint(stderr, env);
  const held: string[] = [];
  let holders = 0;
  let makeRoom: MakeRoom = (write) => write();
  const write = (lines: readonly string[]): void => {
    if (lines.length === 0) return;
    const text = lines.map((line) => `${dim(oneLine(line, LINE_CHARS_MAX))}\n`).join("");
    if (stderr.isTerminal) makeRoom(() => stderr.write(text));
    else stderr.write(text);
  };
  return {
    print: (line) => {
      if (holders === 0) write([line]);
      else if (held.length < HELD_LINES_MAX) held.push(line);
    },
    heldDuring: async (work) => {
      holders += 1;
      try {
        return await work();
      } finally {
        holders -= 1;
        if (holders === 0) write(held.splice(0));
      }
    },
    writeWithin: (room) => {
      makeRoom = room;
    },
  };
}
