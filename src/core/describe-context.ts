import { isRecallTool } from "../contract/memory.ts";
import type { AssistantMessage, ToolResultsMessage } from "../contract/message.ts";
import type { PartKind, SessionContext } from "../contract/session-context.ts";
import { assembleContext, evictedFrom, type Hash, hashContext, isIn, type Placed, type ShownState } from "./context.ts";
import { contentTokens, estimateTokens } from "./tokens.ts";

/** The context with where its parts come from. */
export function describeContext(state: ShownState, hash: Hash): Omit<SessionContext, "tools" | "tool_tokens"> {
  const messages = assembleContext(state);
  const evicted = evictedFrom(state);
  const tokens = evicted.reduce((sum, one) => sum + one.tokens, 0);
  return {
    messages: state.shown.map(({ seq, message }) => ({ ...message, seq })),
    estimated_tokens: estimateTokens(messages),
    sha256: hashContext(messages, hash),
    parts: partsOf(state),
    kinds: [...createTally()(state)].map(([kind, size]) => ({ kind, tokens: size })),
    ...(evicted.length === 0 ? {} : { evicted: { outputs: evicted.length, tokens } }),
  };
}

/** The system message, the summary, what was pinned or brought back, then a part for each turn. */
function partsOf(state: ShownState): SessionContext["parts"] {
  const parts: SessionContext["parts"] = [];
  const kindOf = kindsOf(state);
  for (const placed of state.shown) {
    const { seq, message } = placed;
    const kind = kindOf(placed);
    const last = parts.at(-1);
    const estimated_tokens = estimateTokens([message]);
    const isBeginning = last === undefined || last.kind !== kind || kind === "system" || kind === "summary";
    if (isBeginning || message.role === "user") parts.push({ kind, seqs: [seq, seq], estimated_tokens });
    else {
      last.seqs = [Math.min(last.seqs[0], seq), Math.max(last.seqs[1], seq)];
      last.estimated_tokens += estimated_tokens;
    }
  }
  return parts;
}

/** What each message stands in the context as. */
function kindsOf({ pins, shownBy }: Pick<ShownState, "pins" | "shownBy">) {
  const expanded = shownBy.at(-1)?.expanded ?? [];
  return ({ seq, message }: Placed): "system" | "summary" | "pinned" | "expanded" | "turn" => {
    if (message.role === "system") return "system";
    if (message.role === "user" && message.compaction_id !== undefined) return "summary";
    if (pins.has(seq)) return "pinned";
    return isIn(expanded, seq) ? "expanded" : "turn";
  };
}

/** Sums up what is shown by its kinds. What only grew since the last time is read from where it ended. */
export function createTally(): (state: ShownState) => ReadonlyMap<PartKind, number> {
  let seen: readonly Placed[] = [];
  let read = 0;
  let sums = new Map<PartKind, number>();
  let calls: ReadonlyMap<string, string> = new Map();
  let evicted: ReadonlySet<string> = new Set();
  return (state) => {
    if (state.shown !== seen) {
      seen = state.shown;
      read = 0;
      sums = new Map();
      evicted = new Set(evictedFrom(state).map(({ seq, tool_use_id }) => `${seq} ${tool_use_id}`));
    }
    const kindOf = kindsOf(state);
    for (; read < seen.length; read += 1) {
      const placed = seen[read];
      if (placed === undefined) break;
      const { message } = placed;
      if (message.role === "block_assistant") calls = callsIn(message);
      const kind = kindOf(placed);
      const parts =
        kind === "turn" && message.role === "tool_results"
          ? resultParts(placed.seq, message, { calls, evicted })
          : undefined;
      for (const [part, tokens] of parts ?? [[kind, estimateTokens([message])] as const]) {
        sums.set(part, (sums.get(part) ?? 0) + tokens);
      }
    }
    return new Map(sums);
  };
}

function callsIn({ blocks }: AssistantMessage): ReadonlyMap<string, string> {
  return new Map(
    blocks.flatMap((block) => (block.block_type === "tool_use" ? [[block.data.id, block.data.name] as const] : [])),
  );
}

function resultParts(
  seq: number,
  { results }: ToolResultsMessage,
  known: { readonly calls: ReadonlyMap<string, string>; readonly evicted: ReadonlySet<string> },
) {
  return results.map(({ tool_use_id, content }): readonly [PartKind, number] => {
    if (known.evicted.has(`${seq} ${tool_use_id}`)) return ["evicted", contentTokens(content)];
    return [isRecallTool(known.calls.get(tool_use_id) ?? "") ? "memory" : "tool_output", contentTokens(content)];
  });
}
