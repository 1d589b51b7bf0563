import { setTimeout as sleep } from "node:timers/promises";
import type { AgentEvent } from "../../../contract/event.ts";
import type { EventPage } from "../../../contract/event-page.ts";
import type { AssistantBlock, Content, Message } from "../../../contract/message.ts";
import type { SessionContext } from "../../../contract/session-context.ts";
import type { SessionInfo, SessionSummary } from "../../../contract/session-info.ts";
import { parentageOf } from "../../../contract/sub-agents.ts";
import type { Runtime } from "../../../runtime.ts";
import { formatSessionRef } from "../../wire/events.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { callBars, contextBar } from "../context-strip.ts";
import { fieldsOf } from "../flags.ts";
import {
  ageOf,
  alignColumns,
  costText,
  counted,
  createPaint,
  grouped,
  type Io,
  interruptedExit,
  jsonText,
  oneLine,
  type Paint,
  writeJson,
} from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { shortId, shortIds } from "../session-selector.ts";
import { lineOf, verboseLineOf } from "./turn-view.ts";

export interface ListFlags {
  readonly limit: number;
  readonly cost?: boolean;
  readonly json?: boolean;
}

export interface ShowFlags {
  readonly history?: boolean;
  readonly json?: boolean;
}

export interface ContextFlags {
  readonly calls?: boolean;
  readonly json?: boolean;
}

export interface CallsFlags {
  readonly json?: boolean;
}

export interface EventsFlags {
  readonly after: number;
  readonly follow?: boolean;
  readonly json?: boolean;
}

export async function showList({ io }: Invocation, { runtime, place }: Opened, flags: ListFlags): Promise<void> {
  const { sessions, ...rest } = await runtime.dispatch("listSessions", fieldsOf("listSessions", flags));
  if (!flags.json) {
    printSessions(io, sessions, flags.cost === true);
    const more = rest.next_cursor;
    if (more !== undefined && io.stdout.isTerminal)
      io.stdout.write(`\n${createPaint(io.stdout, io.env).dim(`More with: rkat session list --cursor ${more}`)}\n`);
    return;
  }
  const refer = <T extends { session_id: string }>(one: T) => ({
    ...one,
    session_ref: formatSessionRef(place.realm, one.session_id),
  });
  writeJson(io, { sessions: sessions.map(refer), ...rest });
}

export async function showSession(
  { io }: Invocation,
  opened: Opened,
  { id: session_id, history, json }: ShowFlags & { readonly id: string },
): Promise<void> {
  const { runtime, place } = opened;
  const session_ref = formatSessionRef(place.realm, session_id);
  const info = await runtime.readSession(session_id);
  const transcript = history ? await runtime.dispatch("readHistory", { session_id }) : undefined;
  if (json) return writeJson(io, { ...(transcript ?? info), session_ref });
  const paint = createPaint(io.stdout, io.env);
  const now = Date.now();
  const labels = Object.entries(info.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const rows = [
    ["session", info.session_id],
    ["state", info.state],
    ["model", `${info.model} (${info.provider})`],
    ["messages", grouped(info.message_count)],
    ["tokens", grouped(info.total_tokens)],
    ...(info.cost === undefined ? [] : [["cost", costText(info.cost)]]),
    ["created", ageOf(info.created_at, now)],
    ["changed", ageOf(info.updated_at, now)],
    ...(labels.length === 0 ? [] : [["labels", labels.join(", ")]]),
    ...(await compactedRow(opened, info)),
  ];
  io.stdout.write(`${alignColumns(rows).join("\n")}\n\n`);
  if (transcript !== undefined) return io.stdout.write(`${transcriptLines(transcript.messages, paint).join("\n")}\n`);
  if (info.last_assistant_text !== undefined)
    io.stdout.write(`${withoutControls(info.last_assistant_text).trimEnd()}\n\n`);
  if (info.state === "archived") return;
  io.stdout.write(`${paint.dim(`Go on with: rkat resume ${shortId(session_id)} PROMPT`)}\n`);
}

/** How often a session was compacted. Only a session that was is read for it. */
async function compactedRow({ runtime, config }: Opened, info: SessionInfo): Promise<readonly (readonly string[])[]> {
  const { session_id, session_compaction_cadence: cadence } = info;
  const isKnown = config.features.includes("session-compaction");
  if (!isKnown || cadence?.last_compaction_boundary_index === undefined) return [];
  const { compactions } = await runtime.dispatch("listCompactions", { session_id });
  const undone = compactions.filter((compaction) => compaction.undone).length;
  const times = `${counted(compactions.length, "time")}${undone === 0 ? "" : `, ${grouped(undone)} undone`}`;
  return compactions.length === 0 ? [] : [["compacted", times]];
}

export async function showContext(
  invocation: Invocation,
  opened: Opened,
  { id: session_id, calls, ...flags }: ContextFlags & { readonly id: string },
): Promise<void> {
  if (calls === true) return showCalls(invocation, opened, { id: session_id, ...flags });
  const { io } = invocation;
  const { runtime } = opened;
  const context = await runtime.dispatch("readContext", { session_id, ...fieldsOf("readContext", flags) });
  if (flags.json) return writeJson(io, context);
  const paint = createPaint(io.stdout, io.env);
  const shown = context.messages.map((message) => ({ ...message, part: kindIn(context, message.seq) }));
  for (const line of transcriptLines(shown, paint)) io.stdout.write(`${line}\n`);
  const { messages, estimated_tokens, sha256 } = context;
  const size = `${counted(messages.length, "message")}, about ${counted(estimated_tokens, "token")}`;
  io.stdout.write(`${contextBar(context, io).join("\n")}\n`);
  io.stdout.write(`${paint.dim(`${size}, sha256 ${sha256}`)}\n`);
}

export async function showCalls(
  { io }: Invocation,
  { runtime }: Opened,
  { id: session_id, ...flags }: CallsFlags & { readonly id: string },
): Promise<void> {
  const answer = await runtime.dispatch("listModelCalls", { session_id, ...fieldsOf("listModelCalls", flags) });
  if (flags.json) return writeJson(io, answer);
  if (answer.calls.length === 0) {
    io.stdout.write("No model was called.\n");
    return;
  }
  io.stdout.write(`${callBars(answer, io).join("\n")}\n`);
  const { next_before_seq } = answer;
  if (next_before_seq === undefined) return;
  const { dim } = createPaint(io.stdout, io.env);
  io.stdout.write(`${dim(`Older ones: rkat session calls ${shortId(session_id)} --before ${next_before_seq}`)}\n`);
}

/** The kind of the part that holds a seq: the narrowest, since a summary's seq may lie within a turn's. */
function kindIn({ parts }: SessionContext, seq: number): string | undefined {
  const width = ([from, to]: readonly [number, number]): number => to - from;
  const holding = parts.filter(({ seqs: [from, to] }) => from <= seq && seq <= to);
  return holding.toSorted((a, b) => width(a.seqs) - width(b.seqs))[0]?.kind;
}

export async function showEvents(
  { io, exitWith }: Invocation,
  { runtime }: Opened,
  { id: session_id, after, follow, json }: EventsFlags & { readonly id: string },
): Promise<void> {
  await printEvents(io, runtime, { session_id, after, isFollowing: follow === true, isJson: json === true });
  exitWith(interruptedExit(io) ?? 0);
}

const COLUMNS_DEFAULT = 120;
const TITLE_CHARS_MIN = 20;

/** Prints sessions, a line each, newest first. */
function printSessions(io: Io, sessions: readonly SessionSummary[], withCost: boolean): void {
  if (sessions.length === 0) {
    io.stdout.write("No sessions found.\n");
    return;
  }
  const now = Date.now();
  const costs = (text: string): readonly string[] => (withCost ? [text] : []);
  const rows = [["ID", "CHANGED", "MESSAGES", "TOKENS", ...costs("COST"), "STATE", "MODEL", "BEGINS WITH"]];
  const idOf = shortIds(sessions.map(({ session_id }) => session_id));
  for (const session of sessions) {
    rows.push([
      idOf(session.session_id),
      ageOf(session.updated_at, now),
      grouped(session.message_count).padStart("MESSAGES".length),
      grouped(session.total_tokens).padStart("TOKENS".length),
      ...costs(costText(session.cost)),
      session.state,
      session.model,
      titleOf(session),
    ]);
  }
  const paint = createPaint(io.stdout, io.env);
  for (const [index, line] of alignColumns(fitting(rows, io.stdout.columns ?? COLUMNS_DEFAULT)).entries()) {
    io.stdout.write(`${paintRow(paint, line, sessions[index - 1]?.state)}\n`);
  }
}

/** A sub-agent's session says whose it is. */
function titleOf(session: SessionSummary): string {
  const child = parentageOf(session);
  return child === undefined ? session.title : `↳ ${child.agent}: ${session.title}`;
}

function paintRow({ dim, yellow, green }: Paint, line: string, state: SessionSummary["state"] | undefined): string {
  if (state === undefined) return dim(line);
  if (state === "interrupted" || state === "failed") return yellow(line);
  return state === "running" ? green(line) : line;
}

/** The last column takes what the others leave of the line. */
function fitting(rows: readonly (readonly string[])[], columns: number): readonly (readonly string[])[] {
  const others = Math.max(
    ...alignColumns(rows.map((row) => [...row.slice(0, -1), "|"])).map((line) => line.length - 1),
  );
  const room = Math.max(TITLE_CHARS_MIN, columns - others - 1);
  return rows.map((row) => [...row.slice(0, -1), oneLine(row.at(-1) ?? "", room)]);
}

const TEXT_CHARS_MAX = 160;
/** Another process tells nobody when it appends, so a follower looks again this often. */
const LOOK_AGAIN_MS = 200;

interface EventsOptions {
  readonly after: number;
  readonly isFollowing: boolean;
  readonly isJson: boolean;
}

/** Prints a session's durable events, a line each; following, it goes on until it is interrupted. */
async function printEvents(
  io: Io,
  runtime: Runtime,
  { session_id, after, isFollowing, isJson }: EventsOptions & { readonly session_id: string },
): Promise<void> {
  const scope = { type: "session" as const, session_id };
  const format = isJson ? (event: EventPage["events"][number]) => jsonText(event) : textLines(io);
  let sequence = after;
  while (!io.interrupt.aborted) {
    const page = await runtime.dispatch("listEvents", { scope, cursor: { scope, sequence } });
    for (const event of page.events) io.stdout.write(`${format(event)}\n`);
    sequence = page.events.at(-1)?.cursor.sequence ?? sequence;
    if (page.has_more) continue;
    if (!isFollowing) return;
    await sleep(LOOK_AGAIN_MS, undefined, { signal: io.interrupt }).catch(() => {}); // Interrupted: the loop ends.
  }
}

function textLines(io: Io): (event: EventPage["events"][number]) => string {
  const { dim } = createPaint(io.stdout, io.env);
  return ({ cursor, timestamp_ms, payload }) => {
    const time = new Date(timestamp_ms).toISOString().slice(11, 19);
    return `${dim(`${String(cursor.sequence).padStart(5)}  ${time}`)}  ${loggedLine(payload)}`;
  };
}

/** As it is told while it happens, and what was asked. */
function loggedLine(event: AgentEvent): string {
  if (event.type !== "run_started") return verboseLineOf(event) ?? lineOf(event);
  const { prompt } = event;
  return `asked: ${oneLine(typeof prompt === "string" ? prompt : JSON.stringify(prompt), TEXT_CHARS_MAX)}`;
}

const RESULT_LINES_MAX = 20;
const ARGS_CHARS_MAX = 200;

/** A message with its place in the log and, in a context, why it is shown. */
type Shown = Message & { readonly seq: number; readonly part?: string | undefined };

/** A transcript to read: each message with its index, which `fork --at` counts in, and its seq. */
export function transcriptLines(messages: readonly Shown[], paint: Paint): readonly string[] {
  return messages.flatMap((message, index) => [
    `${paint.bold(`${index}  ${SPEAKERS[message.role]}`)}  ${paint.dim(`seq ${message.seq}`)}${tagOf(message, paint)}`,
    ...bodyOf(message)
      .flatMap((text) => withoutControls(text).trimEnd().split("\n"))
      .map((line) => `   ${line}`),
    "",
  ]);
}

/** What a part of a context is, unless it goes without saying. */
function tagOf({ part }: Shown, { cyan }: Paint): string {
  return part === undefined || part === "turn" || part === "system" ? "" : `  ${cyan(part)}`;
}

/** Who says what, as one text. */
export function messageText(message: Message): string {
  return `${SPEAKERS[message.role]}: ${bodyOf(message).join("\n")}`;
}

const SPEAKERS: Readonly<Record<Message["role"], string>> = {
  system: "system",
  system_notice: "notice",
  user: "you",
  block_assistant: "model",
  tool_results: "tools",
};

function bodyOf(message: Message): readonly string[] {
  switch (message.role) {
    case "system":
      return [message.content];
    case "system_notice":
      return [message.body ?? message.kind];
    case "user":
      return [contentText(message.content)];
    case "block_assistant": {
      const cut = message.stop_reason === "cancelled" ? ["(cut off here)"] : [];
      return [...message.blocks.map(blockText), ...cut];
    }
    case "tool_results":
      return message.results.map(
        ({ content, is_error }) => `${is_error ? "✗" : "←"} ${shortened(contentText(content))}`,
      );
  }
}

function blockText(block: AssistantBlock): string {
  switch (block.block_type) {
    case "text":
      return block.data.text;
    case "reasoning":
      return `(thought) ${block.data.text}`;
    case "tool_use":
      return `→ ${block.data.name} ${oneLine(JSON.stringify(block.data.args), ARGS_CHARS_MAX)}`;
    case "server_tool_content":
      return `→ ${block.data.name}, run by the provider`;
    case "image":
      return `(${block.data.media_type})`;
  }
}

function contentText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `(${block.media_type})`)).join("\n");
}

/** Tools may answer with more than anybody reads; the whole is in the JSON. */
function shortened(text: string): string {
  const lines = text.trimEnd().split("\n");
  if (lines.length <= RESULT_LINES_MAX) return text;
  return [...lines.slice(0, RESULT_LINES_MAX), `… ${lines.length - RESULT_LINES_MAX} more lines`].join("\n");
}
