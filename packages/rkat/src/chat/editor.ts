import { withoutControls } from "@rkat/core/text/terminal-text";
import { createPaint, oneLine, type Paint } from "../io.ts";
import type { Candidate } from "../prompts.ts";
import type { Question } from "./ask-person.ts";
import { type Key, type Keys, type Mode, openKeys } from "./keys.ts";
import { createLineBuffer, type LineBuffer, type Motion } from "./line-buffer.ts";
import { createAnswerMode, createListMode } from "./list-mode.ts";
import { createPast } from "./past-prompts.ts";
import type { Picker } from "./picker.ts";
import { fitted, type Screen } from "./screen.ts";
import { cellsOf } from "./wrapped-text.ts";

interface Completion {
  /** Where in what stands before the cursor the word begins. */
  readonly from: number;
  readonly candidates: readonly Candidate[];
}

export interface EditorHost {
  /** A whole prompt was typed; `shown` is how it looked. */
  prompt(text: string, shown: string): void;
  /** Ctrl-C, or Esc while something runs; `isIdle` when there was nothing typed that it could have been meant for. */
  interrupt(isIdle: boolean): void;
  /** Ctrl-D, or the terminal was closed. */
  end(): void;
  /** Whether a turn runs, which Esc would stop. */
  isRunning(): boolean;
  /** What was typed before, the newest first. */
  history(): Promise<readonly string[]>;
  complete(before: string): Promise<Completion>;
  /** The completions of the typed text, shown below it. */
  hints(typed: string): readonly Candidate[];
  /** Lets a text be changed in a program of its own; undefined where that failed. */
  editElsewhere(text: string): Promise<string | undefined>;
}

/** The input line of a terminal that other output is written to as well. */
export interface Editor {
  /** Asks something else first; resolves with what was typed, empty when it is over. */
  ask(question: Question, over: AbortSignal): Promise<string>;
  pick<T>(picker: Picker<T>): Promise<T | undefined>;
  draft(text: string): void;
  text(): string;
  /** What waits to be sent, shown above the line. */
  waiting(prompts: readonly string[]): void;
  close(): void;
}

const INPUT_ROWS_MAX = 8;
const HINT_ROWS_MAX = 6;
const WAITING_SHOWN_MAX = 3;
const LABEL_CHARS_MAX = 400;
const MARK = "> ";
const EARLY_KEYS_MAX = 1_000;
const QUESTION_WAITS = "  a question waits: send this line or delete it, then answer";

export function openEditor(screen: Screen, host: EditorHost): Editor {
  const { io } = screen;
  const terminal = io.stdin.terminal();
  const paint = createPaint(io.stdout, io.env);
  const buffer = createLineBuffer();
  const past = createPast(host.history);
  const lists: Mode[] = [];
  const questions: Mode[] = [];
  let waiting: readonly string[] = [];
  let isOpen = true;

  // A question waits for the line that is being typed: its last letter and Enter must not allow anything.
  const top = (): Mode => lists.at(-1) ?? (buffer.isEmpty ? questions.at(-1) : undefined) ?? line;
  const redraw = (): void => {
    if (!isOpen) return;
    const { columns } = screen;
    const { rows, cursor } = top().rows(columns);
    const above = waitingRows(waiting, columns).map(paint.dim);
    const isLate = questions.length > 0 && top() === line;
    const below = isLate ? [paint.yellow(fitted(QUESTION_WAITS, columns - 1))] : [];
    screen.show("input", [...above, ...rows, ...below], { ...cursor, row: cursor.row + above.length });
  };
  let isDrawnSoon = false;
  const press = (text: string | undefined, key: Key): void => {
    top().press(text, key);
    if (isDrawnSoon) return;
    // Once for all keys that were read together: thousands are when a text is pasted without marks.
    isDrawnSoon = true;
    setImmediate(() => {
      isDrawnSoon = false;
      redraw();
    });
  };
  /** Keys that were pressed while something was looked up, which they may be about. */
  const early: { readonly text: string | undefined; readonly key: Key }[] = [];
  let lookups = 0;
  const held = async <T>(work: Promise<T>, use: (value: T) => void): Promise<void> => {
    lookups += 1;
    try {
      use(await work);
    } finally {
      lookups -= 1;
      while (lookups === 0) {
        const next = early.shift();
        if (next === undefined) break;
        press(next.text, next.key);
      }
    }
  };
  /** Lets something else take the keys until it is done. */
  const during = <T>(
    modes: Mode[],
    { over, none, open }: { readonly over: AbortSignal; readonly none: T; open(done: (value: T) => void): Mode },
  ): Promise<T> =>
    new Promise((resolve) => {
      const done = (value: T): void => {
        const at = modes.indexOf(mode);
        if (at >= 0) modes.splice(at, 1);
        redraw();
        resolve(value);
      };
      const mode = open(done);
      const ends = AbortSignal.any([over, io.interrupt]);
      if (ends.aborted) return resolve(none);
      ends.addEventListener("abort", () => done(none), { once: true });
      modes.push(mode);
      redraw();
    });
  const pick = <T>(picker: Picker<T>): Promise<T | undefined> =>
    during<T | undefined>(lists, {
      over: io.interrupt,
      none: undefined,
      open: (done) => createListMode(picker, { paint, redraw, done }),
    });
  const elsewhere = async (): Promise<void> => {
    const show = screen.hide();
    const take = keys.release();
    const text = await host.editElsewhere(buffer.text()).finally(() => {
      take();
      show();
    });
    if (text !== undefined) buffer.set(text.replace(/\n$/, ""));
    redraw();
  };
  const suspend = (): void => {
    if (terminal.suspend === undefined) return;
    const show = screen.hide();
    const take = keys.release();
    terminal.suspend(() => {
      take();
      show();
    });
  };
  const complete = (): Promise<void> => held(host.complete(buffer.before()), offer);
  const offer = async ({ from, candidates }: Completion): Promise<void> => {
    const before = buffer.before();
    const put = (text: string): void => buffer.replaceBefore(from, text);
    const [only] = candidates;
    if (only === undefined) return;
    if (candidates.length === 1) put(/[/ ]$/.test(only.text) ? only.text : `${only.text} `);
    else {
      const common = commonStart(candidates.map(({ text }) => text));
      if (common.length > before.length - from) put(common);
      else {
        const choices = candidates.map(({ text, note }) => ({ value: text, label: text, note: note ?? "" }));
        const chosen = await pick({ title: "Which one", choices });
        if (chosen !== undefined) put(/[/ ]$/.test(chosen) ? chosen : `${chosen} `);
      }
    }
    redraw();
  };
  const search = (): Promise<void> =>
    held(past.all(), async (texts) => {
      const choices = texts.map((text) => ({ value: text, label: text }));
      const chosen = await pick({ title: "Typed before", choices });
      if (chosen !== undefined) buffer.set(chosen);
      redraw();
    });
  const send = (): void => {
    const [text, shown] = [buffer.text(), buffer.shown()];
    // A backslash at the end continues on the next line.
    if (buffer.isAtEnd && text.endsWith("\\")) {
      buffer.erase("left");
      buffer.insert("\n");
      return;
    }
    buffer.set("");
    past.add(text);
    host.prompt(text, shown);
  };
  const travel = (by: -1 | 1): Promise<void> | undefined => {
    if (buffer.moveRow(by, screen.columns - cellsOf(MARK))) return undefined;
    return held(past.step(by, buffer.text()), (text) => {
      if (text !== undefined) buffer.set(text);
      redraw();
    });
  };
  const stop = (): void => {
    const isIdle = buffer.isEmpty;
    if (!isIdle && !host.isRunning()) {
      // Kept in the history, so that a long text is not lost by accident.
      past.add(buffer.text());
      buffer.set("");
    }
    host.interrupt(isIdle);
  };
  const ACTIONS: Readonly<Record<string, () => unknown>> = {
    return: send,
    "meta-return": () => buffer.insert("\n"),
    "shift-return": () => buffer.insert("\n"),
    enter: () => buffer.insert("\n"),
    "ctrl-c": stop,
    "ctrl-d": () => (buffer.isEmpty ? host.end() : buffer.erase("right")),
    "ctrl-l": () => screen.print(CLEAR_SCREEN),
    "ctrl-z": suspend,
    "ctrl-g": elsewhere,
    "ctrl-r": search,
    "ctrl-y": () => buffer.yank(),
    "ctrl-t": () => buffer.transpose(),
    "ctrl-p": () => travel(-1),
    "ctrl-n": () => travel(1),
    up: () => travel(-1),
    down: () => travel(1),
    tab: complete,
    escape: () => host.isRunning() && host.interrupt(buffer.isEmpty),
    ...Object.fromEntries(Object.entries(MOTIONS).map(([name, to]) => [name, () => buffer.move(to)])),
    ...Object.fromEntries(Object.entries(ERASURES).map(([name, to]) => [name, () => buffer.erase(to)])),
  };
  const line: Mode = {
    press: (text, key) => {
      const action = ACTIONS[nameOf(key)];
      if (action !== undefined) void action();
      else if (!key.ctrl && !key.meta) buffer.insert(withoutControls(text ?? ""));
    },
    paste: (text) => buffer.paste(text),
    rows: (columns) => inputRows(buffer, { columns, paint, hints: host.hints(buffer.shown()) }),
  };
  const keys: Keys = openKeys(terminal, {
    press: (text, key) => {
      const isStop = key.ctrl === true && key.name === "c";
      if (lookups === 0 || isStop) press(text, key);
      else if (early.length < EARLY_KEYS_MAX) early.push({ text, key });
    },
    paste: (text) => {
      top().paste(text);
      redraw();
    },
    end: host.end,
  });
  terminal.output.on("resize", redraw);
  redraw();
  return {
    ask: (question, over) =>
      during(questions, {
        over,
        none: "",
        open: (done) => createAnswerMode(question, { paint, done, interrupt: () => host.interrupt(false) }),
      }),
    pick,
    draft: (text) => {
      buffer.set(text);
      redraw();
    },
    text: () => buffer.text(),
    waiting: (prompts) => {
      waiting = prompts;
      redraw();
    },
    close: () => {
      if (!isOpen) return;
      isOpen = false;
      terminal.output.off("resize", redraw);
      screen.show("input", []);
      keys.close();
    },
  };
}

function waitingRows(prompts: readonly string[], columns: number): readonly string[] {
  const shown = prompts.slice(0, WAITING_SHOWN_MAX);
  return shown.map((prompt) => fitted(`  then: ${oneLine(prompt, LABEL_CHARS_MAX)}`, columns - 1));
}

const CLEAR_SCREEN = "\u001b[2J\u001b[H";

const MOTIONS: Readonly<Record<string, Motion>> = {
  left: "left",
  right: "right",
  "ctrl-b": "left",
  "ctrl-f": "right",
  "ctrl-left": "word-left",
  "ctrl-right": "word-right",
  "meta-left": "word-left",
  "meta-right": "word-right",
  "meta-b": "word-left",
  "meta-f": "word-right",
  home: "line-start",
  end: "line-end",
  "ctrl-a": "line-start",
  "ctrl-e": "line-end",
  "ctrl-home": "start",
  "ctrl-end": "end",
};

const ERASURES: Readonly<Record<string, Motion>> = {
  backspace: "left",
  "ctrl-h": "left",
  delete: "right",
  "ctrl-w": "word-left",
  "meta-backspace": "word-left",
  "ctrl-backspace": "word-left",
  "meta-d": "word-right",
  "ctrl-delete": "word-right",
  "ctrl-k": "line-end",
  "ctrl-u": "line-start",
};

/** The sequences that terminals send for Shift-Enter. */
const SHIFT_RETURN = new Set(["\u001b[13;2u", "\u001b[27;2;13~"]);

function nameOf({ name = "", ctrl, meta, sequence = "" }: Key): string {
  if (SHIFT_RETURN.has(sequence)) return "shift-return";
  return `${ctrl ? "ctrl-" : ""}${meta && name !== "escape" ? "meta-" : ""}${name}`;
}

/** The line as it is typed, with what could be meant by it below. */
function inputRows(
  buffer: LineBuffer,
  { columns, paint, hints }: { readonly columns: number; readonly paint: Paint; readonly hints: readonly Candidate[] },
): ReturnType<Mode["rows"]> {
  const { rows, cursor } = buffer.layOut(columns - cellsOf(MARK));
  const first = Math.max(0, Math.min(cursor.row - INPUT_ROWS_MAX + 1, rows.length - 1));
  const seen = rows.slice(first, first + INPUT_ROWS_MAX);
  const marked = seen.map((row, at) => `${first + at === 0 ? paint.bold(MARK) : "  "}${row}`);
  const cells = Math.max(0, ...hints.slice(0, HINT_ROWS_MAX).map(({ text }) => cellsOf(text)));
  const below = hints.slice(0, HINT_ROWS_MAX).map(({ text, note = "" }) => {
    const gap = " ".repeat(cells - cellsOf(text) + 2);
    return paint.dim(fitted(`  ${text}${gap}${note}`, columns - 1));
  });
  return {
    rows: [...marked, ...below],
    cursor: { row: cursor.row - first, column: cursor.column + cellsOf(MARK) },
  };
}

function commonStart(texts: readonly string[]): string {
  const [first = "", ...others] = texts;
  let end = first.length;
  for (const text of others) while (!text.startsWith(first.slice(0, end))) end -= 1;
  return first.slice(0, end);
}
