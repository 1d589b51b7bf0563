import { RuntimeError } from "../../../contract/error.ts";
import type { Io } from "../io.ts";
import { createPromptLines, type PromptSource } from "./prompt-source.ts";

const LINE_CHARS_MAX = 8 * 1024 * 1024;

/** Each line of stdin as a prompt, taken when the turn before it has ended. */
export function openPipedPrompts(io: Io): PromptSource {
  const lines = promptsOf(io.stdin.read());
  return {
    next: async () => {
      const { done, value } = await lines.next();
      return done ? undefined : value;
    },
    during: (turn) => turn(io.interrupt),
    close: () => {},
  };
}

async function* promptsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, undefined> {
  const prompts = createPromptLines();
  for await (const line of linesOf(chunks)) {
    const prompt = prompts.add(line);
    if (prompt !== undefined) yield prompt;
  }
  const rest = prompts.rest();
  if (rest !== undefined) yield rest;
  return undefined;
}

async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/);
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LINE_CHARS_MAX) {
      throw new RuntimeError("PAYLOAD_TOO_LARGE", "a line of stdin holds more than 8 MiB; a turn is one line");
    }
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}
