import { createHash } from "node:crypto";
import { type Entry, EntryBody } from "../contract/entry.ts";
import { invalid, messageOf as messageOfError, type RuntimeError } from "../contract/error.ts";
import { invalidInput, requireNames } from "../contract/input.ts";
import { isJsonTable } from "../contract/json.ts";
import type { Message } from "../contract/message.ts";
import { PortableEntry } from "../contract/portable.ts";
import type { Clock } from "../ports/clock.ts";
import type { EventLog } from "../ports/store.ts";
import { blobsIn } from "../sessions/media.ts";
import { spanOf } from "../state/entry-events.ts";
import { applyUnshown, beginFold, showAnew, type WholeState } from "../state/whole-state.ts";

/** The longest quotation of user input in an error. */
const WHY_CHARS_MAX = 300;

export function refused(place: string, why: string): RuntimeError {
  const short = why.length > WHY_CHARS_MAX ? `${why.slice(0, WHY_CHARS_MAX).toWellFormed()}…` : why;
  return invalid(`${place}: ${short}`);
}

/** An imported entry as it was written; throws INVALID_PARAMS unless it is valid and has the next seq. */
export function readEntry(given: unknown, { place, seq }: { readonly place: string; readonly seq: number }): Entry {
  const read = PortableEntry.safeParse(given);
  if (!read.success) throw refused(place, invalidInput(read.error).message);
  const { body, ...rest } = read.data;
  if (rest.seq !== seq) throw refused(place, `seq: it is ${rest.seq}, and ${seq} follows`);
  try {
    requireNames(body, ["body"]);
  } catch (thrown) {
    throw refused(place, messageOfError(thrown));
  }
  const parsed = EntryBody.safeParse(body);
  if (!parsed.success) {
    const [first] = parsed.error.issues;
    throw refused(place, `${["body", ...(first?.path ?? [])].join(".")}: ${first?.message ?? "it is no entry"}`);
  }
  const unknown = unknownIn(body, parsed.data, ["body"]);
  if (unknown !== undefined) throw refused(place, `${unknown}: there is no such field in an entry`);
  if (withoutServers(parsed.data) !== parsed.data) {
    const why = "body.settings.mcp_servers.added: an import starts no servers; leave it out, and add them after it";
    throw refused(place, why);
  }
  const isFirst = seq === 1;
  if ((parsed.data.kind === "session_created") !== isFirst) {
    throw refused(place, isFirst ? "body.kind: a log begins with session_created" : "body.kind: a log begins once");
  }
  const span = spanOf(parsed.data);
  if (span !== rest.span) throw refused(place, `span: it is ${rest.span}, and an entry of this kind takes ${span}`);
  // Verbatim, since hashes were made of the original bytes. The schema accepts it.
  return { ...rest, body: body as EntryBody };
}

/** An entry without the MCP servers that the session added; a log from elsewhere must not choose what is started here. */
export function withoutServers(body: EntryBody): EntryBody {
  if (!("settings" in body) || body.settings.mcp_servers?.added === undefined) return body;
  const { added: _started, ...mcp_servers } = body.settings.mcp_servers;
  return { ...body, settings: { ...body.settings, mcp_servers } };
}

/** The path of the first field that a schema dropped: it must be neither hidden nor lost. */
function unknownIn(given: unknown, read: unknown, path: readonly string[]): string | undefined {
  if (given === read || typeof given !== "object" || given === null) return undefined;
  for (const [name, value] of Object.entries(given)) {
    const at = [...path, name];
    if (typeof read !== "object" || read === null || !Object.hasOwn(read, name)) return at.join(".");
    const found = unknownIn(value, (read as Readonly<Record<string, unknown>>)[name], at);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A version 8 UUID of a hash in hexadecimal digits. */
export function asUuid(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** An entry as a line of a file; its log is hashed by these lines. */
export function entryLine({ seq, span, timestamp_ms, body }: Entry<unknown>): string {
  return `${JSON.stringify({ seq, span, timestamp_ms, body })}\n`;
}

export function endOf({ seq, span }: Pick<Entry<unknown>, "seq" | "span">): number {
  return seq + span - 1;
}

const ENTRIES_A_PAGE = 200;

/** The entries between two seqs, in pages; ends early with the log. */
export async function* entryPages<B>(
  log: Pick<EventLog<B>, "read">,
  id: string,
  { after = 0, upTo = Number.POSITIVE_INFINITY }: { readonly after?: number; readonly upTo?: number } = {},
): AsyncGenerator<readonly Entry<B>[]> {
  for (let seq = after; seq < upTo; ) {
    const page = await log.read(id, seq + 1, ENTRIES_A_PAGE);
    const last = page.at(-1);
    if (last === undefined) return;
    yield page.filter((entry) => entry.seq <= upTo);
    if (page.length < ENTRIES_A_PAGE) return;
    seq = endOf(last);
  }
}

/** A page stays below this size, which every wire accepts. */
const PAGE_CHARS_MAX = 4 * 1_024 * 1_024;

/** Part of a log for transfer. */
interface LogPage<B> {
  readonly entries: Entry<B>[];
  readonly last_seq: number;
  readonly next_after?: number;
}

/** As many entries after a seq as one answer can hold, at least one. */
export async function logPage<B>(
  read: readonly Entry<B>[],
  { after, last_seq }: { readonly after: number; readonly last_seq: number },
  { yieldToEventLoop }: Pick<Clock, "yieldToEventLoop">,
): Promise<LogPage<B>> {
  const [first] = read;
  if (first !== undefined && first.seq <= after) {
    const message = `after: seq ${after} lies within the entry at ${first.seq}; give the next_after of an earlier answer`;
    throw invalid(message);
  }
  const entries: Entry<B>[] = [];
  let chars = 0;
  for (const { seq, span, timestamp_ms, body } of read) {
    chars += JSON.stringify(body).length;
    if (chars > PAGE_CHARS_MAX && entries.length > 0) break;
    entries.push({ seq, span, timestamp_ms, body });
    await yieldToEventLoop();
  }
  const last = entries.at(-1);
  const end = last === undefined ? last_seq : last.seq + last.span - 1;
  return { entries, last_seq, ...(end < last_seq ? { next_after: end } : {}) };
}

/** Appends entries with their times to a log that the caller holds; resolves with its last seq. */
export async function appendEntries<B>(
  { log, clock }: { readonly log: EventLog<B>; readonly clock: Pick<Clock, "yieldToEventLoop"> },
  id: string,
  { after, entries }: { readonly after: number; readonly entries: readonly Entry<B>[] },
): Promise<number> {
  let seq = after;
  for (const moment of momentsOf(entries)) {
    const added = moment.map(({ span, body }) => ({ span, body }));
    const last = (await log.append(id, seq, added, moment[0]?.timestamp_ms)).at(-1);
    seq = last === undefined ? seq : endOf(last);
    await clock.yieldToEventLoop();
  }
  return seq;
}

/** The size of one append; a larger entry is appended alone. */
const MOMENT_CHARS_MAX = 1024 * 1024;

/** Consecutive entries of one time: an append has one time. */
function momentsOf<B>(entries: readonly Entry<B>[]): readonly (readonly Entry<B>[])[] {
  const moments: Entry<B>[][] = [];
  let chars = 0;
  for (const entry of entries) {
    const moment = moments.at(-1);
    const own = JSON.stringify(entry.body).length;
    chars += own;
    if (moment?.[0]?.timestamp_ms === entry.timestamp_ms && chars <= MOMENT_CHARS_MAX) moment.push(entry);
    else {
      moments.push([entry]);
      chars = own;
    }
  }
  return moments;
}

/** Folds and hashes a log as it arrives: a log that cannot be folded could never be opened. */
export interface LogCheck {
  add(entry: Entry, place: string): void;
  /** The hash of all entries; throws INVALID_PARAMS if the context cannot be folded. */
  end(place: string): string;
}

export function createLogCheck(sessionId: string): LogCheck {
  const digest = createHash("sha256");
  let state: WholeState | undefined;
  const folding = (place: string, fold: () => void): void => {
    try {
      fold();
    } catch (thrown) {
      throw refused(place, `the log cannot be read from here on: ${messageOfError(thrown)}`);
    }
  };
  return {
    add: (entry, place) => {
      digest.update(entryLine(entry));
      folding(place, () => {
        state ??= beginFold(sessionId, [entry]);
        applyUnshown(state, entry);
      });
    },
    end: (place) => {
      const whole = state;
      if (whole !== undefined) folding(place, () => showAnew(whole));
      return digest.digest("hex");
    },
  };
}

const BLOB_ID = /sha256:[0-9a-f]{64}/g;

/**
 * The blobs that an entry names: attachments of users and outputs of tools. An id in mere text proves nothing: anyone who
 * knows an id can write it.
 */
export function blobsNamedIn(body: EntryBody): readonly string[] {
  const ids = messagesIn(body).flatMap((message) => {
    if (message.role === "user") return blobsIn(message.content);
    return message.role === "tool_results" ? (JSON.stringify(message.results).match(BLOB_ID) ?? []) : [];
  });
  if (body.kind === "results_held") ids.push(...(JSON.stringify(body.results).match(BLOB_ID) ?? []));
  if (body.kind === "session_created" && body.pending_prompt !== undefined) ids.push(...blobsIn(body.pending_prompt));
  return [...new Set(ids)];
}

function messagesIn(body: EntryBody): readonly Message[] {
  if ("message" in body) return [body.message];
  return body.kind === "rewritten" && "messages" in body.to ? body.to.messages : [];
}

/** The depth of imported JSON: deeper values could not be serialised again. */
const DEPTH_MAX = 500;

/** The JSON object of a line; throws INVALID_PARAMS if it is invalid or nested too deep. */
export function readJson(line: string, place: string): Readonly<Record<string, unknown>> {
  if (isTooDeep(line)) throw refused(place, `it is nested deeper than ${DEPTH_MAX}`);
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw refused(place, "it is not valid JSON, or cut off");
  }
  if (!isJsonTable(value)) throw refused(place, "it is not a JSON object");
  return value;
}

function isTooDeep(text: string): boolean {
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const mark = text.charCodeAt(at);
    if (isInString) {
      if (mark === BACKSLASH) at += 1;
      else if (mark === QUOTE) isInString = false;
    } else if (mark === QUOTE) isInString = true;
    else if (mark === LIST || mark === TABLE) depth += 1;
    else if (mark === LIST_END || mark === TABLE_END) depth -= 1;
    if (depth > DEPTH_MAX) return true;
  }
  return false;
}

const [QUOTE, BACKSLASH, LIST, LIST_END, TABLE, TABLE_END] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];
