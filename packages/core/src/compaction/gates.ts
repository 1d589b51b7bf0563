import type { Reshape } from "../contract/compaction.ts";
import { lazily } from "../grounding/occurrence.ts";
import { type CompactionRecord, messagesOf, type Placed, type Showing, showTranscript } from "../state/context.ts";
import type { Pruned } from "../state/transcript-text.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { grammarFaults } from "./grammar.ts";
import { keptOf, type Plan, partsOf, replan } from "./plan.ts";
import { RESHAPES, turnsOf } from "./shown-messages.ts";

export interface Candidate {
  readonly plan: Plan;
  readonly pruned: readonly Pruned[];
  readonly pinned: ReadonlySet<Placed>;
}

interface Ground {
  readonly transcript: readonly Placed[];
  readonly compactions: readonly CompactionRecord[];
  readonly shown: readonly Placed[];
  readonly pins: ReadonlySet<number>;
  readonly seq: number;
  /** The rest of the entry; of it the context depends on the summary alone. */
  readonly summary: Pick<Showing, "summary" | "rules" | "work_state" | "created_at" | "compaction_id">;
  /** Whether more than planned may be discarded, because the summary covers all of it. */
  readonly mayDiscardMore: boolean;
}

export type Passed =
  | {
      readonly ok: true;
      readonly plan: Plan;
      readonly reshape: Reshape;
      readonly shown: readonly Placed[];
      readonly notes: readonly string[];
    }
  | { readonly ok: false; readonly error: string };

/**
 * Checks a compaction before it is logged: the resulting context must be smaller and accepted by every provider. An
 * unacceptable context is simplified step by step; a compaction that would make a session unusable is dropped.
 */
export function passGates(candidate: Candidate, ground: Ground): Passed {
  const before = estimateTokens(messagesOf(ground.shown));
  // A provider that rejects the current context cannot be in use: some servers number calls anew in every answer, which
  // others refuse.
  const indifferent = lazily(() => new Set(grammarFaults(messagesOf(ground.shown)).map(({ grammar }) => grammar)));
  let fault = "";
  for (const step of ladder(candidate, ground)) {
    const shown = foldCandidate(step, ground);
    const messages = messagesOf(shown);
    // Pins can be removed later: the context must be valid without them, too.
    const unpinned = ground.pins.size === 0 ? [] : messagesOf(foldCandidate(step, { ...ground, pins: NO_PINS }));
    const faults = [...grammarFaults(messages), ...grammarFaults(unpinned)];
    const first = faults.find(({ grammar }) => !indifferent().has(grammar));
    if (first !== undefined) {
      fault = `${first.grammar} would reject it: ${first.fault}`;
      continue;
    }
    const after = estimateTokens(messages);
    if (after >= before) {
      return { ok: false, error: `the result would not be smaller (about ${after} tokens, now ${before})` };
    }
    return {
      ok: true,
      plan: step.plan,
      reshape: step.reshape,
      shown,
      notes: fault === "" ? [] : [`${step.how}, because ${fault}`],
    };
  }
  return { ok: false, error: `no rebuilt context is acceptable; ${fault}` };
}

const NO_PINS: ReadonlySet<number> = new Set();

interface Step extends Candidate {
  readonly reshape: Reshape;
  readonly how: string;
}

const HOW: Readonly<Record<Reshape, string>> = {
  as_is: "kept as it was",
  without_reasoning: "dropped reasoning from what is kept",
  text_only: "kept tool calls and results as text",
};

/** As it is; without reasoning; with the cut moved turn by turn towards the end; as text only. */
function* ladder(candidate: Candidate, ground: Ground): Generator<Step> {
  const [asIs, ...simpler] = RESHAPES;
  if (asIs !== undefined) yield { ...candidate, reshape: asIs, how: HOW[asIs] };
  for (const reshape of simpler) {
    // Without a summary nothing may be discarded: no trace of it would remain.
    const mayMove = candidate.plan.discarded.length > 0 && ground.mayDiscardMore;
    if (reshape === "text_only" && mayMove) yield* movedCuts(candidate, ground);
    yield { ...candidate, reshape, how: HOW[reshape] };
  }
}

function* movedCuts(candidate: Candidate, { shown }: Ground): Generator<Step> {
  const kept = keptOf(candidate.plan);
  const turns = turnsOf(kept.map(({ message }) => message));
  for (const { start } of turns.slice(1)) {
    const stays = new Set(kept.filter((placed, at) => at >= start || candidate.pinned.has(placed)));
    const plan = replan(candidate.plan, shown, (placed) => stays.has(placed));
    yield { ...candidate, plan, reshape: "without_reasoning", how: "moved the cut" };
  }
}

/** The context as it will be folded from the log. */
export function foldCandidate(
  { plan, pruned, reshape }: Pick<Step, "plan" | "pruned" | "reshape">,
  { transcript, compactions, pins, seq, summary }: Omit<Ground, "shown" | "mayDiscardMore">,
): Placed[] {
  const said = transcript.length - (transcript[0]?.message.role === "system" ? 1 : 0);
  const body = { ...summary, shows: partsOf(plan, transcript), pruned: [...pruned], reshape };
  const record = { seq, body, madeFrom: said, undone: false, expanded: [] };
  return showTranscript(transcript, [...compactions, record], pins);
}
