import { EntryBody } from "./entry.ts";
import { z } from "./schema.ts";

const count = z.number().int().nonnegative();

/** What compactions say; everything else in a conversation is its messages. */
const KINDS: ReadonlySet<EntryBody["kind"]> = new Set(["compacted", "compaction_failed", "event"]);

/** What a compaction left in a conversation of another program, after so many of its messages. */
const Mark = z.object({ after: count, seq: count, body: EntryBody.refine(({ kind }) => KINDS.has(kind)) });
export type Mark = z.infer<typeof Mark>;

/** The marks of a conversation as a store keeps them. */
const StoredMarks = z.object({ version: z.literal(1), marks: z.array(Mark) });
export type StoredMarks = z.infer<typeof StoredMarks>;

/** Reads a stored mark; undefined for one of another version or program. */
export function readMarks(stored: unknown): readonly Mark[] | undefined {
  return StoredMarks.safeParse(stored).data?.marks;
}
