import { withoutControls } from "@rkat/core/text/terminal-text";
import { oneLine, type Paint } from "../io.ts";
import { type Question, reasonOf, WHY_NOT } from "./ask-person.ts";
import type { Key, Mode } from "./keys.ts";
import { createLineBuffer, type LineBuffer } from "./line-buffer.ts";
import type { Choice, Picker } from "./picker.ts";
import { fitted } from "./screen.ts";
import { cellsOf } from "./wrapped-text.ts";

const ROWS_MAX = 8;
const PREVIEW_ROWS_MAX = 6;
const LABEL_CHARS_MAX = 400;
const LABEL_CELLS_MAX = 60;

/** A list in the place of the input line: typing filters it, Enter selects, Esc cancels. */
export function createListMode<T>(
  { title, choices }: Picker<T>,
  { paint, redraw, done }: { readonly paint: Paint; redraw(): void; done(chosen: T | undefined): void },
): Mode {
  const filter = createLineBuffer();
  const rows = choices.map((choice) => {
    const label = oneLine(choice.label, LABEL_CHARS_MAX);
    const note = oneLine(choice.note ?? "", LABEL_CHARS_MAX);
    const words = `${label} ${note} ${choice.words ?? ""}`.toLowerCase();
    return { choice, label, note, words };
  });
  let found = rows;
  let marked = 0;
  const previews = new Map<Choice<T>, readonly string[]>();
  const preview = (): readonly string[] => {
    const choice = found[marked]?.choice;
    if (choice?.preview === undefined) return [];
    if (!previews.has(choice)) {
      previews.set(choice, []);
      choice.preview().then(
        (lines) => {
          previews.set(choice, lines);
          redraw();
        },
        // The list is shown without the preview.
        () => {},
      );
    }
    return previews.get(choice) ?? [];
  };
  const narrow = (): void => {
    const wanted = filter.text().toLowerCase().split(/\s+/);
    found = rows.filter(({ words }) => wanted.every((word) => words.includes(word)));
    marked = 0;
  };
  const step = (by: number): void => {
    marked = Math.min(found.length - 1, Math.max(0, marked + by));
  };
  return {
    press: (text, key) => {
      if (key.name === "return" || key.name === "enter") return done(found[marked]?.choice.value);
      if (key.name === "escape" || (key.ctrl && ["c", "d", "g"].includes(key.name ?? ""))) return done(undefined);
      const move = MOVES[key.name ?? ""] ?? (key.ctrl ? MOVES[`ctrl-${key.name}`] : undefined);
      if (move !== undefined) return step(move);
      if (edit(filter, text, key)) narrow();
    },
    paste: (text) => {
      filter.insert(oneLine(text, LABEL_CHARS_MAX));
      narrow();
    },
    rows: (columns) => {
      const first = Math.max(0, Math.min(marked - Math.floor(ROWS_MAX / 2), found.length - ROWS_MAX));
      const seen = found.slice(first, first + ROWS_MAX);
      const labelCells = Math.min(LABEL_CELLS_MAX, Math.max(0, ...seen.map(({ label }) => cellsOf(label))));
      const lines = seen.map(({ label, note }, index) => {
        const isMarked = first + index === marked;
        const name = fitted(label, Math.min(labelCells, columns - 3));
        const gap = " ".repeat(Math.max(0, labelCells - cellsOf(name)) + 2);
        const beside = note === "" ? "" : fitted(note, Math.max(1, columns - labelCells - 5));
        const room = columns - labelCells - 5 > 4;
        return `${isMarked ? paint.cyan("❯ ") : "  "}${isMarked ? paint.bold(name) : name}${room && beside !== "" ? `${gap}${paint.dim(beside)}` : ""}`;
      });
      const count = found.length > ROWS_MAX ? ` ${marked + 1} of ${found.length}` : "";
      const head = fitted(`${title}${count} · type to search, Enter to select, Esc to cancel`, columns - 1);
      const typed = fitted(filter.shown(), columns - 4);
      const below = preview()
        .slice(0, PREVIEW_ROWS_MAX)
        .map((line) => paint.dim(fitted(`  │ ${oneLine(line, LABEL_CHARS_MAX)}`, columns - 1)));
      const none = found.length === 0 ? [paint.dim("  no matches")] : [];
      return {
        rows: [paint.bold(head), `${paint.cyan("? ")}${typed}`, ...lines, ...none, ...below],
        cursor: { row: 1, column: 2 + cellsOf(typed) },
      };
    },
  };
}

const MOVES: Readonly<Record<string, number>> = {
  up: -1,
  down: 1,
  pageup: -ROWS_MAX,
  pagedown: ROWS_MAX,
  tab: 1,
  "ctrl-p": -1,
  "ctrl-n": 1,
  "ctrl-r": 1,
};

/** Applies a key that edits text; false for any other key. */
function edit(buffer: LineBuffer, text: string | undefined, key: Key): boolean {
  if (key.name === "backspace" && (key.meta || key.ctrl)) buffer.erase("word-left");
  else if (key.name === "backspace") buffer.erase("left");
  else if (key.ctrl && key.name === "u") buffer.erase("line-start");
  else if (key.ctrl && key.name === "w") buffer.erase("word-left");
  else {
    const typed = key.ctrl || key.meta ? "" : withoutControls(text ?? "").replace(/[\n\t]/g, "");
    if (typed === "") return false;
    buffer.insert(typed);
  }
  return true;
}

const LINE_CHARS_MAX = 400;
const HOW = " a letter, or ↑ ↓ and Enter";

/** A question that is answered by an entry of a list, or by a typed line. */
export function createAnswerMode(
  { words, choices }: Question,
  { paint, done, interrupt }: { readonly paint: Paint; done(answer: string): void; interrupt(): void },
): Mode {
  const typed = createLineBuffer();
  let marked: number | undefined;
  /** Whether a reason is typed, which any letter may begin. */
  let isReason = false;
  const step = (by: number): void => {
    const last = choices.length - 1;
    marked = marked === undefined ? (by > 0 ? 0 : last) : Math.min(last, Math.max(0, marked + by));
  };
  /** Whether the answer is a reason that follows. */
  const choose = (word: string | undefined): boolean => {
    isReason ||= word === "r";
    if (isReason) marked = undefined;
    return word === "r";
  };
  const heading = (columns: number): string => {
    const bold = fitted(isReason ? WHY_NOT : words, columns - 1);
    return `${paint.bold(bold)}${paint.dim(fitted(isReason ? "" : HOW, Math.max(1, columns - cellsOf(bold) - 1)))}`;
  };
  return {
    press: (text, key) => {
      if (key.name === "return" || key.name === "enter") {
        const chosen = typed.isEmpty && marked !== undefined ? choices[marked]?.word : undefined;
        return choose(chosen) || done(chosen ?? (isReason ? reasonOf(typed.text()) : typed.text()));
      }
      const isFirst = typed.isEmpty && !isReason && !key.ctrl && !key.meta;
      const word = isFirst ? choices.find((choice) => choice.word === text?.toLowerCase())?.word : undefined;
      if (word !== undefined) return choose(word) || done(word);
      if (key.name === "escape" || (key.ctrl && key.name === "c")) return interrupt();
      if (key.ctrl && key.name === "d") return done(typed.text());
      if (key.name === "up" || key.name === "down") return step(key.name === "up" ? -1 : 1);
      edit(typed, text, key);
    },
    paste: (text) => typed.insert(oneLine(text, LINE_CHARS_MAX)),
    rows: (columns) => {
      const listed = (isReason ? [] : choices).map(({ word, meaning }, at) => {
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
