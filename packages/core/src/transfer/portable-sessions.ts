import { createHash } from "node:crypto";
import type { Entry } from "../contract/entry.ts";
import type { OperationInput } from "../contract/operations.ts";
import type { PortableBlob } from "../contract/portable.ts";
import type { SessionMemory } from "../memory/session-memory.ts";
import type { Clock } from "../ports/clock.ts";
import type { BlobStore, Store } from "../ports/store.ts";
import type { Service } from "../runtime/dispatch.ts";
import { appendEntries as appendToSession, type LiveSessions } from "../sessions/live-sessions.ts";
import { rowOf } from "../sessions/session-reader.ts";
import { isActive } from "../state/goal.ts";
import {
  appendEntries,
  blobsNamedIn,
  createLogCheck,
  endOf,
  entryLine,
  entryPages,
  logPage,
  readEntry,
  refused,
  withoutServers,
} from "./portable-log.ts";

interface PortableParts {
  readonly store: Store;
  readonly live: LiveSessions;
  readonly clock: Clock;
  readonly memory: SessionMemory | undefined;
}

type Importing = OperationInput<"importSession">;

/** The operations that export and import a session entry by entry. */
export function createPortableSessions(parts: PortableParts): Pick<Service, "exportSession" | "importSession"> {
  const { store, clock } = parts;
  return {
    exportSession: async ({ session_id, after, limit }) => {
      const { last_seq } = await rowOf(store, session_id);
      const read = await store.log.read(session_id, after + 1, limit);
      const carried = read.map((entry) => ({ ...entry, body: withoutServers(entry.body) }));
      const page = await logPage(carried, { after, last_seq }, clock);
      const blob_ids = [...new Set(page.entries.flatMap(({ body }) => blobsNamedIn(body)))];
      return { session_id, ...page, blob_ids };
    },
    importSession: async (input) => {
      const entries = await readPage(input, clock);
      for (const blob of input.blobs) requireBytes(blob);
      const session_id = input.into ?? (await chooseId(store, input, entries));
      const hold = await store.locks.hold(session_id);
      try {
        for (const blob of input.blobs) await putBlob(store.blobs, blob);
        await addEntries(parts, session_id, entries);
      } finally {
        await hold.release();
      }
      const last_seq = (await store.sessions.get(session_id))?.last_seq ?? 0;
      const complete = entries.some((entry) => endOf(entry) === input.last_seq);
      if (complete) await finish(parts, session_id, input);
      return { session_id, last_seq, complete };
    },
  };
}

/** The validated entries of a call; a whole log is also folded before any of it is stored. */
async function readPage(input: Importing, { yieldToEventLoop }: Clock): Promise<readonly Entry[]> {
  const { after, into, last_seq, source_session_id } = input;
  if (after > 0 && into === undefined) throw refused("into", "give the session_id that the first call answered");
  if (into !== undefined && input.beside) throw refused("beside", "it is for the first call; leave it out");
  const entries: Entry[] = [];
  let seq = after + 1;
  for (const [at, given] of input.entries.entries()) {
    const entry = readEntry(given, { place: `entries[${at}]`, seq });
    entries.push(entry);
    seq += entry.span;
    await yieldToEventLoop();
  }
  if (seq - 1 > last_seq) throw refused("last_seq", `the entries end at ${seq - 1}, after it`);
  if (after > 0 || seq - 1 < last_seq) return entries;
  const check = createLogCheck(source_session_id);
  for (const [at, entry] of entries.entries()) {
    check.add(entry, `entries[${at}]`);
    await yieldToEventLoop();
  }
  requireSame(check.end("entries"), input);
  return entries;
}

function requireSame(sha256: string, input: Importing): void {
  if (input.sha256 !== undefined && input.sha256 !== sha256) {
    throw refused("sha256", "the entries have another; export the session again");
  }
}

/** The most copies of one export. */
const BESIDE_MAX = 1_000;

/**
 * The id of an imported session: its own if that is free or has a prefix of it, as an interrupted import leaves;
 * otherwise one derived from the content, so that it is found again after an interruption.
 */
async function chooseId(store: Store, input: Importing, entries: readonly Entry[]): Promise<string> {
  const { source_session_id, last_seq, beside } = input;
  const identity = input.sha256 ?? createHash("sha256").update(entries.map(entryLine).join("")).digest("hex");
  for (let copy = beside ? 1 : 0; copy <= BESIDE_MAX; copy += 1) {
    const id = copy === 0 ? source_session_id : besideId(source_session_id, identity, copy);
    const row = await store.sessions.get(id);
    if (row === undefined) return id;
    if (row.last_seq >= last_seq) continue;
    if ((await firstOther(store, id, entries)) === undefined) return id;
  }
  throw refused("source_session_id", `it was imported ${BESIDE_MAX} times already; archive some of those and wait`);
}

/** A version 7 UUID some milliseconds after the source's: its beginning distinguishes it in lists. */
function besideId(sourceId: string, identity: string, copy: number): string {
  const digest = createHash("sha256").update(`${sourceId} ${identity} ${copy}`).digest("hex");
  const time = (Number.parseInt(sourceId.replace("-", "").slice(0, 12), 16) + copy) % 2 ** 48;
  const hex = time.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${digest.slice(0, 3)}-8${digest.slice(3, 6)}-${digest.slice(6, 18)}`;
}

/** The seq of the first entry that differs in a log; undefined if it has them all or ends before. */
async function firstOther({ log }: Store, id: string, entries: readonly Entry[]): Promise<number | undefined> {
  const kept = await log.read(id, entries[0]?.seq ?? 1, entries.length);
  return entries.find((entry, at) => {
    const there = kept[at];
    return there !== undefined && entryLine(there) !== entryLine(entry);
  })?.seq;
}

/** Appends the missing entries; the caller holds the log. */
async function addEntries({ store, clock }: PortableParts, id: string, entries: readonly Entry[]): Promise<void> {
  const first = entries[0]?.seq ?? 1;
  const end = (await store.sessions.get(id))?.last_seq ?? 0;
  if (end + 1 < first) throw refused("after", `the log of ${id} ends at ${end}; go on from there`);
  const other = await firstOther(store, id, entries);
  if (other !== undefined) {
    const why = `session ${id} has another entry at seq ${other}; begin again with beside, and it is kept under another id`;
    throw refused("entries", why);
  }
  const added = entries.filter((entry) => entry.seq > end);
  await appendEntries({ log: store.log, clock }, id, { after: end, entries: added });
}

function requireBytes({ blob_id, data }: PortableBlob): void {
  if (`sha256:${createHash("sha256").update(data, "base64").digest("hex")}` === blob_id) return;
  throw refused("blobs", `the bytes of ${blob_id} are not those it is named by; export the session again`);
}

async function putBlob(blobs: BlobStore, { blob_id, media_type, data }: PortableBlob): Promise<void> {
  if ((await blobs.get(blob_id)) !== undefined) return;
  await blobs.put({ mediaType: media_type, data: Buffer.from(data, "base64") });
}

async function finish({ store, live, clock, memory }: PortableParts, id: string, input: Importing): Promise<void> {
  const check = createLogCheck(id);
  let end = 0;
  for await (const page of entryPages(store.log, id, { upTo: input.last_seq })) {
    for (const entry of page) {
      check.add(entry, `seq ${entry.seq}`);
      end = endOf(entry);
      await clock.yieldToEventLoop();
    }
  }
  if (end < input.last_seq) throw refused("last_seq", `the log of ${id} ends at ${end}`);
  requireSame(check.end("entries"), input);
  // Its rows have old times, so a check of new rows would miss it.
  const session = await live.findFresh(id);
  // A file must not start work by being imported.
  const waiting = session.state.inbox.map(({ body }) => ({
    kind: "message_removed" as const,
    id: body.id,
    why: IMPORTED,
  }));
  const { goal } = session.state;
  const { goal_id = "" } = goal?.record ?? {};
  const ending = { kind: "goal_ended" as const, goal_id, phase: "cancelled" as const, reason: IMPORTED };
  const ended = isActive(goal) ? [ending] : [];
  if (waiting.length + ended.length > 0) await appendToSession(store.log, session, [...waiting, ...ended]);
  memory?.indexLater(session.state);
}

const IMPORTED = "it is of the session that was imported";
