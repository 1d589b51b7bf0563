import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Output, Terminal } from "../../src/surfaces/cli/io.ts";
import type { Parts } from "../../src/surfaces/cli/parts.ts";
import { type CommandLine, NO_INPUT } from "./command-line.ts";

/** A terminal whose keys are pressed by the test; it begins to listen when the chat asks for it. */
export function keyboard() {
  const input = new PassThrough();
  let shown = "";
  const output = Object.assign(new PassThrough(), { columns: 80, isTTY: true });
  output.on("data", (data) => {
    shown += data;
  });
  // An editor needs no more of a terminal than these.
  const terminal = { input, output } as unknown as Terminal;
  const press = async (keys: string): Promise<void> => {
    input.write(keys);
    await sleep(20);
  };
  const stdin = { ...NO_INPUT, kind: "terminal", terminal: () => terminal } as const;
  return { stdin, press, shown: () => shown };
}

const LOOK_MS = 10;
const LOOKS_MAX = 1_000;

interface Typing {
  readonly env?: Readonly<Record<string, string>>;
  readonly own?: Partial<Parts>;
}

/** A command that a person talks to: what they see is on both outputs and the terminal. */
export function typedTo(run: CommandLine["run"], args: readonly string[], { env = {}, own = {} }: Typing = {}) {
  const { stdin, press, shown } = keyboard();
  const said = { stdout: "", stderr: "" };
  const outputOf = (name: keyof typeof said): Output => ({
    isTerminal: true,
    columns: 80,
    write: (text) => {
      said[name] += String(text);
    },
  });
  const [stdout, stderr] = [outputOf("stdout"), outputOf("stderr")];
  const ended = run(args, { env: { NO_COLOR: "1", ...env }, stdin, stdout, stderr, own });
  const lengths = (): readonly number[] => [said.stderr, said.stdout, shown()].map(({ length }) => length);
  /** Waits until a text is seen that was not there before. */
  const saw = async (text: string, before: readonly number[] = []): Promise<void> => {
    const seen = (): string =>
      [said.stderr, said.stdout, shown()].map((part, index) => part.slice(before[index] ?? 0)).join("");
    for (let look = 0; look < LOOKS_MAX && !seen().includes(text); look += 1) await sleep(LOOK_MS);
    expect(seen()).toContain(text);
  };
  /** Types a line and waits for what comes of it. */
  const type = async (line: string, then: string): Promise<void> => {
    const before = lengths();
    await press(`${line}\r`);
    await saw(then, before);
  };
  return { ended, press, type, saw, said };
}
