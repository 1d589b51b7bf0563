import type { EntryBody } from "../contract/entry.ts";
import type { Store } from "../ports/store.ts";
import type { RkatFiles } from "./rkat-files.ts";

/**
 * A store whose sessions have files. They follow what was appended, not what listeners are told: a listener may lag and
 * lose events. Whoever appends never waits for them; closing does, within their bound.
 */
export function projectStore(store: Store, files: Pick<RkatFiles, "touch" | "close">): Store {
  const { log, sessions, locks, blobs } = store;
  return {
    log: {
      append: async (sessionId, after, entries) => {
        const appended = await log.append(sessionId, after, entries);
        if (entries.some(({ body }) => WORTH_FILES.has(body.kind))) files.touch(sessionId);
        return appended;
      },
      read: (sessionId, fromSeq, max) => log.read(sessionId, fromSeq, max),
    },
    sessions,
    locks,
    blobs,
    close: async () => {
      await files.close();
      await store.close();
    },
  };
}

/** What happens within a turn waits for its end: files are written once a turn, not once an append. */
const WORTH_FILES: ReadonlySet<EntryBody["kind"]> = new Set([
  "session_created",
  "notice",
  "turn_closed",
  // These two also happen without a turn.
  "compacted",
  "rewritten",
  "archived",
]);
