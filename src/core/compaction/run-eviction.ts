import { EVICTION, type Evicted } from "../../contract/compaction.ts";
import type { EntryBodyOf } from "../../contract/entry.ts";
import { messagesOf, prunedBy, standingIn } from "../context.ts";
import type { Asking } from "../model-call.ts";
import { rangesOf } from "../seq-ranges.ts";
import { estimateTokens } from "../tokens.ts";
import type { WholeState } from "../whole-state.ts";
import { chooseEvictions, type Eviction } from "./evict.ts";
import { passGates } from "./gates.ts";
import { keepAll, partsOf } from "./plan.ts";
import { type Compacting, sourceOf } from "./prepare.ts";
import { apartFor, originalsOf, recoverByExpanding, writeReceipt } from "./receipt.ts";
import type { CompactionJob } from "./run-compaction.ts";
import { pinnedIn } from "./shown-messages.ts";

/** One eviction of a session that is held. */
export interface EvictionJob {
  readonly state: WholeState;
  readonly compacting: Pick<Compacting, "reading">;
  readonly asking: Pick<Asking, "model" | "clock" | "signal">;
  append: CompactionJob["append"];
}

/**
 * Lets tool output leave the context: each becomes one line, everything else stays as it is shown. No model is asked.
 * False where nothing left it, because nothing may or because a provider would refuse what is left.
 */
export async function runEviction({ state, compacting, asking, append }: EvictionJob): Promise<boolean> {
  const { clock, model } = asking;
  const found = chooseEvictions(state);
  if (found.length === 0) return false;
  await clock.breathe();
  const transcript = [...state.transcript];
  const source = sourceOf(state, transcript);
  const pinned = pinnedIn(source.shown, state.pins);
  const pinnedSeqs = new Set([...pinned].map(({ seq }) => seq));
  const standing = standingIn(state);
  const before = standing === undefined ? [] : prunedBy(standing, (seq) => pinnedSeqs.has(seq));
  const pruned = [...before, ...found];
  const compaction_id = clock.newId();
  const created_at = new Date(clock.now()).toISOString();
  const passed = passGates(
    { plan: keepAll(source), pruned, pinned },
    {
      transcript,
      compactions: state.compactions,
      shown: source.shown,
      pins: state.pins,
      seq: state.lastSeq + 1,
      summary: { summary: "", created_at, compaction_id },
      mayDiscardMore: false,
    },
  );
  // Whatever would have to be simplified for it is worth more than the room it makes.
  if (!passed.ok || passed.reshape !== "as_is") return false;
  await clock.breathe();
  const receipt = await writeReceipt({
    gone: originalsOf(transcript, { discarded: [], pruned: found }),
    inherited: [],
    saved: [],
    summary: "",
    tail: messagesOf(passed.shown.filter(({ seq }) => !pinnedSeqs.has(seq))),
    pinned: messagesOf(passed.shown.filter(({ seq }) => pinnedSeqs.has(seq))),
    pruned,
    invented: [],
    inventedCut: false,
    unverified: [],
    breathe: clock.breathe,
    // Each line names the output it stands for: to search a memory for it would only hold up the call that comes next.
    recover: recoverByExpanding(transcript, clock.breathe),
    ...apartFor({ reading: compacting.reading, recovering: undefined }, transcript, asking.signal),
  });
  await append(() => {
    // What was said meanwhile, such as an injected text, stands after what was looked at.
    const late = state.transcript.slice(transcript.length);
    const body: EntryBodyOf<"compacted"> = {
      kind: "compacted",
      compaction_id,
      created_at,
      strategy: EVICTION,
      trigger: EVICTION,
      summary_by: "none",
      model: model.modelId,
      notes: [],
      summary: "",
      summary_tokens: 0,
      messages_before: source.shown.length + late.length,
      messages_after: passed.shown.length + late.length,
      tokens_before: estimateTokens(messagesOf([...source.shown, ...late])),
      tokens_after: estimateTokens(messagesOf([...passed.shown, ...late])),
      shows: [...partsOf(passed.plan, transcript), ...rangesOf(late, state.transcript)],
      discarded: [],
      pruned,
      reshape: passed.reshape,
      receipt,
      evicted: countsOf(found),
      usage: { input_tokens: 0, output_tokens: 0 },
      cadence: state.cadence,
    };
    return [body];
  });
  return true;
}

function countsOf(found: readonly Eviction[]): Evicted {
  const counted = (reason: Eviction["reason"]): number => found.filter((one) => one.reason === reason).length;
  return {
    outputs: found.length,
    superseded: counted("superseded"),
    failed: counted("failed"),
    large: counted("large"),
    up_to_seq: found.at(-1)?.seq ?? 0,
  };
}
