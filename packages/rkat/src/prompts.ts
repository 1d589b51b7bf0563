import { createInterface } from "node:readline";
import { lineOf, type Question } from "./chat/ask-person.ts";
import { type Picker, pickByNumber } from "./chat/picker.ts";
import { type Io, linesOf } from "./io.ts";

/** A word that may be typed, and what it means. */
export interface Candidate {
  readonly text: string;
  readonly note?: string;
}

/** Where a chat's prompts come from: a person at a terminal, or a pipe. */
export interface PromptSource {
  /** The next prompt, of one or several lines; undefined at the end. */
  next(): Promise<string | undefined>;
  /** The next line a person types, ignoring lines typed ahead; undefined where the turn was stopped instead; absent where prompts are piped. */
  answer?(question: Question, over: AbortSignal): Promise<string | undefined>;
  /** Lets a person choose from a list; absent where prompts are piped. */
  pick?<T>(picker: Picker<T>): Promise<T | undefined>;
  /** Puts a text into the line, to be edited before it is sent. */
  draft?(text: string): void;
  /** Runs a turn. At a terminal Ctrl-C aborts its signal and the chat continues. */
  during<T>(turn: (signal: AbortSignal) => Promise<T>): Promise<T>;
  close(): void;
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
    close: () => {},
  };
}

/** The most lines that are queued while a turn runs. */
const LINES_AHEAD_MAX = 100;

/** Typed lines where nothing can be redrawn; the terminal itself edits them. */
export function openPlainPrompts(io: Io): PromptSource {
  const { input, output } = io.stdin.terminal();
  const lines = createInterface({ input, output, terminal: false });
  const typed: string[] = [];
  let hasEnded = false;
  let wake = (): void => {};
  /** Takes the next line instead of a prompt: two readers of the terminal would compete for it. */
  let answer: ((line: string) => void) | undefined;
  lines.on("line", (line) => {
    if (answer !== undefined) return answer(line);
    if (typed.length < LINES_AHEAD_MAX) typed.push(line);
    wake();
  });
  lines.on("close", () => {
    hasEnded = true;
    answer?.("");
    wake();
  });
  const prompts = promptsOf(
    (async function* () {
      while (typed.length > 0 || !hasEnded) {
        const line = typed.shift();
        if (line !== undefined) yield line;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    })(),
  );
  const ask = (question: string, over?: AbortSignal): Promise<string> =>
    new Promise((resolve) => {
      if (hasEnded) return resolve("");
      output.write(question);
      const take = (line: string): void => {
        answer = undefined;
        resolve(line);
      };
      answer = take;
      const drop = (): void => {
        if (answer === take) take("");
      };
      over?.addEventListener("abort", drop, { once: true });
    });
  const close = (): void => lines.close();
  io.interrupt.addEventListener("abort", close);
  return {
    next: async () => {
      output.write("> ");
      const { done, value } = await prompts.next();
      return done ? undefined : value;
    },
    answer: async (question, over) => {
      const line = await ask(lineOf(question), over);
      return io.interrupt.aborted ? undefined : line;
    },
    pick: (picker) => pickByNumber(io, picker, ask),
    during: (turn) => turn(io.interrupt),
    close: () => {
      io.interrupt.removeEventListener("abort", close);
      close();
    },
  };
}

/** Joins lines into prompts: a line that ends in a backslash continues on the next. */
async function* promptsOf(lines: AsyncIterable<string>): AsyncGenerator<string, undefined> {
  let prompt: string[] = [];
  for await (const line of lines) {
    const isContinued = line.endsWith("\\");
    prompt.push(isContinued ? line.slice(0, -1) : line);
    if (isContinued) continue;
    yield prompt.join("\n");
    prompt = [];
  }
  if (prompt.length > 0) yield prompt.join("\n");
  return undefined;
}
