import { hash } from "node:crypto";
import type { LogRow, RowQuery, SessionStore } from "@rkat/core/ports/store";
import { pageOf } from "@rkat/core/stores/page";
import type { Connection } from "./connection.ts";
import { sql } from "./sql.ts";
import type { Query } from "./transaction.ts";

/** What is known of sessions without reading their logs. */
export interface Rows<R> extends Pick<SessionStore<R>, "get" | "page"> {
  /** The row of a log that ends at `lastSeq`, or as it is; from what this process knows where it can. */
  at(sessionId: string, lastSeq: number): Promise<R | undefined>;
  /** Takes in a row that was just written. */
  note(row: R): void;
  forget(sessionId: string): void;
}

/** Rows at hand: those of sessions this process appends to. */
const KNOWN_MAX = 10_000;

export function createRows<R extends LogRow>(connection: Connection, realm: string, kind: string): Rows<R> {
  const known = new Map<string, R>();
  const note = (row: R): void => {
    known.delete(row.session_id);
    known.set(row.session_id, row);
    const [oldest] = known.keys();
    if (known.size > KNOWN_MAX && oldest !== undefined) known.delete(oldest);
  };
  const get = async (sessionId: string): Promise<R | undefined> => {
    const [found] = await connection.query<{ folded: string | null }>`
      select folded from rkat.sessions where realm = ${realm} and id = ${sessionId} and kind = ${kind}`;
    if (found === undefined || found.folded === null) return undefined;
    const row: R = JSON.parse(found.folded);
    note(row);
    return row;
  };
  return {
    get,
    page: async (query) => {
      if (query.max <= 0) return [];
      // The index has those that are archived and those that are not each in their order.
      const sorts = query.archived === undefined ? [false, true] : [query.archived];
      const pages = await connection.run((run) =>
        Promise.all(sorts.map((archived) => page(run, { realm, kind, archived }, query))),
      );
      return pageOf(
        pages.flat().map(({ folded }): R => JSON.parse(folded)),
        query,
      );
    },
    at: async (sessionId, lastSeq) => {
      const row = known.get(sessionId);
      if (lastSeq === 0 || (row !== undefined && row.last_seq >= lastSeq)) return row;
      return get(sessionId);
    },
    note,
    forget: (sessionId) => void known.delete(sessionId),
  };
}

async function page(
  query: Query,
  of: { readonly realm: string; readonly kind: string; readonly archived: boolean },
  { labels = {}, waiting, open, updatedSinceMs, after, max }: RowQuery,
): Promise<readonly { readonly folded: string }[]> {
  const wanted = labelsOf(of.realm, labels);
  return query<{ folded: string }>`
    select folded from rkat.sessions
    where realm = ${of.realm} and kind = ${of.kind} and is_archived = ${of.archived} and folded is not null
    ${wanted.length === 0 ? sql`` : sql`and labels <> '{}' and labels @> ${wanted}::text[]`}
    ${waiting === true ? sql`and waiting_calls > 0` : sql``}
    ${open === true ? sql`and has_open_turn` : sql``}
    ${updatedSinceMs === undefined ? sql`` : sql`and updated_at_ms >= ${updatedSinceMs}`}
    ${after === undefined ? sql`` : sql`and (updated_at_ms, id) < (${after.updated_at_ms}, ${after.session_id})`}
    order by updated_at_ms desc, id desc
    limit ${Math.min(max, ROWS_MAX)}`;
}

/** As large as an integer of the database is. */
export const ROWS_MAX = 2_147_483_647;

/**
 * Labels as they are looked for: with their realm, so that no realm pays for the labels of others, and as JSON, since no
 * text of the database may hold every character.
 */
export function labelsOf(realm: string, labels: Readonly<Record<string, string>> = {}): readonly string[] {
  return Object.entries(labels).map((label) => {
    const written = JSON.stringify([realm, ...label]);
    return written.length > LABEL_CHARS_MAX ? hash("sha256", written) : written;
  });
}

/** An index takes no entry of more than 2,712 bytes, and a character has up to three: what is longer goes by its hash. */
const LABEL_CHARS_MAX = 800;
