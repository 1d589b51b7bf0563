import type { Compaction } from "@rkat/core/contract/compaction";
import { parentageOf } from "@rkat/core/contract/describe-event";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { SessionSummary } from "@rkat/core/contract/session-info";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { parseSessionRef } from "@rkat/server/http/events";
import type { Opened } from "./open-runtime.ts";

/** How a session can be named, for help and errors. */
const SELECTOR_HINT = "an id, the first 4 or more characters of one, last, or ~1 for the one before the last";

/** The error where a command needs a session and has none. */
export const SESSION_MISSING = `missing required argument 'session': write ${SELECTOR_HINT}; rkat session list shows them`;

/** How a compaction can be named, for help and errors. */
const COMPACTION_HINT = "its id, a beginning of it, last, or ~1 for the one before the last";

/** For help: how the session or the compaction that a command takes is named. */
export const SELECTOR_NOTE = ["A session is named by", SELECTOR_HINT] as const;
export const COMPACTION_NOTE = [
  "A compaction is named by",
  COMPACTION_HINT,
  "without a name it is the newest",
] as const;

const PREFIX_CHARS_MIN = 4;
const ID_CHARS = 36;
const AMBIGUOUS_SHOWN_MAX = 4;

/** The part of an id that distinguishes sessions: its creation time in milliseconds. */
export function shortId(sessionId: string): string {
  return sessionId.slice(0, 13);
}

/** The short form of each id of a list, long enough to be unique in it. */
export function shortIds(ids: readonly string[]): (sessionId: string) => string {
  const chars = distinctChars(ids);
  return (sessionId) => sessionId.slice(0, chars);
}

/** The id of the session that a word of the command line stands for. */
export async function findSession({ runtime, place }: Opened, word: string): Promise<string> {
  const { dispatch } = runtime;
  if (word === "last") return sessionBack(dispatch, 0);
  const [, back] = /^~(\d{0,9})$/.exec(word) ?? [];
  if (back !== undefined) return sessionBack(dispatch, Number(back));
  const named = parseSessionRef(word, place.realm).toLowerCase();
  if (!/^[0-9a-f-]+$/.test(named) || named.length < PREFIX_CHARS_MIN) {
    throw invalid(`${word} names no session; write ${SELECTOR_HINT}`);
  }
  // Also one that is archived, which no list shows.
  if (named.length === ID_CHARS) return named;
  return sessionBeginning(dispatch, named);
}

async function sessionBack(dispatch: Dispatch, back: number): Promise<string> {
  const session = await ownSession(dispatch, back);
  if (session !== undefined) return session.session_id;
  if (back === 0) throw new RuntimeError("SESSION_NOT_FOUND", "there is no session yet; rkat PROMPT starts one");
  const message = `~${back} is further back than the oldest session; rkat session list shows them`;
  throw new RuntimeError("SESSION_NOT_FOUND", message);
}

const PAGE = 64;

/** The session that is `back` places before the newest; sessions of sub-agents do not count. */
async function ownSession(dispatch: Dispatch, back: number): Promise<SessionSummary | undefined> {
  let left = back;
  let cursor: string | undefined;
  do {
    // Usually the first one is meant.
    const limit = back === 0 && cursor === undefined ? 1 : PAGE;
    const input = { limit, ...(cursor === undefined ? {} : { cursor }) };
    const { sessions, next_cursor } = await dispatch("listSessions", input);
    const own = sessions.filter((session) => parentageOf(session) === undefined);
    if (own.length > left) return own[left];
    left -= own.length;
    cursor = next_cursor;
  } while (cursor !== undefined);
  return undefined;
}

async function sessionBeginning(dispatch: Dispatch, prefix: string): Promise<string> {
  const { sessions } = await dispatch("listSessions", {});
  const ids = sessions.map(({ session_id }) => session_id).filter((id) => id.startsWith(prefix));
  const [id, ...others] = ids;
  if (id === undefined) {
    throw new RuntimeError("SESSION_NOT_FOUND", `no session begins with ${prefix}; rkat session list shows them`);
  }
  if (others.length === 0) return id;
  const shown = ids.slice(0, AMBIGUOUS_SHOWN_MAX).map((each) => each.slice(0, distinctChars(ids)));
  const more = ids.length > shown.length ? ", …" : "";
  const message = `${prefix} begins ${ids.length} sessions: ${shown.join(", ")}${more}; write more of the one you mean`;
  throw invalid(message);
}

/** How many leading characters make all of these ids distinct. */
function distinctChars(ids: readonly string[]): number {
  for (let chars = 13; chars < ID_CHARS; chars += 1) {
    if (new Set(ids.map((id) => id.slice(0, chars))).size === ids.length) return chars;
  }
  return ID_CHARS;
}

/** A session and the word that names one of its compactions. */
interface Named {
  readonly id: string;
  readonly word: string | undefined;
}

/** The compaction a word stands for, whether it stands or was undone; without a word, the newest. */
export async function findCompaction(opened: Opened, { id, word = "last" }: Named): Promise<Compaction> {
  const compactions = await compactionsOf(opened, id);
  if (compactions.length === 0) throw notCompacted(id);
  const [, digits] = /^~(\d{0,9})$/.exec(word) ?? [];
  const back = word === "last" ? 0 : digits === undefined ? undefined : Number(digits);
  if (back === undefined) return compactionBeginning(compactions, word.toLowerCase());
  const found = compactions.at(-1 - back);
  if (found !== undefined) return found;
  throw missing(`${word} is further back than the oldest compaction; ${listHint(id)}`);
}

/** The compaction that a change is about; without a word, the newest that was not undone. */
export async function findActiveCompaction(opened: Opened, { id, word }: Named): Promise<Compaction> {
  if (word !== undefined) return findCompaction(opened, { id, word });
  const compactions = await compactionsOf(opened, id);
  const standing = compactions.findLast(({ undone }) => !undone);
  if (standing !== undefined) return standing;
  if (compactions.length === 0) throw notCompacted(id);
  throw missing(`every compaction of session ${shortId(id)} was undone already; ${listHint(id)}`);
}

async function compactionsOf({ runtime }: Opened, session_id: string): Promise<readonly Compaction[]> {
  return (await runtime.dispatch("listCompactions", { session_id })).compactions;
}

function compactionBeginning(compactions: readonly Compaction[], prefix: string): Compaction {
  const found = compactions.filter(({ compaction_id }) => compaction_id.startsWith(prefix));
  const [only, ...others] = found;
  if (only === undefined || prefix === "")
    throw missing(`no compaction of the session begins with ${prefix || "nothing"}; write ${COMPACTION_HINT}`);
  if (others.length === 0) return only;
  const shown = found.map(({ compaction_id }) => compaction_id).join(", ");
  const message = `${prefix} begins ${found.length} compactions: ${shown}; write more of the one you mean`;
  throw invalid(message);
}

function notCompacted(id: string): RuntimeError {
  return missing(`session ${shortId(id)} was not compacted yet; rkat compact run ${shortId(id)} does it`);
}

function listHint(id: string): string {
  return `rkat compact list ${shortId(id)} shows them`;
}

function missing(message: string): RuntimeError {
  return new RuntimeError("SESSION_NOT_FOUND", message);
}
