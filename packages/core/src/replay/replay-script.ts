import { hash } from "node:crypto";
import { type Entry, EntryBody } from "../contract/entry.ts";
import { invalid, type RuntimeError } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import { jsonIn } from "../contract/json.ts";
import type { AssistantBlock, Content, Message, StopReason, ToolResult } from "../contract/message.ts";
import { PortableEntry } from "../contract/portable.ts";
import { assembleContext, hashContext } from "../state/context.ts";
import type { SessionState } from "../state/session-state.ts";
import { applyEntry, beginFold, type WholeState } from "../state/whole-state.ts";
import { entryLine } from "../transfer/portable-log.ts";
import { estimateTokens } from "../turn/tokens.ts";

/** The prompts, answers and tool results of a recorded session, in order. */
export interface ReplayScript {
  readonly model: string;
  readonly provider: string;
  readonly systemPrompt: string | undefined;
  readonly maxTokens: number | undefined;
  readonly startedAtMs: number;
  readonly steps: readonly ReplayStep[];
  readonly tools: readonly string[];
  readonly calls: number;
  /** Counted tokens per estimated token. */
  readonly scale: number;
  /** The summaries of the log's own compactions, by the number of answers before them. */
  readonly summaries: ReadonlyMap<number, string>;
  /** The parts of the log that are not replayed, one sentence each. */
  readonly notes: readonly string[];
}

export type ReplayStep =
  | { readonly kind: "turn"; readonly turn: RecordedTurn }
  | { readonly kind: "notice"; readonly atMs: number; readonly text: string; readonly source: string }
  /** By the number of messages before it. */
  | { readonly kind: "pin"; readonly atMs: number; readonly index: number; readonly pinned: boolean };

export interface RecordedTurn {
  readonly atMs: number;
  readonly prompt: Content;
  readonly instructions: readonly string[];
  readonly answers: readonly RecordedAnswer[];
}

export interface RecordedAnswer {
  readonly atMs: number;
  readonly blocks: readonly AssistantBlock[];
  readonly stopReason: StopReason;
  readonly usage: Usage | undefined;
  /** The key of its context; undefined if none was recorded. */
  readonly contextKey: string | undefined;
  readonly results: RecordedResults | undefined;
}

interface RecordedResults {
  readonly atMs: number;
  readonly byId: ReadonlyMap<string, ToolResult>;
}

const sha256 = (text: string): string => hash("sha256", text);
const plain = new WeakMap<Message, Message>();

/** Identifies a context by its content, without the ids and times of compactions, which differ in every replay. */
export function contextKey(messages: readonly Message[]): string {
  return hashContext(messages.map(withoutCompactionId), sha256);
}

function withoutCompactionId(message: Message): Message {
  if (message.role !== "user" || message.compaction_id === undefined) return message;
  const known = plain.get(message) ?? { ...message, compaction_id: "", created_at: "" };
  plain.set(message, known);
  return known;
}

/** Reads the replay script of a log; throws INVALID_PARAMS for one without a turn. */
export function scriptOf(entries: readonly Entry[], name: string): ReplayScript {
  const reading = createReading(entries, name);
  for (const entry of entries) {
    try {
      applyEntry(reading.state, entry);
    } catch (cause) {
      throw invalid(`${name}: the entry at seq ${entry.seq} contradicts those before it; give a whole log`, cause);
    }
    read(reading, entry);
  }
  const { state, steps, tools, answers, leftOut, totals } = reading;
  if (!steps.some(({ kind }) => kind === "turn")) {
    throw invalid(`${name}: nothing was said in it; give a log with a turn`);
  }
  const { model, provider, max_tokens } = reading.settings;
  return {
    model,
    provider,
    systemPrompt: reading.settings.system_prompt,
    maxTokens: max_tokens,
    startedAtMs: entries[0]?.timestamp_ms ?? 0,
    steps,
    tools: [...tools].sort(),
    calls: answers.count,
    scale: scaleOf(totals),
    summaries: reading.summaries,
    notes: [
      ...[...leftOut].map(([what, times]) => `${what} (${times})`),
      ...(state.settings.model === model ? [] : [`the model was changed; all calls are replayed as ${model}'s`]),
    ],
  };
}

interface Reading {
  readonly state: WholeState;
  readonly settings: SessionState["settings"];
  readonly steps: ReplayStep[];
  readonly tools: Set<string>;
  readonly summaries: Map<number, string>;
  readonly leftOut: Map<string, number>;
  readonly answers: { count: number };
  readonly totals: { counted: number; estimated: number };
  /** Instructions of the next turn. */
  instructions: string[];
  turn: { answers: Writable[] } | undefined;
  called: { readonly key: string; readonly estimated: number } | undefined;
}

type Writable = { -readonly [K in keyof RecordedAnswer]: RecordedAnswer[K] };

function createReading(entries: readonly Entry[], name: string): Reading {
  const [first] = entries;
  if (first?.body.kind !== "session_created") {
    throw invalid(`${name}: it does not begin with the creation of a session`);
  }
  return {
    state: beginFold(name, entries),
    settings: first.body.settings,
    steps: [],
    tools: new Set(),
    summaries: new Map(),
    leftOut: new Map(),
    answers: { count: 0 },
    totals: { counted: 0, estimated: 0 },
    instructions: [],
    turn: undefined,
    called: undefined,
  };
}

/** Entries that a replay leaves out, by kind. */
const LEFT_OUT: { readonly [K in EntryBody["kind"]]?: string } = {
  attempt_failed: "model calls that failed and were made again are not failed again",
  call_failed: "what was spent on calls without an answer is not spent again",
  extraction_attempt: "structured output is not asked for",
  compacted: "its own compactions are left out",
  compaction_failed: "its own compactions that failed are left out",
  compaction_undone: "undoing a compaction is left out",
  expanded: "what was brought back into the context is left out",
  approval_asked: "approvals are not asked for; calls get the results they got",
  rewritten: "rewrites of the transcript are left out",
};

function read(reading: Reading, { body, timestamp_ms: atMs }: Entry): void {
  const why = LEFT_OUT[body.kind];
  if (why !== undefined) reading.leftOut.set(why, (reading.leftOut.get(why) ?? 0) + 1);
  switch (body.kind) {
    case "turn_opened":
    case "imported":
    case "assistant":
    case "tool_results":
      readMessage(reading, body.message, { atMs, usage: body.kind === "assistant" ? body.usage : undefined });
      return;
    case "message_delivered":
      if (body.message.role === "user") readMessage(reading, body.message, { atMs, usage: undefined });
      else readNotice(reading, body.message, atMs);
      return;
    case "notice":
      readNotice(reading, body.message, atMs);
      return;
    case "model_called": {
      const messages = assembleContext(reading.state);
      reading.called = { key: contextKey(messages), estimated: estimateTokens(messages) };
      return;
    }
    case "compacted":
      if (body.summary !== "") reading.summaries.set(reading.answers.count, body.summary);
      return;
    case "pinned": {
      const index = saidBefore(reading.state, body.seq);
      reading.steps.push({ kind: "pin", atMs, index, pinned: body.pinned });
      return;
    }
    default:
      return;
  }
}

function saidBefore({ transcript }: WholeState, seq: number): number {
  const said = transcript.filter(({ message }) => message.role !== "system");
  return said.findIndex((placed) => placed.seq === seq);
}

function readMessage(
  reading: Reading,
  message: Message,
  { atMs, usage }: { readonly atMs: number; readonly usage: Usage | undefined },
): void {
  const saidMs = Date.parse(message.created_at);
  const when = Number.isNaN(saidMs) ? atMs : saidMs;
  switch (message.role) {
    case "user": {
      const answers: Writable[] = [];
      const { instructions } = reading;
      reading.turn = { answers };
      reading.instructions = [];
      reading.steps.push({ kind: "turn", turn: { atMs: when, prompt: message.content, instructions, answers } });
      return;
    }
    case "block_assistant": {
      const { blocks, stop_reason: stopReason } = message;
      const { called } = reading;
      for (const block of blocks) if (block.block_type === "tool_use") reading.tools.add(block.data.name);
      reading.turn?.answers.push({
        atMs: when,
        blocks,
        stopReason,
        usage,
        contextKey: called?.key,
        results: undefined,
      });
      reading.answers.count += 1;
      reading.called = undefined;
      if (usage === undefined || called === undefined || usage.estimated === true) return;
      reading.totals.counted += usage.input_tokens;
      reading.totals.estimated += called.estimated;
      return;
    }
    case "tool_results": {
      const answer = reading.turn?.answers.at(-1);
      const byId = new Map(message.results.map((result) => [result.tool_use_id, result]));
      if (answer !== undefined) answer.results = { atMs: when, byId };
      return;
    }
    case "system":
    case "system_notice":
      return;
  }
}

const INSTRUCTIONS = "instructions";

function readNotice(reading: Reading, message: Extract<Message, { role: "system_notice" }>, atMs: number): void {
  const { kind, body = "" } = message;
  if (kind === INSTRUCTIONS) {
    reading.instructions.push(body);
    return;
  }
  if (body === "") return;
  if (reading.state.isTurnOpen) {
    const why = "texts that were injected while a turn ran stand after it";
    reading.leftOut.set(why, (reading.leftOut.get(why) ?? 0) + 1);
  }
  reading.steps.push({ kind: "notice", atMs, text: body, source: kind });
}

const SCALE_MIN = 0.25;
const SCALE_MAX = 4;

/** Models count tokens differently; a log without counts uses the estimate. */
function scaleOf({ counted, estimated }: Reading["totals"]): number {
  if (counted === 0 || estimated === 0) return 1;
  return Math.min(SCALE_MAX, Math.max(SCALE_MIN, counted / estimated));
}

/** A longer line is no entry: stores reject larger ones. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;
const ENTRIES_MAX = 1_000_000;

/** A log as a file of entries, as in an exported session. Reading restores it exactly. */
export function writeRecordedLog(entries: readonly Entry[]): string {
  return entries.map(entryLine).join("");
}

/** Reads a log from a file's text; throws INVALID_PARAMS with the file and line. */
export function readRecordedLog(text: string, name: string): readonly Entry[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const refuse = (line: number, why: string): RuntimeError =>
    invalid(`${name}: line ${line} ${why}; give a session's log, one entry a line`);
  if (lines.length === 0) throw refuse(1, "is missing: the file is empty");
  if (lines.length > ENTRIES_MAX) throw refuse(ENTRIES_MAX + 1, `is one too many: a log has at most ${ENTRIES_MAX}`);
  const entries: Entry[] = [];
  let seq = 1;
  for (const [index, line] of lines.entries()) {
    const number = index + 1;
    if (line.length > LINE_CHARS_MAX) throw refuse(number, "is too long for an entry");
    const given = PortableEntry.safeParse(jsonIn(line)).data;
    const body = EntryBody.safeParse(given?.body).data;
    if (given === undefined || body === undefined) {
      throw refuse(number, number === lines.length ? "is cut off, or no entry of a log" : "is no entry of a log");
    }
    const entry = { ...given, body };
    if (number === 1 && entry.body.kind !== "session_created") throw refuse(1, "does not create a session");
    if (entry.seq !== seq) throw refuse(number, `has seq ${entry.seq} where ${seq} follows`);
    seq += entry.span;
    entries.push(entry);
  }
  return entries;
}
