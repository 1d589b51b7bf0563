import { isDeepStrictEqual } from "node:util";
import type { Entry } from "@rkat/core/contract/entry";
import { messageOf } from "@rkat/core/contract/error";
import { jsonIn } from "@rkat/core/contract/json";
import { type DatabaseVerification, hasWork, type LogRow } from "@rkat/core/ports/store";
import { createBlobs } from "./blobs.ts";
import type { Connection } from "./connection.ts";
import { labelsOf } from "./rows.ts";
import { sql } from "./sql.ts";

/** The folds of rows from logs, by kind. */
export interface Folds {
  session(row: LogRow | undefined, id: string, entry: Entry<unknown>): LogRow;
  agent(row: LogRow | undefined, id: string, entry: Entry<unknown>): LogRow;
  schedule(row: LogRow | undefined, id: string, entry: Entry<unknown>): LogRow;
}

/** A stored row, and the fold of its log so far. */
interface Checked {
  readonly kept: KeptRow;
  end: number;
  folded: LogRow | undefined;
  /** Its first fault; later faults may be consequences. */
  problem: string | undefined;
}

interface KeptRow {
  readonly id: string;
  readonly kind: "session" | "agent" | "schedule";
  readonly last_seq: number;
  readonly updated_at_ms: number;
  readonly is_archived: boolean;
  readonly waiting_calls: number;
  readonly has_open_turn: boolean;
  readonly labels: string;
  readonly folded: string | null;
  readonly goes_on: boolean;
}

const ROWS_A_PAGE = 200;
const ENTRIES_A_PAGE = 500;
const IDS_A_PAGE = 500;
/** Further problems are only counted. */
const PROBLEMS_MAX = 1_000;

/**
 * Reads every entry of a realm and checks that each log is complete, that its row is the fold of the log, and that every
 * blob matches its id; nothing is changed. Reads pages beside concurrent writers: a log is checked up to the end in its
 * row when the page was read, which does not change any more.
 */
export async function verifyDatabase(
  { connection, realm }: { readonly connection: Connection; readonly realm: string },
  folds: Folds,
): Promise<DatabaseVerification> {
  const counts = { records: 0, sessions: 0, agents: 0, blobs: 0, bytes: 0 };
  const problems: string[] = [];
  const strays = new Set<string>();
  for (let after: string | undefined = ""; after !== undefined; ) {
    const rows = await readRows(connection, realm, after);
    const upTo: string | undefined = rows.length < ROWS_A_PAGE ? undefined : rows.at(-1)?.id;
    const checked = new Map(
      rows.map((kept) => [kept.id, { kept, end: 0, folded: undefined, problem: undefined } as Checked]),
    );
    for await (const entry of entriesBetween(connection, { realm, after, upTo })) {
      counts.records += 1;
      counts.bytes += entry.bytes;
      const log = checked.get(entry.id);
      if (log !== undefined) take(log, entry, folds);
      else if (strays.size < PROBLEMS_MAX) strays.add(entry.id);
    }
    for (const log of checked.values()) {
      // A row without a log belongs to a process that is about to begin one.
      if (log.kept.folded === null && log.kept.last_seq === 0 && log.end === 0) continue;
      if (log.kept.kind !== "schedule") counts[log.kept.kind === "agent" ? "agents" : "sessions"] += 1;
      const problem = log.problem ?? endFault(log, realm);
      if (problem !== undefined) problems.push(`${log.kept.kind} ${log.kept.id} ${problem}`);
    }
    after = upTo;
  }
  // Logs that were begun after their page was read have rows by now.
  const known = await connection.query<{ id: string }>`
    select id from rkat.sessions where realm = ${realm} and id = any(${[...strays]}::text[])`;
  for (const { id } of known) strays.delete(id);
  for (const id of strays) problems.push(`entries of ${id} exist without its row`);
  const blobs = createBlobs(connection, realm);
  for (let ids = await blobs.ids("", IDS_A_PAGE); ids.length > 0; ids = await blobs.ids(ids.at(-1) ?? "", IDS_A_PAGE)) {
    for (const id of ids) {
      try {
        counts.bytes += (await blobs.get(id))?.data.length ?? 0;
      } catch (error) {
        problems.push(messageOf(error));
        await blobs.ids("", 1); // Throws if the database is unreachable.
      }
      counts.blobs += 1;
    }
  }
  const more = problems.length - PROBLEMS_MAX;
  return { ...counts, problems: more > 0 ? [...problems.slice(0, PROBLEMS_MAX), `and ${more} more`] : problems };
}

function readRows(connection: Connection, realm: string, after: string): Promise<readonly KeptRow[]> {
  return connection.query<KeptRow>`
    select id, kind, last_seq, updated_at_ms, is_archived, waiting_calls, has_open_turn, array_to_json(labels)::text as labels, folded,
      exists (select from rkat.entries e where e.realm = s.realm and e.id = s.id and e.seq > s.last_seq) as goes_on
    from rkat.sessions s where realm = ${realm} and id > ${after} order by id limit ${ROWS_A_PAGE}`;
}

interface ReadEntry {
  readonly id: string;
  readonly seq: number;
  readonly span: number;
  readonly at_ms: number;
  readonly body: string;
  readonly bytes: number;
}

async function* entriesBetween(
  connection: Connection,
  { realm, after, upTo }: { readonly realm: string; readonly after: string; readonly upTo: string | undefined },
): AsyncGenerator<ReadEntry> {
  // No seq is as large: skips the entries of the last session of the page before.
  let last = { id: after, seq: Number.MAX_SAFE_INTEGER };
  for (;;) {
    const { id, seq } = last;
    const page: readonly ReadEntry[] = await connection.query<ReadEntry>`
      select id, seq, span, at_ms, body, octet_length(body) as bytes from rkat.entries
      where realm = ${realm} and (id, seq) > (${id}, ${seq}) ${upTo === undefined ? sql`` : sql`and id <= ${upTo}`}
      order by id, seq limit ${ENTRIES_A_PAGE}`;
    yield* page;
    const end = page.at(-1);
    if (end === undefined || page.length < ENTRIES_A_PAGE) return;
    last = end;
  }
}

function take(log: Checked, { id, seq, span, at_ms, body }: ReadEntry, folds: Folds): void {
  if (log.problem !== undefined || seq > log.kept.last_seq) return;
  if (seq !== log.end + 1) {
    log.problem = seq > log.end ? `lacks seqs ${log.end + 1} to ${seq - 1}` : `has seq ${seq} twice`;
    return;
  }
  log.end = seq + span - 1;
  try {
    log.folded = folds[log.kept.kind](log.folded, id, { seq, span, timestamp_ms: at_ms, body: JSON.parse(body) });
  } catch (error) {
    log.problem = `has a damaged entry at seq ${seq}: ${messageOf(error)}`;
  }
}

/** The fault at the end of a log, or of its row. */
function endFault({ kept, end, folded }: Checked, realm: string): string | undefined {
  if (end < kept.last_seq) return `lacks seqs ${end + 1} to ${kept.last_seq}`;
  if (end > kept.last_seq || kept.goes_on) return `has entries beyond seq ${kept.last_seq}, where its row ends`;
  const row = jsonIn(kept.folded ?? "");
  if (folded === undefined || typeof row !== "object" || row === null) return "has a row that cannot be read";
  const columns = {
    last_seq: [kept.last_seq, folded.last_seq],
    updated_at_ms: [kept.updated_at_ms, folded.updated_at_ms],
    archived: [kept.is_archived, folded.archived ?? false],
    waiting_calls: [kept.waiting_calls, folded.waiting_calls ?? 0],
    has_open_turn: [kept.has_open_turn, hasWork(folded)],
    labels: [jsonIn(kept.labels), labelsOf(realm, folded.labels)],
  };
  // A row of an older version may lack fields of a newer one.
  const fields = Object.entries(row).map(([name, value]) => [name, [value, valueIn(folded, name)]] as const);
  const wrong = [...Object.entries(columns), ...fields].find(([, [is, should]]) => !isDeepStrictEqual(is, should));
  return wrong === undefined ? undefined : `has a row that differs from the fold of its log: ${wrong[0]} differs`;
}

/** As it would be stored. */
function valueIn(folded: LogRow, name: string): unknown {
  return jsonIn(JSON.stringify(new Map(Object.entries(folded)).get(name)) ?? "");
}
