import type { Question } from "./ask-person.ts";
import { oneLine, type Paint } from "./io.ts";
import type { Mode } from "./keys.ts";
import { createLineBuffer } from "./line-buffer.ts";
import { edit } from "./list-mode.ts";
import { fitted } from "./screen.ts";
import { cellsOf } from "./wrapped-text.ts";

const LINE_CHARS_MAX = 400;
const HOW = " a letter, or ↑ ↓, then Enter";

/** A question that is answered by a word of a list, or by a line of one's own. */
export function createAnswerMode(
  { words, choices }: Question,
  { paint, done, interrupt }: { readonly paint: Paint; done(answer: string): void; interrupt(): void },
): Mode {
  const typed = createLineBuffer();
  let marked: number | undefined;
  const step = (by: number): void => {
    const last = choices.length - 1;
    marked = marked === undefined ? (by > 0 ? 0 : last) : Math.min(last, Math.max(0, marked + by));
  };
  const heading = (columns: number): string => {
    const bold = fitted(words, columns - 1);
    return `${paint.bold(bold)}${paint.dim(fitted(HOW, Math.max(1, columns - cellsOf(bold) - 1)))}`;
  };
  return {
    press: (text, key) => {
      if (key.name === "return" || key.name === "enter") {
        const chosen = typed.isEmpty && marked !== undefined ? choices[marked]?.word : undefined;
        return done(chosen ?? typed.text());
      }
      if (key.name === "escape" || (key.ctrl && key.name === "c")) return interrupt();
      if (key.ctrl && key.name === "d") return done(typed.text());
      if (key.name === "up" || key.name === "down") return step(key.name === "up" ? -1 : 1);
      edit(typed, text, key);
    },
    paste: (text) => typed.insert(oneLine(text, LINE_CHARS_MAX)),
    rows: (columns) => {
      const listed = choices.map(({ word, meaning }, at) => {
        const isMarked = at === marked && typed.isEmpty;
        const row = fitted(`${word}  ${meaning}`, columns - 3);
        return `${isMarked ? paint.cyan("❯ ") : "  "}${isMarked ? paint.bold(row) : row}`;
      });
      const own = fitted(typed.shown(), columns - 4);
      return {
        rows: [heading(columns), ...listed, `${paint.cyan("? ")}${own}`],
        cursor: { row: listed.length + 1, column: 2 + cellsOf(own) },
      };
    },
  };
}
