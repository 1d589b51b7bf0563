import { type Io, linesOf } from "../io.ts";
import { createPromptLines, type PromptSource } from "./prompt-source.ts";

/** Each line of stdin as a prompt, taken when the turn before it has ended. */
export function openPipedPrompts(io: Io): PromptSource {
  const lines = promptsOf(linesOf(io.stdin, "a turn"));
  return {
    next: async () => {
      const { done, value } = await lines.next();
      return done ? undefined : value;
    },
    during: (turn) => turn(io.interrupt),
    aside: (write) => write(),
    close: () => {},
  };
}

async function* promptsOf(lines: AsyncIterable<string>): AsyncGenerator<string, undefined> {
  const prompts = createPromptLines();
  for await (const line of lines) {
    const prompt = prompts.add(line);
    if (prompt !== undefined) yield prompt;
  }
  const rest = prompts.rest();
  if (rest !== undefined) yield rest;
  return undefined;
}
