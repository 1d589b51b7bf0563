import { SeqRange } from "./compaction.ts";
import { z } from "./schema.ts";

/** Which entries say less than they did, and of what they said a hash under a key that was destroyed. */
export const Forgotten = {
  forgetting_id: z.string(),
  holes: z.array(SeqRange.extend({ mac: z.string() })),
};

/** What stands where something was forgotten. */
export const FORGOTTEN = "[forgotten]";
