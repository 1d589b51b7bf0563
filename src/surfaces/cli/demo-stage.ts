import { describeEvent } from "../../contract/describe-event.ts";
import type { AgentEvent } from "../../contract/event.ts";
import type { RunResult } from "../../contract/session.ts";
import type { Runtime } from "../../runtime.ts";
import type { OpenOptions } from "../../runtime-on-disk.ts";
import type { EventStream } from "../../service/session-handle.ts";
import { noticeOf } from "./commands/turn-view.ts";
import type { Page } from "./demo-page.ts";
import { oneLine } from "./io.ts";
import type { Parts } from "./parts.ts";

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
  /** A runtime whose model says what the scene wrote for it. */
  openScripted(script: Parameters<Parts["createScriptedModel"]>[0]): Promise<Runtime>;
  /** A runtime that keeps what happens in it; opened again, it has what was kept. */
  openKept(options?: Pick<OpenOptions, "compaction">): Promise<Runtime>;
  /** Shows a turn as it happens. */
  watch(prompt: string, start: (prompt: string) => EventStream): Promise<Watched>;
  /** Shows a value as JSON. */
  show(value: unknown): Promise<void>;
  /** Shows rows of the same columns. */
  table(rows: readonly Row[]): Promise<void>;
  /** Says something beside a word that tells what it is about. */
  tell(word: string, sentence: string): Promise<void>;
  /** Says what was to be seen, and remembers whether it was. */
  claim(sentence: string, isTrue: boolean): Promise<void>;
}

export type Row = Readonly<Record<string, string | number>>;

/** Everything a turn told. */
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
