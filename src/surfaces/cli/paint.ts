import { styleText } from "node:util";
import type { Io, Output } from "./io.ts";

type Brush = (text: string) => string;

/** Marks text for the eye; where colour is unwanted it leaves the text as it is. */
export interface Paint {
  readonly bold: Brush;
  readonly dim: Brush;
  readonly red: Brush;
  readonly green: Brush;
  readonly yellow: Brush;
  readonly cyan: Brush;
}

export function createPaint(output: Output, env: Io["env"]): Paint {
  const isColoured = wantsColour(output, env);
  const brush = (style: keyof Paint): Brush =>
    isColoured ? (text) => styleText(style, text, { validateStream: false }) : (text) => text;
  return {
    bold: brush("bold"),
    dim: brush("dim"),
    red: brush("red"),
    green: brush("green"),
    yellow: brush("yellow"),
    cyan: brush("cyan"),
  };
}

/** As Node decides it: FORCE_COLOR wins over NO_COLOR, and both over what the output is. */
function wantsColour(output: Output, env: Io["env"]): boolean {
  const { FORCE_COLOR, NO_COLOR, TERM } = env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== "0" && FORCE_COLOR !== "false";
  if (NO_COLOR !== undefined && NO_COLOR !== "") return false;
  return output.isTerminal && TERM !== "dumb";
}
