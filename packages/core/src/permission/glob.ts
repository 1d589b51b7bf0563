/** A text with stars as wildcards, stored as the literal pieces between them. */
export interface Glob {
  readonly pieces: readonly string[];
}

/** Stands for a part of a text that is unknown before the shell runs. */
export const UNKNOWN = "\0";

/** A backslash makes the next character literal. */
export function compileGlob(text: string): Glob {
  const pieces = [""];
  for (let at = 0; at < text.length; at += 1) {
    const sign = text.charAt(at);
    if (sign === "*") {
      pieces.push("");
      continue;
    }
    if (sign === "\\") at += 1;
    pieces.push(`${pieces.pop() ?? ""}${text.charAt(at)}`);
  }
  return { pieces };
}

/** Whether the text matches, whatever its unknown parts are. */
export function matchesGlob({ pieces }: Glob, text: string): boolean {
  const first = pieces[0] ?? "";
  if (pieces.length === 1) return text === first;
  const last = pieces.at(-1) ?? "";
  const end = text.length - last.length;
  if (end < first.length || !text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (let index = 1; index < pieces.length - 1; index += 1) {
    const piece = pieces[index] ?? "";
    const found = text.indexOf(piece, at);
    if (found < 0 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
}

/** Whether the text could match, depending on its unknown parts; the part before the first of them must match. */
function mayMatchGlob(glob: Glob, text: string): boolean {
  const known = text.indexOf(UNKNOWN);
  if (known < 0) return matchesGlob(glob, text);
  const first = glob.pieces[0] ?? "";
  const before = text.slice(0, known);
  return first.startsWith(before) || (glob.pieces.length > 1 && before.startsWith(first));
}

/** A step of a sequence: one item, any number of items, or options with optional values. */
export type Step = Glob | "any" | "options";

/** One item of a sequence; `isMany` is an unknown number of unknown items. */
export interface Item {
  readonly text: string;
  readonly isMany?: boolean | undefined;
}

/**
 * Whether items match steps: certainly or, with `isPossible`, for some value of the unknown parts. Linear in the
 * product of both lengths: the set of reached steps is carried along.
 */
export function matchesSteps(items: readonly Item[], steps: readonly Step[], isPossible: boolean): boolean {
  const matches = isPossible ? mayMatchGlob : matchesGlob;
  if (!mayBegin(items[0], steps[0], isPossible)) return false;
  let reached = spread([true], steps);
  let isAfterOption = false;
  for (const { text, isMany } of items) {
    const isOption = text.startsWith("-") || text.startsWith(UNKNOWN);
    const next: boolean[] = [];
    let isStuck = true;
    for (let at = 0; at <= steps.length; at += 1) {
      if (reached[at] !== true) continue;
      const step = steps[at];
      if (isMany === true && isPossible) {
        for (let further = at; further <= steps.length; further += 1) next[further] = true;
        isStuck = false;
        break; // The smallest comes first, and reaches all that the others would.
      }
      if (step === "any") next[at] = true;
      else if (step === "options") {
        if (!isPossible || !(isOption || isAfterOption)) continue;
        next[at] = true;
      } else if (isMany !== true && step !== undefined && matches(step, text)) next[at + 1] = true;
      else continue;
      isStuck = false;
    }
    if (isStuck) return false;
    reached = spread(next, steps);
    isAfterOption = isOption;
  }
  return reached[steps.length] === true;
}

/** A quick check of the first step: most patterns are for another program. */
export function mayBegin(item: Item | undefined, step: Step | undefined, isPossible: boolean): boolean {
  if (step === undefined || typeof step === "string") return true;
  if (item === undefined) return false;
  if (item.isMany === true) return isPossible;
  return isPossible ? mayMatchGlob(step, item.text) : matchesGlob(step, item.text);
}

/** Steps for any number of items may match none. */
function spread(reached: boolean[], steps: readonly Step[]): readonly boolean[] {
  for (let at = 1; at <= steps.length; at += 1) {
    if (reached[at - 1] === true && typeof steps[at - 1] === "string") reached[at] = true;
  }
  return reached;
}
