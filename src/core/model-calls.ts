import type { Entry } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { SessionSettings } from "../contract/session.ts";
import type { PartKind } from "../contract/session-context.ts";
import type { Clock } from "../ports/clock.ts";
import { addUsage, NO_USAGE } from "./cost.ts";
import { createTally } from "./describe-context.ts";
import { applyEntry, applyUnshown, beginFold, showAnew } from "./whole-state.ts";

/** A model call as the log tells it, with the size of what the model was shown. */
export interface SizedCall {
  readonly entry: Entry;
  readonly model: string;
  /** The session's turn it was made in, from 1. */
  readonly turn: number;
  readonly settings: SessionSettings;
  readonly tokens: number;
  /** Of the tools it was made with; undefined where the log does not tell. */
  readonly toolTokens: number | undefined;
  /** By the kinds of what was shown; what was not is not there. */
  readonly parts: ReadonlyMap<PartKind, number>;
  /** What it took, failed attempts with it; absent while it runs, and where nobody told. */
  readonly usage: Usage | undefined;
}

/**
 * Sizes the calls at these indexes of a log, which are in order: one fold, in which what is shown is made anew only from
 * the first of them on, so a page costs the log once, however often it was compacted before.
 */
export async function sizeCalls(
  sessionId: string,
  { entries, calls }: { readonly entries: readonly Entry[]; readonly calls: readonly number[] },
  breathe: Clock["breathe"],
): Promise<readonly SizedCall[]> {
  const [first] = calls;
  if (first === undefined) return [];
  const state = beginFold(sessionId, entries);
  const wanted = new Set(calls);
  const tally = createTally();
  const sized: SizedCall[] = [];
  for (const [at, entry] of entries.entries()) {
    if (at < first) applyUnshown(state, entry);
    else applyEntry(state, entry);
    if (at === first) showAnew(state);
    if (wanted.has(at) && entry.body.kind === "model_called") {
      const { settings, turnsOpened: turn } = state;
      const { model, tool_tokens: toolTokens } = entry.body;
      const parts = tally(state);
      const tokens = [...parts.values()].reduce((sum, part) => sum + part, 0);
      sized.push({ entry, model, turn, settings, parts, tokens, toolTokens, usage: usageAfter(entries, at) });
      if (sized.length === calls.length) return sized;
    }
    await breathe();
  }
  return sized;
}

/** What a call took: its answer, and attempts that failed before. What a compaction in between took is its own. */
function usageAfter(entries: readonly Entry[], call: number): Usage | undefined {
  let usage: Usage | undefined;
  for (let at = call + 1; at < entries.length; at += 1) {
    const body = entries[at]?.body;
    if (body?.kind === "model_called" || body?.kind === "turn_closed") break;
    if (body?.kind === "event" && body.event.type === "compaction_started") break;
    const took = body?.kind === "assistant" || body?.kind === "call_failed" ? body.usage : undefined;
    if (took !== undefined) usage = addUsage(usage ?? NO_USAGE, took);
    if (body?.kind === "assistant") break;
  }
  return usage;
}
