import { createPaint } from "../io.ts";
import type { PromptSource } from "../prompts.ts";
import { type EditorHost, openEditor } from "./editor.ts";
import type { Screen } from "./screen.ts";

/** Completion, history and the external editor. */
export type TypingHelp = Pick<EditorHost, "history" | "complete" | "hints" | "editElsewhere">;

/** The most lines that are queued while a turn runs. */
const TYPED_AHEAD_MAX = 100;

/** Prompts as a person types them. Ctrl-D, or Ctrl-C on an empty line, is the end. */
export function openTypedPrompts(screen: Screen, help: TypingHelp): PromptSource {
  const { io } = screen;
  const { bold, dim } = createPaint(io.stdout, io.env);
  const typed: { readonly text: string; readonly shown: string }[] = [];
  let hasEnded = false;
  /** Whether the next Ctrl-C ends. */
  let isWarned = false;
  let turn: AbortController | undefined;
  let wake = (): void => {};
  const showWaiting = (): void => editor.waiting(typed.map(({ shown }) => shown));
  /** A stopped turn returns the queued lines to the input line. */
  const takeBack = (): void => {
    if (typed.length === 0) return;
    const waited = typed.splice(0).map(({ text }) => text);
    editor.draft([...waited, editor.text()].filter((text) => text !== "").join("\n"));
    showWaiting();
  };
  const end = (): void => {
    hasEnded = true;
    wake();
  };
  const editor = openEditor(screen, {
    ...help,
    prompt: (text, shown) => {
      isWarned = false;
      if (typed.length < TYPED_AHEAD_MAX) typed.push({ text, shown });
      showWaiting();
      wake();
    },
    interrupt: (isIdle) => {
      if (turn !== undefined) {
        turn.abort();
        takeBack();
      } else if (!isIdle) isWarned = false;
      else if (isWarned) end();
      else {
        isWarned = true;
        screen.print(`${dim("Press Ctrl-C again, or Ctrl-D, to quit.")}\r\n`);
      }
    },
    end,
    isRunning: () => turn !== undefined,
  });
  io.interrupt.addEventListener("abort", end);
  return {
    next: async () => {
      while (typed.length === 0 && !hasEnded) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const prompt = typed.shift();
      showWaiting();
      if (prompt === undefined) return undefined;
      const rows = prompt.shown.replaceAll("\t", "    ").split("\n").join("\r\n  ");
      screen.print(`\r\n${bold(`> ${rows}`)}\r\n`);
      return prompt.text;
    },
    answer: async (question, over) => {
      if (hasEnded) return "";
      const asking = turn?.signal;
      const line = await editor.ask(question, asking === undefined ? over : AbortSignal.any([over, asking]));
      return asking?.aborted ? undefined : line;
    },
    pick: editor.pick,
    draft: editor.draft,
    during: async (run) => {
      turn = new AbortController();
      try {
        return await run(AbortSignal.any([io.interrupt, turn.signal]));
      } finally {
        turn = undefined;
      }
    },
    close: () => {
      io.interrupt.removeEventListener("abort", end);
      editor.close();
    },
  };
}
