import { clearScreenDown, createInterface, cursorTo, moveCursor } from "node:readline";
import { Writable } from "node:stream";
import type { Terminal } from "../io.ts";
import type { Paint } from "../paint.ts";
import { createPromptLines } from "./prompt-source.ts";

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
