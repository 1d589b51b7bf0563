import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import type { Io, Output, Terminal } from "rkat/io";
import type { Parts } from "rkat/parts";
import { expect } from "vitest";
import { type CommandLine, NO_INPUT } from "./command-line.ts";
import { createDrawnTerminal } from "./drawn-terminal.ts";

const COLUMNS = 80;
const ROWS = 24;

/** A terminal whose keys are pressed by the test; it begins to listen when the chat asks for it. */
export function keyboard() {
  const input = new PassThrough();
  let written = "";
  const drawn = createDrawnTerminal({ columns: COLUMNS, rows: ROWS });
  const output = Object.assign(new PassThrough(), { columns: COLUMNS, rows: ROWS, isTTY: true });
  output.on("data", (data) => {
    written += data;
    drawn.write(String(data));
  });
  // An editor needs no more of a terminal than these.
  const terminal = { input, output } as unknown as Terminal;
  const press = async (keys: string): Promise<void> => {
    input.write(keys);
    await sleep(20);
  };
  const stdin = { ...NO_INPUT, kind: "terminal", terminal: () => terminal } as const;
  return {
    stdin,
    press,
    /** All that was ever drawn, one after the other. */
    shown: () => stripVTControlCharacters(written),
    /** The same as it was sent. */
    written: () => written,
    /** What stands on the terminal now, and what has scrolled away. */
    screen: () => drawn.lines().join("\n"),
    /** A stream of the process that goes there. */
    stream: (): Output => ({
      isTerminal: true,
      columns: COLUMNS,
      // A terminal that nobody draws on goes back to the left by itself.
      write: (text) => void output.write(String(text).replaceAll("\n", "\r\n")),
    }),
  };
}

const LOOK_MS = 10;
const LOOKS_MAX = 1_000;

interface Typing extends Partial<Pick<Io, "cwd" | "home">> {
  readonly env?: Readonly<Record<string, string>>;
  readonly own?: Partial<Parts>;
}

/** A command that a person talks to. */
export function typedTo(run: CommandLine["run"], args: readonly string[], { env = {}, ...given }: Typing = {}) {
  const { stdin, press, shown, screen, written, stream } = keyboard();
  const ended = run(args, { ...given, env: { NO_COLOR: "1", ...env }, stdin, stdout: stream(), stderr: stream() });
  /** Waits until a text is seen that was not there before. */
  const saw = async (text: string, before = 0): Promise<void> => {
    const seen = (): string => shown().slice(before);
    for (let look = 0; look < LOOKS_MAX && !seen().includes(text); look += 1) await sleep(LOOK_MS);
    expect(seen()).toContain(text);
  };
  /** Presses keys and waits for what comes of them. */
  const pressed = async (keys: string, then: string): Promise<void> => {
    const before = shown().length;
    await press(keys);
    await saw(then, before);
  };
  /** Types a line and waits for what comes of it. */
  const type = (line: string, then: string): Promise<void> => pressed(`${line}\r`, then);
  return { ended, press, pressed, type, saw, shown, screen, written };
}
