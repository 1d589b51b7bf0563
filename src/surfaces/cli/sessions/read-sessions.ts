import type { SessionContext, SessionInfo } from "../../../contract/session.ts";
import { formatSessionRef } from "../../wire/session-refs.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { fieldsOf } from "../field-flags.ts";
import { interruptedExit, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { alignColumns, counted, grouped } from "../plain-text.ts";
import { ageOf } from "./age.ts";
import { shortId } from "./selector.ts";
import { printEvents } from "./session-events.ts";
import { printSessions } from "./session-list.ts";
import { transcriptLines } from "./transcript.ts";

export interface ListFlags {
  readonly limit: number;
  readonly json?: boolean;
}

export interface ShowFlags {
  readonly history?: boolean;
  readonly json?: boolean;
}

export interface ContextFlags {
  readonly json?: boolean;
}

export interface EventsFlags {
  readonly after: number;
  readonly follow?: boolean;
  readonly json?: boolean;
}

export async function showList({ io }: Invocation, { runtime, place }: Opened, flags: ListFlags): Promise<void> {
  const { sessions } = await runtime.dispatch("listSessions", fieldsOf("listSessions", flags));
  if (!flags.json) return printSessions(io, sessions);
  const refer = <T extends { session_id: string }>(one: T) => ({
    ...one,
    session_ref: formatSessionRef(place.realm, one.session_id),
  });
  writeJson(io, { sessions: sessions.map(refer) });
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
  { io }: Invocation,
  { runtime }: Opened,
  { id: session_id, ...flags }: ContextFlags & { readonly id: string },
): Promise<void> {
  const context = await runtime.dispatch("readContext", { session_id, ...fieldsOf("readContext", flags) });
  if (flags.json) return writeJson(io, context);
  const paint = createPaint(io.stdout, io.env);
  const shown = context.messages.map((message) => ({ ...message, part: kindIn(context, message.seq) }));
  for (const line of transcriptLines(shown, paint)) io.stdout.write(`${line}\n`);
  const { messages, estimated_tokens, sha256 } = context;
  const size = `${counted(messages.length, "message")}, about ${counted(estimated_tokens, "token")}`;
  io.stdout.write(`${paint.dim(`${size}, sha256 ${sha256}`)}\n`);
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
