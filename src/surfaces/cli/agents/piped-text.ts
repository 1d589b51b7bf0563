import { type Io, linesOf } from "../io.ts";

/** Whether the text is to be read from stdin: `-` says so, and so does a pipe where nothing was written. */
export function isPiped({ stdin }: Io, words: readonly string[]): boolean {
  return words.length === 0 ? stdin.kind === "stream" : isDash(words);
}

function isDash(words: readonly string[]): boolean {
  return words.length === 1 && words[0] === "-";
}

/** A pipe that says nothing for so long was perhaps inherited and will never end. */
const SILENCE_MS = 2_000;

/** The lines of stdin; says that it waits for them where nobody may have meant it to. */
export async function* textLines(io: Io, words: readonly string[]): AsyncGenerator<string> {
  const waiting = setTimeout(() => {
    if (!isDash(words)) io.stderr.write("Waiting for stdin to end; a text on the command line needs none.\n");
  }, SILENCE_MS);
  try {
    for await (const line of linesOf(io.stdin, "a memory")) {
      clearTimeout(waiting);
      yield line;
    }
  } finally {
    clearTimeout(waiting);
  }
}
