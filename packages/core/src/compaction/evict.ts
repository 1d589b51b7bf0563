import { EVICTION, type Evicted, type EvictionReason, RECALL_OUTPUT } from "../contract/compaction.ts";
import type { EntryBodyOf } from "../contract/entry.ts";
import type { Content, Message, ToolResult, ToolUseBlock } from "../contract/message.ts";
import { activeCompaction, messagesOf, type Placed, prunedBy, rangesOf } from "../state/context.ts";
import type { SessionState } from "../state/session-state.ts";
import type { Pruned } from "../state/transcript-text.ts";
import type { WholeState } from "../state/whole-state.ts";
import type { Asking } from "../turn/model-call.ts";
import { contentText, contentTokens, estimateTokens } from "../turn/tokens.ts";
import { passGates } from "./gates.ts";
import { keepAll, partsOf } from "./plan.ts";
import { type Compacting, sourceOf } from "./prepare.ts";
import { originalsOf, recoverByExpanding, workerFor, writeReceipt } from "./receipt.ts";
import type { CompactionJob } from "./run-compaction.ts";
import { isSummary, pinnedIn } from "./shown-messages.ts";
import { readWork, workFor } from "./work-state.ts";

/** Smaller outputs stay: their replacement is hardly shorter. */
const EVICT_TOKENS_MIN = 100;
const LARGE_TOKENS_MIN = 500;
/** A large output is old if it is not of the newest turns, */
const RECENT_TURNS = 2;
/** or if this many tool exchanges followed it: one turn may be a day's work. */
const RECENT_EXCHANGES = 8;
/** Freeing less is not worth the provider's cache: at half of this, outputs were evicted at every second turn. */
const FREED_SHARE_MIN = 0.1;

export type Eviction = Pruned & { readonly reason: EvictionReason };

type Evictable = Pick<SessionState, "shown" | "shownTokens" | "shownBy" | "evictions" | "pins">;

/**
 * The tool outputs to evict, oldest first, with their replacements; none if it is not worth it. Only outputs after the
 * last evicted one are considered, so evictions never overlap and an undone one is not repeated.
 */
export function chooseEvictions({ shown, shownTokens, shownBy, evictions, pins }: Evictable): readonly Eviction[] {
  const active = shownBy.at(-1);
  // Simplified messages differ from the log: they stay as they are.
  if (active !== undefined && active.body.reshape !== "as_is") return [];
  const from = shown.findLastIndex(({ seq }) => seq === evictions.upTo) + 1;
  const spared = new Set([...pinnedIn(shown, pins)].map(({ seq }) => seq));
  const known = new Set(active?.body.pruned.map(({ seq, tool_use_id }) => `${seq} ${tool_use_id}`));
  const expanded = active?.expanded ?? [];
  const isSpared = (seq: number, result: ToolResult): boolean =>
    seq === active?.seq ||
    spared.has(seq) ||
    known.has(`${seq} ${result.tool_use_id}`) ||
    expanded.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
  const found = evictable(exchangesIn(shown.slice(from)), isSpared);
  const freed = found.reduce((sum, { tokens, content }) => sum + tokens - contentTokens(content), 0);
  return freed >= shownTokens * FREED_SHARE_MIN ? found : [];
}

/** Whether a task was marked done since the last eviction: its outputs are no longer needed. */
export function isTaskDone({ shown, evictions }: Pick<Evictable, "shown" | "evictions">): boolean {
  const { exchanges } = exchangesIn(shown);
  return exchanges.some(
    ({ seq, results, calls }) =>
      seq > evictions.lastSeq && results.some((result) => !result.is_error && marksDone(calls.get(result.tool_use_id))),
  );
}

function marksDone(call: ToolUseBlock["data"] | undefined): boolean {
  return call?.name === "task_update" && call.args.status === "completed";
}

interface Exchange {
  readonly seq: number;
  readonly results: readonly ToolResult[];
  /** The answered calls by id; ids are unique within this exchange only. */
  readonly calls: ReadonlyMap<string, ToolUseBlock["data"]>;
  readonly turn: number;
}

function exchangesIn(shown: readonly Placed[]): { readonly exchanges: readonly Exchange[]; readonly turns: number } {
  const exchanges: Exchange[] = [];
  let calls: Exchange["calls"] = new Map();
  let turns = 0;
  for (const { seq, message } of shown) {
    if (message.role === "user" && !isSummary(message)) turns += 1;
    if (message.role === "block_assistant") calls = callsIn(message);
    if (message.role === "tool_results") exchanges.push({ seq, results: message.results, calls, turn: turns });
  }
  return { exchanges, turns };
}

function callsIn({ blocks }: Extract<Message, { role: "block_assistant" }>): Exchange["calls"] {
  return new Map(blocks.flatMap((block) => (block.block_type === "tool_use" ? [[block.data.id, block.data]] : [])));
}

function evictable(
  { exchanges, turns }: ReturnType<typeof exchangesIn>,
  isSpared: (seq: number, result: ToolResult) => boolean,
): readonly Eviction[] {
  const found: Eviction[] = [];
  const givenLater = new Set<string>();
  for (const [after, { seq, results, calls, turn }] of exchanges.toReversed().entries()) {
    const turnsAfter = turns - turn;
    const isOld = turnsAfter >= RECENT_TURNS || after >= RECENT_EXCHANGES;
    const keys = results.map(({ tool_use_id }) => keyOf(calls.get(tool_use_id)));
    // Results are addressed by id: duplicates are skipped.
    const isUnambiguous = new Set(results.map(({ tool_use_id }) => tool_use_id)).size === results.length;
    // The model has not read the newest exchange yet.
    for (const [at, result] of after === 0 || !isUnambiguous ? [] : [...results.entries()].toReversed()) {
      if (isSpared(seq, result)) continue;
      const tokens = contentTokens(result.content);
      if (tokens < EVICT_TOKENS_MIN) continue;
      const reason = reasonFor({
        isSuperseded: givenLater.has(keys[at] ?? ""),
        hasFailed: result.is_error && turnsAfter > 0,
        isLarge: isOld && tokens >= LARGE_TOKENS_MIN,
      });
      if (reason === undefined) continue;
      const call = results.length > 1 ? at + 1 : undefined;
      const name = calls.get(result.tool_use_id)?.name ?? "an unknown tool";
      const content = lineFor({ name, content: result.content, tokens, seq, call, reason });
      if (contentTokens(content) >= tokens) continue;
      found.unshift({ seq, tool_use_id: result.tool_use_id, tokens, content, reason });
    }
    for (const [at, { is_error }] of results.entries()) if (!is_error) givenLater.add(keys[at] ?? "");
    givenLater.delete("");
  }
  return found;
}

function reasonFor(of: {
  readonly isSuperseded: boolean;
  readonly hasFailed: boolean;
  readonly isLarge: boolean;
}): EvictionReason | undefined {
  if (of.isSuperseded) return "superseded";
  if (of.hasFailed) return "failed";
  return of.isLarge ? "large" : undefined;
}

/** The tool and its arguments, equal for equal calls; empty if unknown. */
function keyOf(call: ToolUseBlock["data"] | undefined): string {
  if (call === undefined || call.args_error !== undefined) return "";
  const args = canonical(call.args, 0);
  return args === undefined ? "" : `${call.name} ${args}`;
}

/** Deeper arguments are not compared. */
const DEPTH_MAX = 32;

/** JSON with sorted names; undefined if it is nested too deep. */
function canonical(value: unknown, depth: number): string | undefined {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (depth >= DEPTH_MAX) return undefined;
  const isList = Array.isArray(value);
  const entries = isList ? [...value.entries()] : Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  const parts: string[] = [];
  for (const [name, inner] of entries) {
    const text = canonical(inner, depth + 1);
    if (text === undefined) return undefined;
    parts.push(isList ? text : `${JSON.stringify(name)}:${text}`);
  }
  return isList ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}

const NAME_CHARS_MAX = 64;
const WORDS_CHARS_MAX = 60;

interface Line {
  readonly name: string;
  readonly content: Content;
  readonly tokens: number;
  readonly seq: number;
  /** Its position among several results of one message, from 1. */
  readonly call: number | undefined;
  readonly reason: EvictionReason;
}

function lineFor({ name, content, tokens, seq, call, reason }: Line): string {
  const where = call === undefined ? `seq: ${seq}` : `seq: ${seq}, call: ${call}`;
  const why = reason === "superseded" ? "called again later, left the context" : "left the context";
  const what = `${plain(name, NAME_CHARS_MAX)} "${plain(contentText(content), WORDS_CHARS_MAX)}"`;
  return `[${what} · about ${tokens.toLocaleString("en-US")} tokens · ${why}; ${RECALL_OUTPUT}(${where}) shows it]`;
}

/** How many characters are read per character shown. */
const LOOKED_AT_PER_CHAR = 8;

/** The first words of external text on one line; they cannot end the line or imitate another reference. */
function plain(text: string, charsMax: number): string {
  const words = text
    .slice(0, charsMax * LOOKED_AT_PER_CHAR)
    .replaceAll(/["“”„«»]/gu, "'")
    .replaceAll(/[\p{C}\p{Z}\s[\]{}()<>·…;`]+/gu, " ")
    .trim();
  if (words.length <= charsMax && text.length <= charsMax * LOOKED_AT_PER_CHAR) return words;
  const cut = words.slice(0, charsMax);
  const end = cut.lastIndexOf(" ");
  return `${(end > charsMax / 2 ? cut.slice(0, end) : cut).toWellFormed()}…`;
}

export interface EvictionJob {
  readonly state: WholeState;
  readonly compacting: Pick<Compacting, "reading" | "workStateTokens">;
  readonly asking: Pick<Asking, "model" | "clock" | "signal" | "redact">;
  append: CompactionJob["append"];
}

/**
 * Replaces old tool outputs by one line each, without a model; everything else stays. False if nothing was evicted, or
 * a provider would reject the result.
 */
export async function runEviction({ state, compacting, asking, append }: EvictionJob): Promise<boolean> {
  const { clock, model } = asking;
  const found = chooseEvictions(state);
  if (found.length === 0) return false;
  await clock.yieldToEventLoop();
  const transcript = [...state.transcript];
  const source = sourceOf(state, transcript);
  const pinned = pinnedIn(source.shown, state.pins);
  const pinnedSeqs = new Set([...pinned].map(({ seq }) => seq));
  const active = activeCompaction(state);
  const before = active === undefined ? [] : prunedBy(active, (seq) => pinnedSeqs.has(seq));
  const pruned = [...before, ...found];
  const compaction_id = clock.newId();
  const created_at = new Date(clock.now()).toISOString();
  const plan = keepAll(source);
  await readWork(state, clock.yieldToEventLoop);
  // Without a summary everything is in view.
  const work = plan.items.every((item) => "kept" in item) ? {} : workFor(state, compacting, asking.redact);
  const passed = passGates(
    { plan, pruned, pinned },
    {
      transcript,
      compactions: state.compactions,
      shown: source.shown,
      pins: state.pins,
      seq: state.lastSeq + 1,
      summary: { summary: "", created_at, compaction_id, ...work },
      mayDiscardMore: false,
    },
  );
  // An eviction is not worth simplifying other messages.
  if (!passed.ok || passed.reshape !== "as_is") return false;
  await clock.yieldToEventLoop();
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
    yieldToEventLoop: clock.yieldToEventLoop,
    // Each line names its output: searching memory for it would only delay the next call.
    recover: recoverByExpanding(transcript, clock.yieldToEventLoop),
    ...workerFor({ reading: compacting.reading, recovering: undefined }, transcript, asking.signal),
  });
  await append(() => {
    // Messages added meanwhile, such as injected text, come after the examined ones.
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
      ...work,
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
