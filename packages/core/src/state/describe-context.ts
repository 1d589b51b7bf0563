import { withoutWorkState } from "../compaction/shown-messages.ts";
import type { Entry } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import { isRecallTool } from "../contract/memory.ts";
import type { AssistantMessage, Message, ToolResultsMessage } from "../contract/message.ts";
import type { SessionSettings } from "../contract/session.ts";
import type { PartKind, SessionContext } from "../contract/session-info.ts";
import type { Clock } from "../ports/clock.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { agentsMdIn } from "../turn/skills.ts";
import { contentTokens, estimateTokens } from "../turn/tokens.ts";
import {
  assembleContext,
  evictedFrom,
  type Hash,
  hashAhead,
  hashContext,
  isIn,
  type Placed,
  type ShownState,
} from "./context.ts";
import { applyEntry, applyUnshown, beginFold, showAnew } from "./whole-state.ts";

/** The context as it is now; the answer shares nothing with the state. */
export async function describeContext(
  { shown, pins, shownBy }: ShownState,
  hash: Hash,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<Omit<SessionContext, "tools" | "tool_tokens">> {
  // A turn may continue meanwhile.
  const state = { shown: [...shown], pins: new Set(pins), shownBy };
  const messages = assembleContext(state);
  const evicted = evictedFrom(state);
  const tokens = evicted.reduce((sum, one) => sum + one.tokens, 0);
  await hashAhead(messages, hash, yieldToEventLoop);
  const copies: SessionContext["messages"] = [];
  for (const { seq, message } of state.shown) {
    copies.push({ ...structuredClone(message), seq });
    await yieldToEventLoop();
  }
  const parts = partsOf(state);
  await yieldToEventLoop();
  const kinds = [...(await createTally(yieldToEventLoop)(state))].map(([kind, size]) => ({ kind, tokens: size }));
  await yieldToEventLoop();
  return {
    messages: copies,
    estimated_tokens: estimateTokens(messages),
    sha256: hashContext(messages, hash),
    parts,
    kinds,
    ...(evicted.length === 0 ? {} : { evicted: { outputs: evicted.length, tokens } }),
  };
}

/** The system message, the summary, AGENTS.md, pinned and expanded messages, then one part per turn. */
function partsOf(state: ShownState): SessionContext["parts"] {
  const parts: SessionContext["parts"] = [];
  const kindOf = kindsOf(state);
  for (const placed of state.shown) {
    const { seq, message } = placed;
    const kind = kindOf(placed);
    const last = parts.at(-1);
    const estimated_tokens = estimateTokens([message]);
    const work = workTokens(message);
    if (work > 0) {
      parts.push({ kind, seqs: [seq, seq], estimated_tokens: estimated_tokens - work });
      parts.push({ kind: "work_state", seqs: [seq, seq], estimated_tokens: work });
      continue;
    }
    const isBeginning = last === undefined || last.kind !== kind || kind === "system" || kind === "summary";
    if (isBeginning || message.role === "user") parts.push({ kind, seqs: [seq, seq], estimated_tokens });
    else {
      last.seqs = [Math.min(last.seqs[0], seq), Math.max(last.seqs[1], seq)];
      last.estimated_tokens += estimated_tokens;
    }
  }
  return parts;
}

/** The size of the state of the work at the end of a summary; 0 if there is none. */
function workTokens(message: Message): number {
  if (message.role !== "user" || message.compaction_id === undefined || typeof message.content !== "string") return 0;
  return contentTokens(message.content) - contentTokens(withoutWorkState(message.content));
}

function kindsOf({ pins, shownBy }: Pick<ShownState, "pins" | "shownBy">) {
  const expanded = shownBy.at(-1)?.expanded ?? [];
  return ({ seq, message }: Placed): "system" | "summary" | "agents_md" | "pinned" | "expanded" | "turn" => {
    if (message.role === "system") return "system";
    if (message.role === "user" && message.compaction_id !== undefined) return "summary";
    if (agentsMdIn(message) !== undefined) return "agents_md";
    if (pins.has(seq)) return "pinned";
    return isIn(expanded, seq) ? "expanded" : "turn";
  };
}

/** Sums the context by kind. After an append only the new messages are read. */
function createTally(
  yieldToEventLoop: Clock["yieldToEventLoop"],
): (state: ShownState) => Promise<ReadonlyMap<PartKind, number>> {
  let seen: readonly Placed[] = [];
  let read = 0;
  let sums = new Map<PartKind, number>();
  let calls: ReadonlyMap<string, string> = new Map();
  let evicted: ReadonlySet<string> = new Set();
  return async (state) => {
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
          : wholeParts(kind, message);
      for (const [part, tokens] of parts) {
        sums.set(part, (sums.get(part) ?? 0) + tokens);
      }
      await yieldToEventLoop();
    }
    return new Map(sums);
  };
}

function wholeParts(kind: PartKind, message: Message): readonly (readonly [PartKind, number])[] {
  const [tokens, work] = [estimateTokens([message]), workTokens(message)];
  return work === 0
    ? [[kind, tokens]]
    : [
        [kind, tokens - work],
        ["work_state", work],
      ];
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

/** A model call with the size of its context. */
export interface SizedCall {
  readonly entry: Entry;
  readonly model: string;
  /** The turn of the session, from 1. */
  readonly turn: number;
  readonly settings: SessionSettings;
  readonly tokens: number;
  /** Tokens of its tools; undefined if the log does not say. */
  readonly toolTokens: number | undefined;
  readonly parts: ReadonlyMap<PartKind, number>;
  /** Usage including failed attempts; absent while it runs or if unknown. */
  readonly usage: Usage | undefined;
}

/**
 * Sizes the calls at these ascending indexes of a log in one fold. The context is rebuilt from the first of them on, so
 * a page costs one pass however many compactions came before.
 */
export async function sizeCalls(
  sessionId: string,
  { entries, calls }: { readonly entries: readonly Entry[]; readonly calls: readonly number[] },
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly SizedCall[]> {
  const [first] = calls;
  if (first === undefined) return [];
  const state = beginFold(sessionId, entries);
  const wanted = new Set(calls);
  const tally = createTally(yieldToEventLoop);
  const sized: SizedCall[] = [];
  for (const [at, entry] of entries.entries()) {
    if (at < first) applyUnshown(state, entry);
    else applyEntry(state, entry);
    if (at === first) showAnew(state);
    if (wanted.has(at) && entry.body.kind === "model_called") {
      const { settings, turnsOpened: turn } = state;
      const { model, tool_tokens: toolTokens } = entry.body;
      const parts = await tally(state);
      const tokens = [...parts.values()].reduce((sum, part) => sum + part, 0);
      sized.push({ entry, model, turn, settings, parts, tokens, toolTokens, usage: usageAfter(entries, at) });
      if (sized.length === calls.length) return sized;
    }
    await yieldToEventLoop();
  }
  return sized;
}

/** Usage of the answer and of the attempts that failed before it, without that of a compaction in between. */
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
