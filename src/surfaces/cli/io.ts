import { RuntimeError } from "../../contract/error.ts";

/** The process as the command line sees it: only the door touches the real one. */
export interface Io {
  /** What was typed after the command's name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly version: string;
  readonly nodeVersion: string;
  readonly stdin: Input;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when somebody wants an end; its reason is the exit code to end with. */
  readonly interrupt: AbortSignal;
}

export interface Input {
  /** A stream is a pipe or a file; `none` is closed, `/dev/null` or another device. */
  readonly kind: "terminal" | "stream" | "none";
  /** Reads to the end; throws when interrupted. */
  read(): AsyncIterable<Uint8Array>;
  /** The keys as they are pressed, where stdin is a terminal. */
  terminal(): Terminal;
}

export interface Output {
  readonly isTerminal: boolean;
  /** How wide the terminal is, when it is one. */
  readonly columns: number | undefined;
  write(text: string | Uint8Array): void;
}

/** A terminal as a line editor needs it. */
export interface Terminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
}

const EXIT_INTERRUPTED = 130;

/** The exit code of a command that was interrupted; undefined when it was not. */
export function interruptedExit({ interrupt }: Io): number | undefined {
  if (!interrupt.aborted) return undefined;
  return typeof interrupt.reason === "number" ? interrupt.reason : EXIT_INTERRUPTED;
}

/** One value on stdout, for scripts. */
export function writeJson({ stdout }: Io, value: unknown): void {
  stdout.write(`${jsonText(value, 2)}\n`);
}

/** JSON as a terminal may show it: of what could steer one it leaves some signs as they are. */
export function jsonText(value: unknown, indent?: number): string {
  const escaped = (sign: string): string => `\\u00${sign.charCodeAt(0).toString(16)}`;
  return JSON.stringify(value, undefined, indent).replace(/[\u007f-\u009f]/g, escaped);
}

const LINE_CHARS_MAX = 8 * 1024 * 1024;

/** The lines of what is piped in, as they come; `unit` is what a line is taken for. */
export async function* linesOf({ read }: Input, unit: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  for await (const chunk of read()) {
    const lines = (rest + decoded(decoder, chunk)).split(/\r?\n/);
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LINE_CHARS_MAX) {
      throw new RuntimeError("PAYLOAD_TOO_LARGE", `a line of stdin holds more than 8 MiB; ${unit} is one line`);
    }
  }
  rest += decoded(decoder);
  if (rest !== "") yield rest;
}

/** Text that was never text would be kept for good as question marks. */
function decoded(decoder: InstanceType<typeof TextDecoder>, chunk?: Uint8Array): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", "stdin is not UTF-8 text", { cause });
  }
}
