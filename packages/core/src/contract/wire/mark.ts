import { EntryBody } from "../entry.ts";
import { z } from "../schema.ts";

const count = z.number().int().nonnegative();

/** What compactions say; everything else in a conversation is its messages. */
const KINDS: ReadonlySet<EntryBody["kind"]> = new Set(["compacted", "compaction_failed", "event"]);

/** What a compaction left in a conversation of another program, after so many of its messages. */
export interface Mark {
  readonly after: number;
  readonly seq: number;
  readonly body: EntryBody;
}
// Typed by its result: the declaration of the schema would repeat every entry.
const Mark: z.ZodType<Mark> = z.object({
  after: count,
  seq: count,
  body: EntryBody.refine(({ kind }) => KINDS.has(kind)),
});

/** The marks of a conversation as a store keeps them. */
export interface StoredMarks {
  readonly version: 1;
  readonly marks: readonly Mark[];
}
const StoredMarks: z.ZodType<StoredMarks> = z.object({ version: z.literal(1), marks: z.array(Mark) });

/** Reads a stored mark; undefined for one of another version or program. */
export function readMarks(stored: unknown): readonly Mark[] | undefined {
  return StoredMarks.safeParse(stored).data?.marks;
}
