import { setTimeout as sleep } from "node:timers/promises";
import { describeEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { RunResult } from "@rkat/core/contract/session";
import type { Runtime } from "@rkat/core/create-runtime";
import type { EventStream } from "@rkat/core/sessions/session-handle";
import type { OpenOptions } from "@rkat/node/open-runtime";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { noticeOf } from "./commands/turn-view.ts";
import { createPaint, type Io, oneLine, type Paint } from "./io.ts";
import type { Parts } from "./parts.ts";

/** Writes the demo at a pace one can follow, in a column that fits the terminal. */
export interface Page {
  readonly paint: Paint;
  readonly columns: number;
  line(text?: string): Promise<void>;
  /** Writes a text in as many lines as it needs, indented; `brush` paints each. */
  paragraph(text: string, indent: number, brush?: (line: string) => string): Promise<void>;
  /** Begins a line with who speaks; what is said follows with `say`. */
  speaker(name: string): void;
  /** Adds to the line, wrapped between words. */
  say(words: string): Promise<void>;
  endLine(): void;
}

const COLUMNS_MAX = 80;
const COLUMNS_MIN = 40;
const SPEAKER_COLUMNS = 10;
const WORD_MS = 15;
const LINE_MS = 250;

export function createPage(io: Io, isPaced: boolean): Page {
  const paint = createPaint(io.stdout, io.env);
  const columns = Math.min(COLUMNS_MAX, Math.max(COLUMNS_MIN, io.stdout.columns ?? COLUMNS_MAX));
  const pause = async (ms: number): Promise<void> => {
    if (isPaced) await sleep(ms, undefined, { signal: io.interrupt });
    else io.interrupt.throwIfAborted();
  };
  let column = 0;
  const breakLine = (): void => {
    io.stdout.write(`\n${" ".repeat(SPEAKER_COLUMNS)}`);
    column = SPEAKER_COLUMNS;
  };
  const put = (word: string): void => {
    if (word === "\n") {
      breakLine();
      return;
    }
    if (column + word.length > columns && column > SPEAKER_COLUMNS) breakLine();
    const shown = column === SPEAKER_COLUMNS ? word.trimStart() : word;
    io.stdout.write(shown);
    column += shown.length;
  };
  const endLine = (): void => {
    if (column > 0) io.stdout.write("\n");
    column = 0;
  };
  const line = async (text = ""): Promise<void> => {
    endLine();
    io.stdout.write(`${text}\n`);
    await pause(text === "" ? 0 : LINE_MS);
  };
  return {
    paint,
    columns,
    endLine,
    line,
    paragraph: async (text, indent, brush = (each) => each) => {
      for (const each of wrapped(text, columns - indent)) await line(brush(`${" ".repeat(indent)}${each}`));
    },
    speaker: (name) => {
      endLine();
      io.stdout.write(paint.bold(`  ${name}`.padEnd(SPEAKER_COLUMNS)));
      column = SPEAKER_COLUMNS;
    },
    say: async (words) => {
      for (const word of withoutControls(words).match(/\n|[^\S\n]+\S*|\S+/gu) ?? []) put(word);
      await pause(WORD_MS);
    },
  };
}

/** The lines of a text, broken between words; a word that is longer than a line has one of its own. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** One thing to watch. It claims what it shows, and the claims are checked. */
export interface Scene {
  readonly title: string;
  readonly story: string;
  play(stage: Stage): Promise<void>;
}

/** What a scene has to play with. */
export interface Stage {
  /** A runtime with the offline model. */
  readonly runtime: Runtime;
  /** A runtime with a scripted model. */
  openScripted(script: Parameters<Parts["createScriptedModel"]>[0]): Promise<Runtime>;
  /** A runtime that stores its sessions; opened again, it has them. */
  openKept(options?: Pick<OpenOptions, "compaction">): Promise<Runtime>;
  /** Shows a turn as it happens. */
  watch(prompt: string, start: (prompt: string) => EventStream): Promise<Watched>;
  /** Shows a value as JSON. */
  show(value: unknown): Promise<void>;
  /** Shows rows of the same columns. */
  table(rows: readonly Row[]): Promise<void>;
  /** Prints a text with a label. */
  print(word: string, sentence: string): Promise<void>;
  /** Prints a claim, and records whether it holds. */
  claim(sentence: string, isTrue: boolean): Promise<void>;
}

export type Row = Readonly<Record<string, string | number>>;

/** The events and the result of a turn. */
export interface Watched {
  readonly events: readonly AgentEvent[];
  readonly result: RunResult;
}

/** The events of one type, in their order. */
export function eventsOf<T extends AgentEvent["type"]>(
  { events }: Watched,
  type: T,
): readonly Extract<AgentEvent, { type: T }>[] {
  return events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);
}

export function createWatch(page: Page): Stage["watch"] {
  return async (prompt, start) => {
    page.speaker("you");
    for (const word of prompt.match(/(?<!\s)\s*\S+/gu) ?? []) await page.say(word);
    page.endLine();
    const stream = start(prompt);
    const events: AgentEvent[] = [];
    for await (const event of stream) {
      await showEvent(page, event, events.at(-1));
      events.push(event);
    }
    page.endLine();
    return { events, result: await stream.result };
  };
}

async function showEvent(page: Page, event: AgentEvent, before: AgentEvent | undefined): Promise<void> {
  const { dim, yellow } = page.paint;
  if (event.type === "text_delta") {
    if (before?.type !== "text_delta") page.speaker("model");
    return page.say(event.delta);
  }
  const indent = "          ";
  const line = toolLine(event);
  if (line !== undefined) return page.line(dim(`${indent}${oneLine(line, page.columns - indent.length)}`));
  if (event.type === "compaction_completed") return page.line(dim(`${indent}${describeEvent(event).text}`));
  const notice = noticeOf(event);
  if (notice !== undefined) return page.line(yellow(`${indent}! ${notice}`));
}

function toolLine(event: AgentEvent): string | undefined {
  if (event.type === "tool_call_requested") return `→ ${event.name} ${JSON.stringify(event.args)}`;
  if (event.type === "tool_execution_started") return `… ${event.name} started`;
  if (event.type !== "tool_execution_completed") return undefined;
  return `← ${event.name} ${event.is_error ? "failed" : "answered"}: ${event.result}`;
}
