import { setTimeout as sleep } from "node:timers/promises";
import { parentageOf } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { AssistantBlock, Content, Message } from "@rkat/core/contract/message";
import type { Cost } from "@rkat/core/contract/money";
import type { OperationOutput } from "@rkat/core/contract/operations";
import type { SessionContext, SessionInfo, SessionSummary } from "@rkat/core/contract/session-info";
import type { EventPage } from "@rkat/core/contract/session-operations";
import type { GoalState } from "@rkat/core/contract/wire/goal";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { formatSessionRef } from "@rkat/server/http/events";
import { command, type OpenedCall, onSession, print, show, type View } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
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
import { shortId, shortIds } from "../session-selector.ts";
import { lineOf, verboseLineOf } from "./turn-view.ts";

export interface ShowFlags {
  readonly history?: boolean;
  readonly json?: boolean;
}

/** Prints a session: its facts, then its last answer, or the whole conversation. */
export async function showSession(
  { io, paint, opened, id: session_id }: View,
  { history, json }: ShowFlags,
): Promise<void> {
  const { runtime, place } = opened;
  const info = await runtime.dispatch("readSession", { session_id });
  const transcript = history ? await runtime.dispatch("readHistory", { session_id }) : undefined;
  if (json) return writeJson(io, { ...(transcript ?? info), session_ref: formatSessionRef(place.realm, session_id) });
  const now = Date.now();
  const labels = Object.entries(info.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const rows = [
    ["session", info.session_id],
    ["state", info.state],
    ...(info.unfinished_turn === undefined ? [] : [["unfinished", unfinishedText(info.unfinished_turn)]]),
    ...(info.goal === undefined ? [] : [["goal", goalText(info.goal)]]),
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
  if (transcript !== undefined) return print(io, transcriptLines(transcript.messages, paint));
  if (info.last_assistant_text !== undefined)
    io.stdout.write(`${withoutControls(info.last_assistant_text).trimEnd()}\n\n`);
  if (info.state === "archived") return;
  const { storeFlag } = opened.place;
  const resume = `rkat resume ${shortId(session_id)}`;
  const finish = info.unfinished_turn === undefined ? "" : `Finish its turn with: ${resume}${storeFlag}. `;
  print(io, paint.dim(`${finish}Resume with: ${resume} PROMPT${storeFlag}`));
}

export function goalText({ until, phase, turns, max_turns, reason = "not judged yet" }: GoalState): string {
  const words = Object.values(until).join("");
  return withoutControls(`${phase.replace("_", " ")}, turn ${turns} of ${max_turns}: ${words} (${reason})`);
}

function unfinishedText({ since, attempt, missing }: NonNullable<SessionInfo["unfinished_turn"]>): string {
  const ran = `its process ended after ${since}, attempt ${attempt}`;
  return missing === undefined ? ran : `${ran}; missing here: ${missing.map(withoutControls).join(", ")}`;
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

/** The kind of the part that holds a seq: the narrowest, since a summary's seq may lie within a turn's. */
export function kindIn({ parts }: SessionContext, seq: number): string | undefined {
  const width = ([from, to]: readonly [number, number]): number => to - from;
  const holding = parts.filter(({ seqs: [from, to] }) => from <= seq && seq <= to);
  return holding.toSorted((a, b) => width(a.seqs) - width(b.seqs))[0]?.kind;
}

const COLUMNS_DEFAULT = 120;
const TITLE_CHARS_MIN = 20;

export function sessionTable(
  { stdout, env }: Io,
  { sessions, next_cursor }: OperationOutput<"listSessions">,
  withCost = false,
): readonly string[] {
  if (sessions.length === 0) return ["No sessions found."];
  const now = Date.now();
  const costs = (text: string): readonly string[] => (withCost ? [text] : []);
  const idOf = shortIds(sessions.map(({ session_id }) => session_id));
  const rows = sessions.map((session) => [
    idOf(session.session_id),
    ageOf(session.updated_at, now),
    grouped(session.message_count).padStart("MESSAGES".length),
    grouped(session.total_tokens).padStart("TOKENS".length),
    ...costs(costText(session.cost)),
    session.state,
    session.model,
    titleOf(session),
  ]);
  const head = ["ID", "CHANGED", "MESSAGES", "TOKENS", ...costs("COST"), "STATE", "MODEL", "BEGINS WITH"];
  const paint = createPaint(stdout, env);
  const lines = alignColumns(fitting([head, ...rows], stdout.columns ?? COLUMNS_DEFAULT));
  const hasMore = next_cursor !== undefined && stdout.isTerminal;
  return [
    ...lines.map((line, index) => paintRow(paint, line, sessions[index - 1]?.state)),
    ...(hasMore ? ["", paint.dim(`More with: rkat session list --cursor ${next_cursor}`)] : []),
  ];
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
/** How often a follower polls, since other processes send no signal to it. */
const LOOK_AGAIN_MS = 200;

export interface EventsFlags {
  readonly after: number;
  readonly follow?: boolean;
  readonly json?: boolean;
}

/** Prints a session's durable events, one line each; following, it continues until it is interrupted. */
export async function printEvents({ io, invocation, opened, id, flags }: OpenedCall<EventsFlags>): Promise<void> {
  const scope = { type: "session" as const, session_id: id };
  const format = flags.json ? (event: EventPage["events"][number]) => jsonText(event) : textLines(io);
  let sequence = flags.after;
  while (!io.interrupt.aborted) {
    const page = await opened.runtime.dispatch("listEvents", { scope, cursor: { scope, sequence } });
    for (const event of page.events) io.stdout.write(`${format(event)}\n`);
    sequence = page.events.at(-1)?.cursor.sequence ?? sequence;
    if (page.has_more) continue;
    if (!flags.follow) break;
    await sleep(LOOK_AGAIN_MS, undefined, { signal: io.interrupt }).catch(() => {}); // Interrupted: the loop ends.
  }
  invocation.exitWith(interruptedExit(io) ?? 0);
}

function textLines(io: Io): (event: EventPage["events"][number]) => string {
  const { dim } = createPaint(io.stdout, io.env);
  return ({ cursor, timestamp_ms, payload }) => {
    const time = new Date(timestamp_ms).toISOString().slice(11, 19);
    return `${dim(`${String(cursor.sequence).padStart(5)}  ${time}`)}  ${loggedLine(payload)}`;
  };
}

/** An event as `--verbose` prints it, and the prompts. */
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

/** The kind of a context part, unless it is obvious. */
function tagOf({ part }: Shown, { cyan }: Paint): string {
  return part === undefined || part === "turn" || part === "system" ? "" : `  ${cyan(part)}`;
}

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

/** Shortens long tool results; --json has them whole. */
function shortened(text: string): string {
  const lines = text.trimEnd().split("\n");
  if (lines.length <= RESULT_LINES_MAX) return text;
  return [...lines.slice(0, RESULT_LINES_MAX), `… ${lines.length - RESULT_LINES_MAX} more lines`].join("\n");
}

export const treeRow = command("session tree SESSION", {
  text: "Show a session with the sessions of its sub-agents: the state and the usage of each.",
  flags: () => [jsonFlag()],
  examples: [
    ["rkat session tree last", "the sub-agents it delegated to, and their usage"],
    ["rkat session tree last --json | jq .total_tokens", "of all of them together"],
  ],
  run: onSession(showTree),
});

interface Branch extends Pick<SessionSummary, "session_id" | "state" | "title" | "model" | "total_tokens" | "cost"> {
  /** Absent at the root of a tree that is no sub-agent's. */
  readonly agent?: string;
  readonly children: readonly Branch[];
}

const SESSIONS_MAX = 1_000;
const DEPTH_MAX = 16;
const TITLE_CHARS_MAX = 60;

async function showTree(call: OpenedCall): Promise<void> {
  const { opened, id, paint } = call;
  const root = await opened.runtime.dispatch("readSession", { session_id: id });
  const { dispatch } = opened.runtime;
  const count = { left: SESSIONS_MAX };
  const tree = await branchOf(root, { dispatch, count, depth: 0 });
  const all = flat(tree);
  const total_tokens = all.reduce((sum, { branch }) => sum + branch.total_tokens, 0);
  const cost = costOf(all.map(({ branch }) => branch));
  const isCut = count.left < 0;
  const parent = parentageOf(root)?.parent;
  const session_ref = formatSessionRef(opened.place.realm, id);
  const sums = { total_tokens, ...(cost === undefined ? {} : { cost }), ...(isCut ? { has_more: true } : {}) };
  show(call, { session_ref, ...(parent === undefined ? {} : { parent }), ...sums, tree }, () => {
    const idOf = shortIds(all.map(({ branch }) => branch.session_id));
    const rows = all.map(({ branch, prefix }) => [
      `${prefix}${branch.agent === undefined ? "session" : oneLine(branch.agent, TITLE_CHARS_MAX)}`,
      idOf(branch.session_id),
      branch.state,
      `${grouped(branch.total_tokens)} tokens`,
      costText(branch.cost),
      oneLine(branch.title, TITLE_CHARS_MAX),
    ]);
    const more = isCut ? `; more than ${grouped(SESSIONS_MAX)} are not shown` : "";
    const sum = `${counted(all.length, "session")}, ${grouped(total_tokens)} tokens, ${costText(cost)}${more}`;
    return [...alignColumns(rows), paint.dim(sum)];
  });
}

interface Growing {
  readonly dispatch: Dispatch;
  /** How many more sessions the tree may have; below 0 when there were more. */
  readonly count: { left: number };
  readonly depth: number;
}

async function branchOf(session: Omit<SessionSummary, "title"> & { title: string }, growing: Growing): Promise<Branch> {
  const { session_id, state, title, model, total_tokens, cost } = session;
  const agent = parentageOf(session)?.agent;
  const { dispatch, count, depth } = growing;
  const input = { labels: { parent: session_id }, archived: true };
  const { sessions } = depth >= DEPTH_MAX ? { sessions: [] } : await dispatch("listSessions", input);
  const children: Branch[] = [];
  // In the order of their tasks.
  for (const child of sessions.toSorted((one, other) => (one.session_id < other.session_id ? -1 : 1))) {
    if (parentageOf(child)?.parent !== session_id) continue;
    count.left -= 1;
    if (count.left < 0) break;
    children.push(await branchOf(child, { ...growing, depth: depth + 1 }));
  }
  const own = { session_id, ...(agent === undefined ? {} : { agent }), state, title, model, total_tokens };
  return { ...own, ...(cost === undefined ? {} : { cost }), children };
}

interface Row {
  readonly branch: Branch;
  /** The branch lines before it. */
  readonly prefix: string;
}

function flat(branch: Branch, prefix = "", below = ""): readonly Row[] {
  const rows = branch.children.flatMap((child, index) => {
    const isLast = index === branch.children.length - 1;
    return flat(child, `${below}${isLast ? "└─ " : "├─ "}`, `${below}${isLast ? "   " : "│  "}`);
  });
  return [{ branch, prefix }, ...rows];
}

/** What all of them cost; partial where of one of them no price is known. */
function costOf(branches: readonly Branch[]): Cost | undefined {
  const known = branches.flatMap(({ cost }) => cost ?? []);
  if (known.length === 0) return undefined;
  const amount = known.reduce((sum, cost) => sum + cost.amount, 0);
  const isPartial = known.some(({ partial }) => partial === true) || known.length < branches.length;
  return { amount, currency: "USD", ...(isPartial ? { partial: true } : {}) };
}
