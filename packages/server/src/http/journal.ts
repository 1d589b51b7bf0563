import { withoutControls } from "@rkat/core/text/terminal-text";

/** How a server's log is written: lines of `key=value`, lines of JSON, or only its own sentences. */
export const LOG_FORMS = ["text", "json", "off"] as const;
export type LogForm = (typeof LOG_FORMS)[number];

/** Facts of a line; what is undefined is left out. */
export type Facts = Readonly<Record<string, string | number | boolean | undefined>>;

export type Level = "info" | "warn" | "error";

/** Where the lines of a server go. It never throws, and nothing waits for it. */
export interface Journal {
  /** A sentence of the server itself, written in every form. */
  say(sentence: string, level?: Level): void;
  pass(line: string): void;
  /** A line about something that happened; there is none where the log is off. */
  log(level: Level, kind: string, facts: Facts): void;
  dropped(): number;
}

/** What lines are written to: a stream, of which a test needs no more than `write`. */
export interface LineStream {
  write(text: string, done?: (error?: Error | null) => void): unknown;
  readonly writableLength?: number;
  readonly destroyed?: boolean;
}

export interface JournalParts {
  readonly stream: LineStream;
  readonly form: LogForm;
  /** The name the server was called by, which its sentences begin with. */
  readonly command: string;
  readonly now: () => number;
}

/** A reader that has stopped reading must cost neither the server's time nor its memory. */
const QUEUE_BYTES_MAX = 1_048_576;

export function createJournal({ stream, form, command, now }: JournalParts): Journal {
  let dropped = 0;
  let unreported = 0;
  const spell = form === "json" ? spellJson : spellText;
  const line = (level: Level, kind: string, facts: Facts): string =>
    `${spell({ time: new Date(now()).toISOString(), level, kind, ...facts })}\n`;
  const settle = (error?: Error | null): void => {
    if (error !== undefined && error !== null) dropped += 1;
  };
  const write = (text: string): void => {
    if (stream.destroyed === true || (stream.writableLength ?? 0) >= QUEUE_BYTES_MAX) {
      dropped += 1;
      unreported += 1;
      return;
    }
    const missing = unreported;
    unreported = 0;
    stream.write(missing === 0 ? text : `${missingLine(missing)}${text}`, settle);
  };
  const missingLine = (lines: number): string => {
    if (form === "off") return `${command}: ${lines} lines before this one could not be written\n`;
    return line("warn", "dropped", { lines });
  };
  return {
    say: (sentence, level = "info") => {
      if (form === "json") write(line(level, "notice", { message: sentence }));
      else write(`${command}: ${withoutControls(sentence)}\n`);
    },
    pass: (text) => {
      if (form === "json") write(line("info", "notice", { message: text }));
      else write(`${withoutControls(text)}\n`);
    },
    log: (level, kind, facts) => {
      if (form !== "off") write(line(level, kind, facts));
    },
    dropped: () => dropped,
  };
}

function spellJson(facts: Facts): string {
  return escaped(JSON.stringify(facts));
}

const PLAIN = /^[\w./:@{}+,-]+$/;

function spellText(facts: Facts): string {
  const words = Object.entries(facts).flatMap(([name, value]) => {
    if (value === undefined) return [];
    const text = String(value);
    return [`${name}=${PLAIN.test(text) ? text : escaped(JSON.stringify(text))}`];
  });
  return words.join(" ");
}

/** JSON leaves what steers a terminal beyond ASCII, and what turns a line around, as it is. */
function escaped(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
