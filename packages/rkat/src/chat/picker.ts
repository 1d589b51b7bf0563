import { createPaint, type Io, oneLine } from "../io.ts";
import { askLine } from "./ask-person.ts";

export interface Choice<T> {
  readonly value: T;
  readonly label: string;
  /** What stands beside it, such as how old it is. */
  readonly note?: string;
  /** What typing finds it by, besides what is shown. */
  readonly words?: string;
  /** A few lines about it, shown while it is selected. */
  preview?(): Promise<readonly string[]>;
}

export interface Picker<T> {
  readonly title: string;
  readonly choices: readonly Choice<T>[];
}

const LABEL_CHARS_MAX = 400;

/** Lets a person choose by number, where no list can be drawn; undefined when nothing was chosen. */
export async function pickByNumber<T>(
  io: Io,
  { title, choices }: Picker<T>,
  ask = (question: string): Promise<string> => askLine(io, question),
): Promise<T | undefined> {
  const { dim } = createPaint(io.stderr, io.env);
  io.stderr.write(`${title}\n`);
  for (const [index, { label, note = "" }] of choices.entries()) {
    const number = String(index + 1).padStart(3);
    io.stderr.write(`${number}  ${oneLine(label, LABEL_CHARS_MAX)}  ${dim(oneLine(note, LABEL_CHARS_MAX))}\n`);
  }
  const line = (await ask("Number, or Enter to cancel: ")).trim();
  return /^\d+$/.test(line) ? choices[Number(line) - 1]?.value : undefined;
}
