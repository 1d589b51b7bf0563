import { createHighlight, languageOf } from "./highlight.ts";
import type { Paint } from "./io.ts";
import { fenceOf } from "./markdown-lines.ts";
import { inInk, inkOf } from "./wrapped-text.ts";

/** A longer line is shown as it comes. */
const LINE_CHARS_MAX = 4_000;

/** A block of code: lines between two fences, shown as they are, which the terminal wraps. */
export interface CodeBlock {
  readonly name: string;
  /** What its lines begin with, where it belongs to a list. */
  readonly lead: string;
  /** Settles when its language is there; undefined where there is nothing to wait for. */
  readonly loading: Promise<void> | undefined;
  /** A line as it is shown, without the indent of the fence; undefined for the one that ends the block. */
  line(line: string): string | undefined;
}

export function openCodeBlock(fence: string, { paint, listed }: { paint: Paint; listed: number }): CodeBlock {
  const { indent, mark, name } = fenceOf(fence) ?? { indent: 0, mark: "", name: "" };
  let show = plainCode(paint);
  const language = show("-") === "-" ? undefined : languageOf(name);
  const isLoading = language instanceof Promise;
  if (language !== undefined && !isLoading) show = createHighlight(language, paint);
  return {
    name,
    lead: " ".repeat(Math.min(listed, indent)),
    loading: isLoading
      ? language.then((parser) => {
          if (parser !== undefined) show = createHighlight(parser, paint);
        })
      : undefined,
    line: (line) => {
      const bare = line.trim();
      if (bare.startsWith(mark) && bare === (bare[0] ?? "").repeat(bare.length)) return undefined;
      return show(line.slice(Math.min(indent, line.length - line.trimStart().length)));
    },
  };
}

/** Code of no language that is known. */
export function plainCode(paint: Paint): (line: string) => string {
  const ink = inkOf(paint.green);
  return (line) => (line === "" ? "" : inInk(line, ink));
}

/** Whether so much of a line is too long to wait for its end. */
export function isLongCode(line: string): boolean {
  return line.length > LINE_CHARS_MAX;
}
