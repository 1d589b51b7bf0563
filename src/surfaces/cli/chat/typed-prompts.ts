import type { Io } from "../io.ts";
import { createPaint } from "../paint.ts";
import { openLineEditor } from "./line-editor.ts";
import type { PromptSource } from "./prompt-source.ts";

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
  return {
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
}
