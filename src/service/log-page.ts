import type { Entry } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";

/** A page ends before the entry that would make it larger: every wire takes it. */
const PAGE_CHARS_MAX = 4 * 1_024 * 1_024;

/** Part of a log, as it is carried elsewhere. */
interface LogPage<B> {
  readonly entries: Entry<B>[];
  readonly last_seq: number;
  readonly next_after?: number;
}

/** As many of the entries that were read after a seq as one answer has room for, and at least one. */
export async function logPage<B>(
  read: readonly Entry<B>[],
  { after, last_seq }: { readonly after: number; readonly last_seq: number },
  { breathe }: Pick<Clock, "breathe">,
): Promise<LogPage<B>> {
  const [first] = read;
  if (first !== undefined && first.seq <= after) {
    const message = `after: seq ${after} lies within the entry at ${first.seq}; give the next_after of an earlier answer`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  const entries: Entry<B>[] = [];
  let chars = 0;
  for (const { seq, span, timestamp_ms, body } of read) {
    chars += JSON.stringify(body).length;
    if (chars > PAGE_CHARS_MAX && entries.length > 0) break;
    entries.push({ seq, span, timestamp_ms, body });
    await breathe();
  }
  const last = entries.at(-1);
  const end = last === undefined ? last_seq : last.seq + last.span - 1;
  return { entries, last_seq, ...(end < last_seq ? { next_after: end } : {}) };
}
