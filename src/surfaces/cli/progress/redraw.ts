import type { Io } from "../io.ts";

/** Goes back to the beginning of the line and clears it. */
export const CLEAR_LINE = "\r\u001b[K";

/** Whether a line that is written over and over is welcome: on a terminal that can, unless plain text is asked for. */
export function canRedraw({ stderr, env }: Pick<Io, "stderr" | "env">): boolean {
  const isPlain = env.TERM === "dumb" || (env.NO_COLOR !== undefined && env.NO_COLOR !== "");
  return stderr.isTerminal && !isPlain;
}
