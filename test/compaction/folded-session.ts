import type { Entry, EntryBody, EntryBodyOf } from "@rkat/core/contract/entry";
import { spanOf } from "@rkat/core/state/entry-events";
import { applyEntry, foldSession, type WholeState } from "@rkat/core/state/whole-state";
import { created, idOf } from "../support/entries.ts";

/** A session without a store: what is appended is numbered, kept and folded at once. */
export interface FoldedSession {
  readonly entries: readonly Entry[];
  readonly state: WholeState;
  append(bodies: readonly EntryBody[] | (() => readonly EntryBody[])): Promise<void>;
}

const STARTED_MS = Date.UTC(2026, 0, 1);

export function createFoldedSession(systemPrompt: string | undefined): FoldedSession {
  // The body of `created` is that of a session's beginning.
  const { settings } = created as EntryBodyOf<"session_created">;
  const prompted = systemPrompt === undefined ? settings : { ...settings, system_prompt: systemPrompt };
  const first: Entry = {
    seq: 1,
    span: 1,
    timestamp_ms: STARTED_MS,
    body: { ...created, settings: prompted } as EntryBody,
  };
  const entries = [first];
  const state = foldSession(idOf(1), entries);
  return {
    entries,
    state,
    append: async (given) => {
      for (const body of typeof given === "function" ? given() : given) {
        const entry: Entry = { seq: state.lastSeq + 1, span: spanOf(body), timestamp_ms: STARTED_MS, body };
        entries.push(entry);
        applyEntry(state, entry);
      }
    },
  };
}
