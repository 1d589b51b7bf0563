/** Where a chat's prompts come from: a person at a terminal, or a pipe. */
export interface PromptSource {
  /** The next prompt, of one or several lines; undefined at the end. */
  next(): Promise<string | undefined>;
  /** Runs a turn. At a terminal Ctrl-C aborts its signal and the chat goes on. */
  during<T>(turn: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Lets something be written while a prompt may be half typed, which is shown again after it. */
  aside(write: () => void): void;
  close(): void;
}

/** Joins lines into prompts: a line that ends in a backslash goes on with the next one. */
export interface PromptLines {
  /** Adds a line; returns the prompt when it is whole. */
  add(line: string): string | undefined;
  /** What is there of a prompt that never became whole. */
  rest(): string | undefined;
}

export function createPromptLines(): PromptLines {
  let lines: string[] = [];
  const take = (): string => {
    const prompt = lines.join("\n");
    lines = [];
    return prompt;
  };
  return {
    add: (line) => {
      const goesOn = line.endsWith("\\");
      lines.push(goesOn ? line.slice(0, -1) : line);
      return goesOn ? undefined : take();
    },
    rest: () => (lines.length === 0 ? undefined : take()),
  };
}
