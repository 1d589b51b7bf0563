import { hasWork, type LogRow, type RowQuery } from "@rkat/core/ports/store";
import { isAskedFor } from "@rkat/core/stores/page";
import type { PrivateDb, Table } from "../tables/private-db.ts";

/** Rows by when they were updated, the last one first: a page of them is found without reading the others. */
export interface RowOrder<R> {
  /** Puts a row in its place; `before` is what was known of the same log. */
  place(row: R, before: R | undefined): void;
  clear(): void;
  /**
   * The first rows of those asked for that are not `elsewhere`; undefined when the order does not fit the rows: a program
   * that keeps none has written them.
   */
  page(query: RowQuery, elsewhere: (row: R) => boolean): readonly R[] | undefined;
}

/** What a page may be chosen by, as far as it says something. */
type Traits = Pick<LogRow, "labels" | "archived" | "waiting_calls" | "has_open_turn">;

/** Keeps the order beside the rows; the caller writes both in one transaction. */
export function openRowOrder<R extends LogRow>(
  root: Pick<PrivateDb<number, string>, "openDB" | "snapshot">,
  rows: Pick<Table<R, string>, "get" | "getCount">,
): RowOrder<R> {
  const order: Table<Traits, Buffer> = root.openDB("order-2", "json");
  // The few rows with an open turn or waiting messages, in the same order. An index of 0.1 has neither table, so both are built when it is read.
  const open: Table<Traits, Buffer> = root.openDB("open", "json");
  return {
    place: (row, before) => {
      const key = keyOf(row);
      const last = before && keyOf(before);
      if (last !== undefined && !last.equals(key)) order.remove(last);
      order.put(key, traitsOf(row));
      if (last !== undefined && before !== undefined && hasWork(before)) open.remove(last);
      if (hasWork(row)) open.put(key, traitsOf(row));
    },
    clear: () => {
      order.clear();
      open.clear();
    },
    page: (query, elsewhere) =>
      root.snapshot(() => {
        if (order.getCount() !== rows.getCount()) return undefined;
        const page: R[] = [];
        let fits = true;
        (query.open === true ? open : order).visit(rangeOf(query), (key, traits) => {
          if (page.length >= query.max) return "enough";
          const updated_at_ms = TIME_MAX - key.readUIntBE(0, TIME_BYTES);
          if (!isAskedFor({ ...traits, updated_at_ms }, query)) return;
          const row = rows.get(idIn(key));
          if (row === undefined || timeOf(row) !== updated_at_ms) {
            fits = false;
            return "enough";
          }
          if (!elsewhere(row)) page.push(row);
          return;
        });
        return fits ? page : undefined;
      }),
  };
}

type Place = NonNullable<RowQuery["after"]>;

const TIME_BYTES = 6;
const ID_BYTES = 16;
const TIME_MAX = 2 ** (8 * TIME_BYTES) - 1;

function timeOf({ updated_at_ms }: Pick<LogRow, "updated_at_ms">): number {
  return Math.min(Math.max(Math.floor(updated_at_ms), 0), TIME_MAX);
}

/** Every bit turned round: later times come first, and of equals greater ids. */
function keyOf(place: Place): Buffer {
  const key = Buffer.alloc(TIME_BYTES + ID_BYTES);
  key.writeUIntBE(timeOf(place), 0, TIME_BYTES);
  key.write(place.session_id.replaceAll("-", ""), TIME_BYTES, "hex");
  return turned(key);
}

function idIn(key: Buffer): string {
  const id = turned(key).toString("hex", TIME_BYTES);
  return [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20)].join("-");
}

function turned(bytes: Buffer): Buffer {
  return Buffer.from(bytes.map((byte) => ~byte));
}

function rangeOf({ after, updatedSinceMs = 0 }: RowQuery): { start?: Buffer; end?: Buffer } {
  const last = Buffer.alloc(TIME_BYTES);
  last.writeUIntBE(TIME_MAX - timeOf({ updated_at_ms: updatedSinceMs }), 0, TIME_BYTES);
  return {
    // The key behind it.
    ...(after === undefined ? {} : { start: Buffer.concat([keyOf(after), Buffer.of(0)]) }),
    // Behind every id of that moment.
    end: Buffer.concat([last, Buffer.alloc(ID_BYTES + 1, 0xff)]),
  };
}

function traitsOf(row: LogRow): Traits {
  const { labels = {}, archived = false, waiting_calls = 0 } = row;
  return {
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(archived ? { archived } : {}),
    ...(waiting_calls > 0 ? { waiting_calls } : {}),
    ...(hasWork(row) ? { has_open_turn: true } : {}),
  };
}
