import type { Compacting } from "../../core/compaction/prepare.ts";
import type { Recover } from "../../core/compaction/receipt.ts";
import type { SessionState } from "../../core/session/session-state.ts";
import type { Placed } from "../../core/session/shown.ts";
import type { Clock } from "../../ports/clock.ts";
import type { SessionMemory } from "./session-memory.ts";

/** A receipt of a hundred thousand lines must not take minutes: what is beyond is proven by expanding. */
const SEARCHES_MAX = 500;
const HITS_LOOKED_AT = 5;

/** Compacting with a memory: what leaves the context is found again by searching for it, before the entry is made. */
export function withMemory(compacting: Compacting, memory: SessionMemory, state: SessionState): Compacting {
  const { after } = compacting.hooks;
  return {
    ...compacting,
    recovering: (log, breathe) => recoverBySearching({ memory, state, breathe }, log),
    hooks: {
      ...compacting.hooks,
      after: async (compaction) => {
        // What has left the context answers from now on; where this fails, the next index says so.
        memory.indexLater(state);
        await after?.(compaction);
      },
    },
  };
}

interface Searching {
  readonly memory: SessionMemory;
  readonly state: SessionState;
  readonly breathe: Clock["breathe"];
}

function recoverBySearching({ memory, state, breathe }: Searching, log: readonly Placed[]): Recover {
  let searches = 0;
  let ready: ReturnType<typeof prepare> | undefined;
  const prepare = async () => {
    const { recoverByExpanding } = await import("../../core/compaction/receipt.ts");
    const { indexTexts } = await import("../../core/compaction/specifics/occurrence.ts");
    const { piecesOf } = await import("../../core/compaction/specifics/texts.ts");
    await memory.index(state);
    return { byExpanding: recoverByExpanding(log, breathe), indexTexts, piecesOf };
  };
  const signal = new AbortController().signal;
  return async (specific) => {
    ready ??= prepare();
    const { byExpanding, indexTexts, piecesOf } = await ready;
    searches += 1;
    if (searches > SEARCHES_MAX) return byExpanding(specific);
    const { hits } = await memory.recallByWords(specific.text, {
      scope: { sessionId: state.sessionId, discardedOnly: false },
      limit: HITS_LOOKED_AT,
      signal,
    });
    for (const { chunk } of hits) {
      const index = await indexTexts(piecesOf(chunk.text), breathe);
      if (index.has(specific)) return "search";
    }
    return byExpanding(specific);
  };
}
