import type { Entry } from "@rkat/core/contract/entry";
import { RuntimeError } from "@rkat/core/contract/error";
import { type EventLog, type FoldRow, hasWork, type LogRow, numbered } from "@rkat/core/ports/store";
import { isLost, isOutrun } from "./client.ts";
import type { Connection } from "./connection.ts";
import { labelsOf, ROWS_MAX, type Rows } from "./rows.ts";
import type { Query } from "./transaction.ts";

export interface LogParts<B, R> {
  readonly connection: Connection;
  readonly realm: string;
  readonly kind: string;
  readonly owner: string;
  readonly foldRow: FoldRow<B, R>;
  readonly rows: Rows<R>;
  readonly now: () => number;
  /** Whether this process holds a session, as far as it knows. */
  isHeld(sessionId: string): boolean;
  /** Appends of so many sessions go in one statement; with 1, each has its own. */
  readonly batchMax: number;
}

interface Append<B, R> {
  readonly sessionId: string;
  readonly after: number;
  readonly entries: readonly Entry<B>[];
  readonly bodies: readonly string[];
  readonly chars: number;
  readonly row: R;
  readonly isHeld: boolean;
  resolve(): void;
  reject(error: unknown): void;
}

/** Statements under way at once; what comes meanwhile waits and goes together. */
const LANES = 4;
const BATCH_CHARS_MAX = 4 * 1_024 * 1_024;

/**
 * Logs as rows. An append is one statement: it moves the session's row on from where the caller thinks it is, if no other process
 * else has moved it or taken the session, and adds the entries in the same breath.
 */
export function createLog<B, R extends LogRow>(parts: LogParts<B, R>): EventLog<B> {
  const { connection, foldRow, rows, now } = parts;
  const waiting: Append<B, R>[] = [];
  let lanes = 0;

  const append: EventLog<B>["append"] = async (sessionId, after, added, atMs = now()) => {
    const before = await rows.at(sessionId, after);
    if ((before?.last_seq ?? 0) !== after) throw elsewhere(sessionId, before?.last_seq ?? 0, after);
    const entries = numbered(added, after, atMs);
    const row = entries.reduce<R | undefined>((so, entry) => foldRow(so, sessionId, entry), before);
    if (row === undefined || added.length === 0) return [];
    const bodies = entries.map(({ body }) => JSON.stringify(body));
    const chars = bodies.reduce((sum, body) => sum + body.length, 0);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    waiting.push({ sessionId, after, entries, bodies, chars, row, isHeld: parts.isHeld(sessionId), resolve, reject });
    pump();
    await promise;
    rows.note(row);
    return entries;
  };

  const pump = (): void => {
    while (lanes < LANES && waiting.length > 0) {
      lanes += 1;
      void write(take()).finally(() => {
        lanes -= 1;
        pump();
      });
    }
  };

  /** The next appends, of each session one, to a bounded size. */
  const take = (): readonly Append<B, R>[] => {
    const batch = new Map<string, Append<B, R>>();
    const left: Append<B, R>[] = [];
    let chars = 0;
    for (const one of waiting) {
      const hasRoom = batch.size === 0 || (batch.size < parts.batchMax && chars + one.chars <= BATCH_CHARS_MAX);
      if (!hasRoom || batch.has(one.sessionId)) {
        left.push(one);
        continue;
      }
      batch.set(one.sessionId, one);
      chars += one.chars;
    }
    waiting.splice(0, waiting.length, ...left);
    return [...batch.values()];
  };

  /** Settles every append of a batch; never rejects. */
  const write = async (batch: readonly Append<B, R>[]): Promise<void> => {
    try {
      const kept = await connection.runOnce((query) => insert(query, parts, batch));
      await Promise.all(batch.map((one) => (kept.has(one.sessionId) ? one.resolve() : refuse(one))));
    } catch (error) {
      // One by one: what the database does not take of one session is no matter of the others.
      const isOpen = isLost(error) || isOutrun(error) || batch.length > 1;
      await Promise.all(batch.map((one) => (isOpen ? settle(one) : one.reject(error))));
    }
  };

  /** Appends what may have been appended already: then it does not fit any more, and is found. */
  const settle = async (one: Append<B, R>): Promise<void> => {
    try {
      const isKept = await connection.run(
        async (query) => (await insert(query, parts, [one])).has(one.sessionId) || (await isThere(query, parts, one)),
      );
      if (isKept) one.resolve();
      else await refuse(one);
    } catch (error) {
      one.reject(error);
    }
  };

  const refuse = async ({ sessionId, after, isHeld, reject }: Append<B, R>): Promise<void> => {
    rows.forget(sessionId);
    try {
      const [found] = await connection.query<{ last_seq: number; owner: string | null }>`
        select last_seq, owner from rkat.sessions where realm = ${parts.realm} and id = ${sessionId}`;
      const isTaken = isHeld && found?.owner !== parts.owner;
      reject(isTaken ? takenOver(sessionId) : elsewhere(sessionId, found?.last_seq ?? 0, after));
    } catch (error) {
      reject(error);
    }
  };

  return {
    append,
    read: (...range) => read<B>(connection.query, parts.realm, range),
    rewrite: async (sessionId, entries) => {
      const row = await connection.transaction((query) => rewrite<B, R>(query, parts, { sessionId, entries }));
      if (row !== undefined) rows.note(row);
    },
  };
}

/** Puts bodies in the place of others, and the row in that of the one they were folded to. */
async function rewrite<B, R extends LogRow>(
  query: Query,
  { realm, kind, foldRow }: Pick<LogParts<B, R>, "realm" | "kind" | "foldRow">,
  { sessionId, entries }: { readonly sessionId: string; readonly entries: readonly Entry<B>[] },
): Promise<R | undefined> {
  await query`select 1 from rkat.sessions where realm = ${realm} and id = ${sessionId} and kind = ${kind} for update`;
  await query`
    update rkat.entries as kept set body = given.body
    from unnest(${entries.map(({ seq }) => seq)}::bigint[],
      ${entries.map(({ body }) => JSON.stringify(body))}::text[]) as given (seq, body)
    where kept.realm = ${realm} and kept.id = ${sessionId} and kept.seq = given.seq`;
  const all = await read<B>(query, realm, [sessionId, 1, ROWS_MAX]);
  const row = all.reduce<R | undefined>((so, entry) => foldRow(so, sessionId, entry), undefined);
  if (row === undefined) return undefined;
  await query`
    update rkat.sessions set folded = ${JSON.stringify(row)},
      labels = ${labelsOf(realm, row.labels)}::text[]
    where realm = ${realm} and id = ${sessionId} and kind = ${kind}`;
  return row;
}

/** Appends a batch and tells of which sessions it was kept. */
async function insert<B, R extends LogRow>(
  query: Query,
  { realm, kind, owner }: Pick<LogParts<B, R>, "realm" | "kind" | "owner">,
  batch: readonly Append<B, R>[],
): Promise<ReadonlySet<string>> {
  const column = (of: (one: Append<B, R>) => string | number | boolean) => batch.map(of);
  const entries = batch.flatMap(({ sessionId, entries: all, bodies }) =>
    all.map(({ seq, span, timestamp_ms }, at) => ({ id: sessionId, seq, span, timestamp_ms, body: bodies[at] ?? "" })),
  );
  const kept = await query<{ id: string }>`
    with given as (
      select * from unnest(
        ${column(({ sessionId }) => sessionId)}::text[],
        ${column(({ after }) => after)}::bigint[],
        ${column(({ row }) => row.last_seq)}::bigint[],
        ${column(({ row }) => row.updated_at_ms)}::bigint[],
        ${column(({ row }) => row.archived ?? false)}::boolean[],
        ${column(({ row }) => row.waiting_calls ?? 0)}::bigint[],
        ${column(({ row }) => hasWork(row))}::boolean[],
        ${column(({ row }) => JSON.stringify(labelsOf(realm, row.labels)))}::text[],
        ${column(({ row }) => JSON.stringify(row))}::text[],
        ${column(({ isHeld }) => isHeld)}::boolean[]
      ) as given (id, after, last_seq, updated_at_ms, is_archived, waiting_calls, has_open_turn, labels, folded, is_held)
    ), moved as (
      update rkat.sessions s set
        last_seq = given.last_seq, updated_at_ms = given.updated_at_ms, is_archived = given.is_archived,
        waiting_calls = given.waiting_calls, has_open_turn = given.has_open_turn, folded = given.folded,
        labels = array(select jsonb_array_elements_text(given.labels::jsonb))
      from given
      where s.realm = ${realm} and s.id = given.id and s.kind = ${kind} and s.last_seq = given.after
        and (not given.is_held or s.owner = ${owner})
      returning s.id
    ), begun as (
      insert into rkat.sessions
        (realm, id, kind, last_seq, updated_at_ms, is_archived, waiting_calls, has_open_turn, folded, labels)
      select ${realm}, id, ${kind}, last_seq, updated_at_ms, is_archived, waiting_calls, has_open_turn, folded,
        array(select jsonb_array_elements_text(given.labels::jsonb))
      from given where after = 0 and not is_held
      on conflict do nothing
      returning id
    ), kept as (
      select id from moved union all select id from begun
    ), written as (
      insert into rkat.entries (realm, id, seq, span, at_ms, body)
      select ${realm}, entry.id, entry.seq, entry.span, entry.at_ms, entry.body
      from unnest(
        ${entries.map(({ id }) => id)}::text[],
        ${entries.map(({ seq }) => seq)}::bigint[],
        ${entries.map(({ span }) => span)}::integer[],
        ${entries.map(({ timestamp_ms }) => timestamp_ms)}::bigint[],
        ${entries.map(({ body }) => body)}::text[]
      ) as entry (id, seq, span, at_ms, body)
      where entry.id in (select id from kept)
    )
    select id from kept`;
  return new Set(kept.map(({ id }) => id));
}

interface KeptEntry {
  readonly seq: number;
  readonly span: number;
  readonly at_ms: number;
  readonly body: string;
}

/** Whether an append is in the log, word for word. */
async function isThere<B, R>(
  query: Query,
  { realm }: Pick<LogParts<B, R>, "realm">,
  one: Append<B, R>,
): Promise<boolean> {
  const { sessionId, after, entries, bodies } = one;
  const found = await query<KeptEntry>`
    select seq, span, at_ms, body from rkat.entries
    where realm = ${realm} and id = ${sessionId} and seq > ${after} order by seq limit ${entries.length}`;
  return entries.every(({ seq, timestamp_ms }, at) => {
    const kept = found[at];
    return kept?.seq === seq && kept.at_ms === timestamp_ms && kept.body === bodies[at];
  });
}

async function read<B>(
  query: Query,
  realm: string,
  [sessionId, fromSeq, max]: Parameters<EventLog<B>["read"]>,
): Promise<readonly Entry<B>[]> {
  // The entry that begins before `fromSeq` may reach it.
  const found = await query<KeptEntry>`
    select seq, span, at_ms, body from rkat.entries
    where realm = ${realm} and id = ${sessionId} and seq + span > ${fromSeq} and seq >= coalesce((
      select max(seq) from rkat.entries where realm = ${realm} and id = ${sessionId} and seq <= ${fromSeq}
    ), 0)
    order by seq limit ${Math.min(max, ROWS_MAX)}`;
  return found.map(({ seq, span, at_ms, body }) => ({ seq, span, timestamp_ms: at_ms, body: JSON.parse(body) }));
}

function elsewhere(sessionId: string, end: number, after: number): RuntimeError {
  return new RuntimeError("SESSION_BUSY", `the log of session ${sessionId} ends at ${end}, not at ${after}`);
}

function takenOver(sessionId: string): RuntimeError {
  const message = `another process has taken session ${sessionId} over; nothing was kept of this append`;
  return new RuntimeError("SESSION_BUSY", message);
}
