import type { CompactionTrigger } from "../contract/compaction.ts";
import { messageOf } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import type { ModelClient, ToolSpec } from "../ports/model.ts";
import { judgeBoundary, type Verdict } from "./compaction/policy.ts";
import type { Compacting } from "./compaction/prepare.ts";
import type { CompactionJob } from "./compaction/run-compaction.ts";
import type { Asking } from "./model-call.ts";
import type { Ahead, SessionState } from "./session-state.ts";
import { toolTokens } from "./tokens.ts";

/** What a boundary knows of its turn. */
interface AtBoundary {
  readonly state: SessionState;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, ToolSpec>;
  readonly compacting: Compacting | undefined;
  append: CompactionJob["append"];
}

const BYTES_PER_TOKEN = 4;

/** Whether the context is to be compacted before the next call; `ahead` is the state that call would be made in. */
export function judgeTurnBoundary(turn: AtBoundary, ahead: Ahead): Verdict | { readonly error: string } {
  const { state, compacting, model, tools } = turn;
  if (compacting === undefined) return "not_due";
  const { cadence, lastInputTokens, added, shownTokens, shownMediaBytes, settings } = ahead;
  const last = Math.max(
    cadence.last_compaction_boundary_index ?? -1,
    cadence.last_compaction_attempt_boundary_index ?? -1,
  );
  const facts = {
    lastInputTokens,
    messageCount: state.shown.length + added.length,
    estimatedHistoryTokens: shownTokens,
    lastCompactionBoundaryIndex: last < 0 ? undefined : last,
    sessionBoundaryIndex: cadence.session_boundary_index,
    contextWindow: model.contextWindow,
    toolTokens: toolTokens(tools.values()),
    outputTokens: settings.max_tokens ?? 0,
    requestBytes: shownMediaBytes + shownTokens * BYTES_PER_TOKEN,
    minTurnsBetweenCompactions: compacting.minTurnsBetweenCompactions,
  };
  try {
    return judgeBoundary(facts, compacting.compactor);
  } catch (thrown) {
    return { error: `the compactor failed: ${messageOf(thrown)}` };
  }
}

/** Compacts now; false when there was nothing to take out or it failed, which the events tell. */
export async function runDueCompaction(turn: AtBoundary, asking: Asking, trigger: CompactionTrigger): Promise<boolean> {
  const { state, compacting, append } = turn;
  if (compacting === undefined) return false;
  // Most sessions end before they are compacted, so what only a compaction needs is loaded by the first.
  const { runCompaction } = await import("./compaction/run-compaction.ts");
  const outcome = await runCompaction({ state, compacting, asking, trigger, append });
  return outcome.compacted;
}

/** By the message they begin with: the same request begins with the same message each time, as caches of it ask for. */
const skilled = new WeakMap<Message, { readonly skill: string; readonly system: Message }>();

/** The request's messages with a skill at the end of the system prompt. */
export function withSkill(messages: readonly Message[], skill: string | undefined): readonly Message[] {
  const [first, ...rest] = messages;
  if (skill === undefined || first === undefined) return messages;
  const isSystem = first.role === "system";
  const known = skilled.get(first);
  const system: Message =
    known?.skill === skill
      ? known.system
      : { role: "system", content: isSystem ? `${first.content}\n\n${skill}` : skill, created_at: first.created_at };
  skilled.set(first, { skill, system });
  return [system, ...(isSystem ? rest : messages)];
}
