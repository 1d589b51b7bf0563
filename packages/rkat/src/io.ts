import { styleText } from "node:util";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { withoutControls } from "@rkat/core/text/terminal-text";

export { costText, counted, grouped } from "@rkat/core/contract/describe-event";

/** The process as the command line sees it: only the door touches the real one. */
export interface Io {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly version: string;
  readonly nodeVersion: string;
  readonly stdin: Input;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the command is interrupted; its reason is the exit code. */
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
  /** Suspends the process as Ctrl-Z would, and calls back when it continues; absent without job control. */
  suspend?(resumed: () => void): void;
  /** Interrupts the command as Ctrl-C does where the terminal reads lines. */
  interrupt?(): void;
}

const EXIT_INTERRUPTED = 130;

/** The exit code of a command that was interrupted; undefined when it was not. */
export function interruptedExit({ interrupt }: Io): number | undefined {
  if (!interrupt.aborted) return undefined;
  return typeof interrupt.reason === "number" ? interrupt.reason : EXIT_INTERRUPTED;
}

export function writeJson({ stdout }: Io, value: unknown): void {
  stdout.write(`${jsonText(value, 2)}\n`);
}

/** JSON for a terminal: also escapes the control characters that JSON leaves as they are. */
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

/** Bytes that are not UTF-8 are refused: they would be stored as replacement characters. */
function decoded(decoder: InstanceType<typeof TextDecoder>, chunk?: Uint8Array): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch (cause) {
    throw invalid("stdin is not UTF-8 text", cause);
  }
}

type Brush = (text: string) => string;

/** Marks text for the eye; where colour is unwanted it leaves the text as it is. */
export interface Paint {
  readonly bold: Brush;
  readonly dim: Brush;
  readonly red: Brush;
  readonly green: Brush;
  readonly yellow: Brush;
  readonly blue: Brush;
  readonly magenta: Brush;
  readonly cyan: Brush;
  readonly italic: Brush;
  readonly underline: Brush;
  readonly strikethrough: Brush;
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
    blue: brush("blue"),
    magenta: brush("magenta"),
    cyan: brush("cyan"),
    italic: brush("italic"),
    underline: brush("underline"),
    strikethrough: brush("strikethrough"),
  };
}

/** As Node decides it: FORCE_COLOR wins over NO_COLOR, and both over what the output is. */
function wantsColour(output: Output, env: Io["env"]): boolean {
  const { FORCE_COLOR, NO_COLOR, TERM } = env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== "0" && FORCE_COLOR !== "false";
  if (NO_COLOR !== undefined && NO_COLOR !== "") return false;
  return output.isTerminal && TERM !== "dumb";
}

/** Sentences about things that need attention, one line each. */
export function writeWarnings({ stderr, env }: Io, sentences: readonly string[]): void {
  const { yellow } = createPaint(stderr, env);
  for (const sentence of sentences) stderr.write(`${yellow(`! ${withoutControls(sentence)}`)}\n`);
}

/** One line of at most so many characters, for places where more would bury the rest. */
export function oneLine(text: string, charsMax: number): string {
  // Only the beginning is read: a tool may answer with megabytes.
  const line = withoutControls(text.slice(0, charsMax * 4))
    .replace(/\s+/g, " ")
    .trim();
  if (line.length > charsMax) return `${line.slice(0, charsMax - 1)}…`;
  // Joined blanks must not hide that the text was cut.
  const isWhole = text.length <= charsMax * 4 || text.slice(charsMax * 4).trim() === "";
  return isWhole ? line : `${line.slice(0, charsMax - 2)} …`;
}

/** Pads each column to its widest cell; the last one is left ragged. A cell is one line that steers no terminal. */
export function alignColumns(given: readonly (readonly string[])[]): readonly string[] {
  const rows = given.map((row) => row.map((cell) => withoutControls(cell).replace(/[\n\t]/g, " ")));
  const widths: number[] = [];
  for (const row of rows) for (const [column, cell] of row.entries()) widths[column] = widen(widths[column], cell);
  return rows.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

export function table(
  { dim }: Paint,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  return alignColumns([head, ...rows]).map((line, index) => (index === 0 ? dim(line) : line));
}

export function indented(text: string): readonly string[] {
  return withoutControls(text)
    .trim()
    .split("\n")
    .map((line) => `   ${line}`.trimEnd());
}

function widen(width: number | undefined, cell: string): number {
  return Math.max(width ?? 0, cell.length);
}

const UNITS = ["bytes", "KB", "MB", "GB", "TB"];

/** `3145728` as `3.1 MB`. */
export function bytesText(bytes: number): string {
  const power = bytes < 1_000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${power === 0 ? bytes : (bytes / 1_000 ** power).toFixed(1)} ${UNITS[power]}`;
}

const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const DAYS_COUNTED_MAX = 30;

/** How long ago a moment was, in one unit; long ago, the day itself. */
export function ageOf(unixSeconds: number, nowMs: number): string {
  const seconds = Math.max(0, Math.floor(nowMs / 1_000) - unixSeconds);
  if (seconds < MINUTE_S) return "just now";
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min ago`;
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h ago`;
  const days = Math.floor(seconds / DAY_S);
  if (days <= DAYS_COUNTED_MAX) return days === 1 ? "1 day ago" : `${days} days ago`;
  return new Date(unixSeconds * 1_000).toISOString().slice(0, 10);
}

/** How long ago a moment was, which is written as an ISO time. */
export function ageSince(moment: string, nowMs = Date.now()): string {
  return ageOf(Math.floor(Date.parse(moment) / 1_000), nowMs);
}

/** `5 min ago, 2026-05-04 10:20:30 UTC`. */
export function momentText(moment: string): string {
  return `${ageSince(moment)}, ${moment.replace("T", " ").replace(/\.\d+Z$/, " UTC")}`;
}
