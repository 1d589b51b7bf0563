import { emitKeypressEvents } from "node:readline";
import type { Terminal } from "../io.ts";
import type { Cursor } from "./screen.ts";

export interface Key {
  readonly name?: string;
  readonly ctrl?: boolean;
  readonly meta?: boolean;
  readonly shift?: boolean;
  readonly sequence?: string;
}

/** What takes the keys, and is drawn where the line is. */
export interface Mode {
  press(text: string | undefined, key: Key): void;
  /** What was pasted comes as one. */
  paste(text: string): void;
  /** Rows of at most so many cells. */
  rows(columns: number): { readonly rows: readonly string[]; readonly cursor: Cursor };
}

// Bracketed paste: line breaks inside a paste must not submit it in pieces.
const PASTE_MARKS_ON = "\u001b[?2004h";
const PASTE_MARKS_OFF = "\u001b[?2004l";
/** More than a prompt can hold. */
const PASTE_CHARS_MAX = 8 * 1024 * 1024;
/** A Ctrl-C after such a pause was pressed and not pasted: the end of the paste was lost. */
const PASTE_PAUSE_MS = 500;

export interface Keys {
  /** Gives the terminal to another program until the function that is returned is called. */
  release(): () => void;
  close(): void;
}

export function openKeys({ input, output }: Terminal, handlers: Pick<Mode, "press" | "paste"> & { end(): void }): Keys {
  /** What was pasted so far; undefined outside of a paste. */
  let pasted: string | undefined;
  let pastedAtMs = 0;
  let isHeld = false;
  const press = (text: string | undefined, key: Key | undefined): void => {
    // Input that was read together with the key that started the other program.
    if (!isHeld) return;
    const isLost = pasted !== undefined && Date.now() - pastedAtMs > PASTE_PAUSE_MS;
    if (isLost && key?.ctrl === true && key.name === "c") pasted = undefined;
    pastedAtMs = Date.now();
    if (key?.name === "paste-start") pasted = "";
    else if (key?.name === "paste-end") {
      const whole = pasted ?? "";
      pasted = undefined;
      handlers.paste(whole);
    } else if (pasted === undefined) handlers.press(text, key ?? {});
    else if (pasted.length < PASTE_CHARS_MAX) pasted += text ?? key?.sequence ?? "";
  };
  const take = (): void => {
    isHeld = true;
    input.setRawMode?.(true);
    input.resume();
    output.write(PASTE_MARKS_ON);
  };
  const leave = (): void => {
    isHeld = false;
    output.write(PASTE_MARKS_OFF);
    input.setRawMode?.(false);
    input.pause();
  };
  emitKeypressEvents(input);
  input.on("keypress", press);
  // A terminal that was closed.
  input.on("end", handlers.end);
  take();
  let isOpen = true;
  return {
    release: () => {
      leave();
      return () => {
        if (isOpen) take();
      };
    },
    close: () => {
      if (!isOpen) return;
      isOpen = false;
      input.off("keypress", press);
      input.off("end", handlers.end);
      leave();
    },
  };
}
