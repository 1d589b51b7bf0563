import { clearScreenDown, createInterface, cursorTo, moveCursor } from "node:readline";
import { Writable } from "node:stream";
import { createPaint, type Io, linesOf, type Paint, type Terminal } from "./io.ts";
import { type Picker, pickByNumber } from "./picker.ts";

/** Where a chat's prompts come from: a person at a terminal, or a pipe. */
export interface PromptSource {
  /** The next prompt, of one or several lines; undefined at the end. */
  next(): Promise<string | undefined>;
  /** The next line a person types, whatever was typed ahead; absent where prompts are piped, and nobody can be asked. */
  answer?(question: string, over: AbortSignal): Promise<string>;
  /** Runs a turn. At a terminal Ctrl-C aborts its signal and the chat goes on. */
  during<T>(turn: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Lets something be written while a prompt may be half typed, which is shown again after it. */
  aside(write: () => void): void;
  /** Lets a person choose from a list; absent where prompts are piped. */
  pick?<T>(picker: Picker<T>): Promise<T | undefined>;
  /** Puts a text into the line, to be edited before it is sent. */
  draft?(text: string): void;
  close(): void;
}

/** Lines typed while a turn runs wait for it; a keyboard that is leant on must not fill the memory. */
const TYPED_AHEAD_MAX = 100;

/** Prompts as a person types them. Ctrl-D, or Ctrl-C on an empty line, is the end. */
export function openTypedPrompts(io: Io): PromptSource {
  const typed: string[] = [];
  let hasEnded = false;
  let turn: AbortController | undefined;
  let wake = (): void => {};
  const editor = openLineEditor(io.stdin.terminal(), createPaint(io.stdout, io.env), {
    prompt: (text) => {
      editor.hide();
      if (typed.length < TYPED_AHEAD_MAX) typed.push(text);
      wake();
    },
    interrupt: (isIdle) => {
      if (turn !== undefined) turn.abort();
      else if (isIdle) editor.close();
    },
    end: () => {
      hasEnded = true;
      wake();
    },
  });
  const close = (): void => editor.close();
  io.interrupt.addEventListener("abort", close);
  const source: PromptSource = {
    next: async () => {
      const [ahead] = typed;
      if (ahead !== undefined) editor.repeat(ahead);
      else if (!hasEnded) {
        editor.ask();
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return typed.shift();
    },
    answer: async (question, over) => {
      io.stderr.write(question);
      const ahead = typed.length;
      editor.ask();
      const ends = turn === undefined ? over : AbortSignal.any([over, turn.signal]);
      while (typed.length === ahead && !hasEnded && !ends.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          ends.addEventListener("abort", () => resolve(), { once: true });
        });
      }
      if (ends.aborted) editor.hide();
      return typed.splice(ahead, 1)[0] ?? "";
    },
    pick: (picker) =>
      pickByNumber(io, picker, async (question) => (await source.answer?.(question, io.interrupt)) ?? ""),
    during: async (run) => {
      turn = new AbortController();
      try {
        return await run(AbortSignal.any([io.interrupt, turn.signal]));
      } finally {
        turn = undefined;
      }
    },
    aside: editor.aside,
    close: () => {
      io.interrupt.removeEventListener("abort", close);
      close();
    },
  };
  return source;
}

/** Each line of stdin as a prompt, taken when the turn before it has ended. */
export function openPipedPrompts(io: Io): PromptSource {
  const lines = promptsOf(linesOf(io.stdin, "a turn"));
  return {
    next: async () => {
      const { done, value } = await lines.next();
      return done ? undefined : value;
    },
    during: (turn) => turn(io.interrupt),
    aside: (write) => write(),
    close: () => {},
  };
}

async function* promptsOf(lines: AsyncIterable<string>): AsyncGenerator<string, undefined> {
  const prompts = createPromptLines();
  for await (const line of lines) {
    const prompt = prompts.add(line);
    if (prompt !== undefined) yield prompt;
  }
  const rest = prompts.rest();
  if (rest !== undefined) yield rest;
  return undefined;
}

/** Joins lines into prompts: a line that ends in a backslash goes on with the next one. */
interface PromptLines {
  /** Adds a line; returns the prompt when it is whole. */
  add(line: string): string | undefined;
  /** What is there of a prompt that never became whole. */
  rest(): string | undefined;
}

function createPromptLines(): PromptLines {
  let lines: string[] = [];
  const take = (): string => {
    const prompt = lines.join("\n");
    lines = [];
    return prompt;
  };
  return {
    add: (line) => {
      const goesOn = line.endsWith("\\");
      lines.push(goesOn ? line.slice(0, -1) : line);
      return goesOn ? undefined : take();
    },
    rest: () => (lines.length === 0 ? undefined : take()),
  };
}

/** A line with the keys of a shell, in a terminal that others write to as well. */
export interface LineEditor {
  /** Shows the prompt with what was typed so far. */
  ask(): void;
  /** What is typed from now on is kept and not shown. */
  hide(): void;
  /** Shows a prompt that was typed while it could not be seen. */
  repeat(prompt: string): void;
  /** Lets something be written above the line that is being typed. */
  aside(write: () => void): void;
  close(): void;
}

export interface EditorEvents {
  /** A whole prompt was typed. */
  prompt(text: string): void;
  /** Ctrl-C; `isIdle` when there was nothing typed that it could have been meant for. */
  interrupt(isIdle: boolean): void;
  /** Ctrl-D, or the editor was closed. */
  end(): void;
}

const HISTORY_LINES_MAX = 500;
// The terminal then says where a paste begins and ends, so that its line breaks do not send it in pieces.
const PASTE_MARKS_ON = "\u001b[?2004h";
const PASTE_MARKS_OFF = "\u001b[?2004l";

export function openLineEditor({ input, output }: Terminal, { bold }: Paint, events: EditorEvents): LineEditor {
  const screen = createScreen(output);
  const historySize = HISTORY_LINES_MAX;
  const editor = createInterface({
    input,
    output: screen.output,
    terminal: true,
    historySize,
    removeHistoryDuplicates: true,
  });
  const lines = createPromptLines();
  let isPasting = false;
  const ask = (mark: string): void => {
    editor.setPrompt(bold(mark));
    editor.prompt(true);
  };
  input.on("keypress", (_text: string | undefined, key: { readonly name?: string } | undefined) => {
    if (key?.name === "paste-start") isPasting = true;
    if (key?.name === "paste-end") isPasting = false;
  });
  editor.on("line", (line) => {
    // Within a paste every line goes on, and Enter after it sends the whole.
    const prompt = lines.add(isPasting ? `${line}\\` : line);
    if (prompt === undefined) ask("… ");
    else events.prompt(prompt);
  });
  editor.on("SIGINT", () => {
    const isIdle = lines.rest() === undefined && editor.line === "";
    if (screen.isShown && !isIdle) {
      output.write("^C\n");
      editor.write(null, { ctrl: true, name: "e" });
      editor.write(null, { ctrl: true, name: "u" });
      ask("> ");
    }
    events.interrupt(isIdle);
  });
  editor.on("close", () => {
    if (screen.isShown) output.write("\n");
    screen.isShown = false;
    output.write(PASTE_MARKS_OFF);
    events.end();
  });
  output.write(PASTE_MARKS_ON);
  return {
    ask: () => {
      screen.isShown = true;
      ask("> ");
    },
    hide: () => {
      screen.isShown = false;
    },
    repeat: (prompt) => {
      output.write(`${bold("> ")}${prompt}\n`);
    },
    aside: (write) => {
      if (!screen.isShown) return write();
      const { rows } = editor.getCursorPos();
      moveCursor(output, 0, -rows);
      cursorTo(output, 0);
      clearScreenDown(output);
      write();
      // Unseen once, since after a paste the editor has not counted its rows; then it goes up by as many.
      screen.isShown = false;
      editor.prompt(true);
      screen.isShown = true;
      output.write("\n".repeat(rows));
      editor.prompt(true);
    },
    close: () => editor.close(),
  };
}

/** The terminal as the editor sees it; what it writes can be held back. */
function createScreen(output: Terminal["output"]): { isShown: boolean; readonly output: Writable } {
  const screen = {
    isShown: false,
    output: new Writable({
      write: (chunk: Uint8Array, _encoding, done) => {
        if (screen.isShown) output.write(chunk);
        done();
      },
    }),
  };
  // The editor wraps long lines by this.
  Object.defineProperty(screen.output, "columns", { get: () => output.columns });
  output.on("resize", () => screen.output.emit("resize"));
  return screen;
}
