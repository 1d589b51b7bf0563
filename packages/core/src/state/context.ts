import { pinnedIn, reshapeMessage, summaryMessage, workStateText } from "../compaction/shown-messages.ts";
import type { CompactionCadence, ContextPart, Reshape, SeqRange } from "../contract/compaction.ts";
import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import { applyPruned, type Pruned } from "./transcript-text.ts";

/** The hex SHA-256 of a text, injected because this layer imports no library. */
export type Hash = (text: string) => string;

/** The part of a session's state that determines the context. */
export interface ShownState {
  readonly shown: readonly Placed[];
  readonly pins: ReadonlySet<number>;
  /** Active compactions, the newest last; before it those whose summaries it still shows. */
  readonly shownBy: readonly CompactionRecord[];
}

export function assembleContext(state: Pick<ShownState, "shown">): readonly Message[] {
  return state.shown.map((placed) => placed.message);
}

/** Keyed by the first message: the same request starts with the same object, which provider caches rely on. */
const skilled = new WeakMap<Message, { readonly skill: string; readonly system: Message }>();

/** Appends a skill to the system prompt. */
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

const chained = new WeakMap<Message, { readonly before: string; readonly hash: string }>();

/** One hash for a whole context. Earlier hashes are cached, so a call pays for its new messages only. */
export function hashContext(messages: readonly Message[], hash: Hash): string {
  return messages.reduce((chain, message) => chainHash(message, chain, hash), "");
}

/** The usual turn has fewer new messages, and looks at no earlier one. */
const HASHED_AT_ONCE = 16;

/** Hashes a long context between the turns of others; afterwards `hashContext` reads new messages only. */
export async function hashAhead(
  messages: readonly Message[],
  hash: Hash,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<void> {
  const hashed = messages.findLastIndex((message) => chained.has(message));
  if (messages.length - hashed <= HASHED_AT_ONCE) return;
  let chain = "";
  for (const message of messages) {
    chain = chainHash(message, chain, hash);
    await yieldToEventLoop();
  }
}

export function chainHash(message: Message, before: string, hash: Hash): string {
  const known = chained.get(message);
  if (known !== undefined && known.before === before) return known.hash;
  const next = { before, hash: hash(`${before}\n${JSON.stringify(message)}`) };
  chained.set(message, next);
  return next.hash;
}

/** A message and the seq of its entry. */
export interface Placed {
  readonly seq: number;
  readonly message: Message;
}

export function messagesOf(placed: readonly Placed[]): readonly Message[] {
  return placed.map(({ message }) => message);
}

/** The fields of a compaction that determine the context. */
export type Showing = Pick<
  EntryBodyOf<"compacted">,
  "summary" | "quoted" | "rules" | "work_state" | "created_at" | "compaction_id" | "shows" | "pruned" | "reshape"
>;

/** A compaction as the fold stores it. */
export interface CompactionRecord<Body extends Showing = EntryBodyOf<"compacted">> {
  readonly seq: number;
  readonly body: Body;
  /** How many messages of the transcript, without the system message, it was made from. */
  readonly madeFrom: number;
  readonly undone: boolean;
  readonly expanded: readonly SeqRange[];
  /** The provider refused its native compaction. */
  readonly nativeRefused?: true;
}

/**
 * Computes the context from a transcript: system message, newest active compaction, pinned messages, and everything
 * since. Without a compaction it is the transcript, so an undo restores the same messages.
 */
export function showTranscript(
  transcript: readonly Placed[],
  compactions: readonly CompactionRecord<Showing>[],
  pins: ReadonlySet<number>,
): Placed[] {
  const active = activeCompaction({ compactions });
  if (active === undefined) return [...transcript];
  return showBy(transcript, active, pins).shown;
}

/** A message of a compacted context: its seq, and the indexes of the pruned references in it. */
export type ShownRef = readonly [seq: number, ...pruned: readonly number[]];

/** The messages that an active compaction shows, and their references. */
export function showBy(
  transcript: readonly Placed[],
  active: CompactionRecord<Showing>,
  pins: ReadonlySet<number>,
): { readonly shown: Placed[]; readonly from: readonly ShownRef[] } {
  const systems = transcript[0]?.message.role === "system" ? 1 : 0;
  const cut = systems + active.madeFrom;
  const from = refsBy(transcript.slice(systems, cut), active, pins);
  const said = new Map(transcript.slice(systems, cut).map(({ seq, message }) => [seq, message]));
  const made = rebuild(from, active, (seq) => said.get(seq)) ?? [];
  return { shown: [...transcript.slice(0, systems), ...made, ...transcript.slice(cut)], from };
}

/** The active compaction: the newest that was not undone. */
export function activeCompaction<R extends { readonly undone: boolean }>(of: { readonly compactions: readonly R[] }) {
  return of.compactions.findLast((record) => !record.undone);
}

/** Outputs that a compaction still shows as references; pinned and expanded ones are whole again. */
export function prunedBy(
  { body, expanded }: Pick<CompactionRecord<Showing>, "body" | "expanded">,
  isPinned: (seq: number) => boolean,
): readonly Pruned[] {
  return body.pruned.filter(({ seq, reason }) => reason === undefined || !(isIn(expanded, seq) || isPinned(seq)));
}

/** Outputs that are evicted from the current context. */
export function evictedFrom({ shownBy, pins, shown }: ShownState): readonly Pruned[] {
  const active = shownBy.at(-1);
  if (active === undefined || !active.body.pruned.some(({ reason }) => reason !== undefined)) return [];
  const seqs = new Set(shown.map(({ seq }) => seq));
  const pinned = new Set([...pinnedIn(shown, pins)].map(({ seq }) => seq));
  return prunedBy(active, (seq) => pinned.has(seq)).filter(({ seq, reason }) => reason !== undefined && seqs.has(seq));
}

/** The covered messages that a compaction shows, in order, with their form. */
function refsBy(
  past: readonly Placed[],
  record: CompactionRecord<Showing>,
  pins: ReadonlySet<number>,
): readonly ShownRef[] {
  const { seq, body, expanded } = record;
  const refs: ShownRef[] = [];
  const kept = body.shows.filter((part) => "from_seq" in part);
  const pinned = pinnedIn(past, pins);
  const back = past.filter((placed) => (isIn(expanded, placed.seq) || pinned.has(placed)) && !isIn(kept, placed.seq));
  const pinnedSeqs = new Set([...pinned].map((placed) => placed.seq));
  const numbers = new Map(body.pruned.map((result, number) => [result, number]));
  const pruned = Map.groupBy(
    prunedBy(record, (at) => pinnedSeqs.has(at)),
    (result) => result.seq,
  );
  // Expanded messages stand before the first younger kept message, so the order of time holds.
  const order = new Map(past.map((placed, index) => [placed.seq, index]));
  const flush = (before: number): void => {
    while (back[0] !== undefined && (order.get(back[0].seq) ?? 0) < before)
      refs.push(...back.splice(0, 1).map((placed): ShownRef => [placed.seq]));
  };
  for (const part of body.shows) {
    if (!("from_seq" in part)) {
      refs.push([seq]);
      continue;
    }
    for (const placed of past.filter((one) => isIn([part], one.seq))) {
      flush(order.get(placed.seq) ?? 0);
      refs.push([placed.seq, ...(pruned.get(placed.seq) ?? []).map((result) => numbers.get(result) ?? 0)]);
    }
  }
  flush(Number.POSITIVE_INFINITY);
  return refs;
}

/** Rebuilds the messages that a compaction shows from the log; undefined if one is missing. */
export function rebuild(
  refs: readonly ShownRef[],
  { seq, body }: Pick<CompactionRecord<Showing>, "seq" | "body">,
  messageAt: (seq: number) => Message | undefined,
): Placed[] | undefined {
  const parts = body.shows.filter((part): part is Exclude<ContextPart, SeqRange> => !("from_seq" in part));
  // The state of the work is the end of the last message that a compaction wrote.
  const carrier = parts.findLast((part) => !("message" in part) || part.message.role === "user");
  const shown: Placed[] = [];
  for (const [at, ...numbers] of refs) {
    const part = at === seq ? parts.shift() : undefined;
    const message =
      part === undefined
        ? messageAt(at)
        : messageOfPart(part, part === carrier ? body : { ...body, work_state: undefined });
    if (message === undefined) return undefined;
    const pruned = numbers.flatMap((number) => body.pruned[number] ?? []);
    const isMade = part !== undefined;
    shown.push({
      seq: at,
      message: isMade ? message : asKept({ seq: at, message }, { pruned, reshape: body.reshape }),
    });
  }
  return shown;
}

function messageOfPart(part: Exclude<ContextPart, SeqRange>, body: Showing): Message {
  if (!("message" in part)) return summaryMessage(body);
  const { message } = part;
  if (message.role !== "user") return message;
  const { work_state, compaction_id } = body;
  const content =
    work_state === undefined || typeof message.content !== "string"
      ? message.content
      : `${message.content}\n\n${workStateText(work_state)}`;
  // A message that replaces turns is no turn itself, also when a custom compactor wrote it.
  return { compaction_id, ...message, content };
}

/** Kept messages with references in the place of their pruned results. */
export function withReferences(kept: readonly Placed[], pruned: readonly Pruned[]): readonly Message[] {
  // By message: there may be thousands of both.
  const bySeq = Map.groupBy(pruned, ({ seq }) => seq);
  return kept.map((placed) => asKept(placed, { pruned: bySeq.get(placed.seq) ?? [], reshape: "as_is" }));
}

/** A kept message as the compaction shows it: large old results as references, simplified where needed. */
function asKept(
  { seq, message }: Placed,
  body: { readonly pruned: readonly Pruned[]; readonly reshape: Reshape },
): Message {
  const pruned = body.pruned.filter((result) => result.seq === seq);
  const kept = message.role === "tool_results" && pruned.length > 0 ? applyPruned(message, pruned) : message;
  return reshapeMessage(kept, body.reshape);
}

export function isIn(ranges: readonly SeqRange[], seq: number): boolean {
  return ranges.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
}

export const NO_CADENCE: CompactionCadence = { session_boundary_index: 0 };

/**
 * Folds when a session compacted. The log holds it, so a resumed session neither compacts at once nor never. An attempt
 * counts when it starts, so a failed one is not repeated at every boundary.
 */
export function advanceCadence(cadence: CompactionCadence, body: EntryBody): CompactionCadence {
  const { session_boundary_index } = cadence;
  switch (body.kind) {
    case "model_called":
      return { ...cadence, session_boundary_index: session_boundary_index + 1 };
    case "imported":
      // A fork inherits the boundaries of the answers it copied.
      if (body.message.role !== "block_assistant") return cadence;
      return { ...cadence, session_boundary_index: session_boundary_index + 1 };
    case "compacted":
      // An eviction neither delays nor prevents a compaction.
      if (body.evicted !== undefined) return cadence;
      return { ...cadence, last_compaction_boundary_index: session_boundary_index };
    // A failed attempt is not repeated at the next boundary.
    case "compaction_dropped":
    // A compaction that a user undid is not repeated at the next boundary.
    case "compaction_undone":
      return { ...cadence, last_compaction_attempt_boundary_index: session_boundary_index };
    case "event":
      if (body.event.type !== "compaction_started") return cadence;
      return { ...cadence, last_compaction_attempt_boundary_index: session_boundary_index };
    default:
      return cadence;
  }
}

export interface Numbered {
  readonly seq: number;
}

/** Converts messages to ranges of exactly their seqs, in order. */
export function rangesOf(placed: readonly Numbered[], transcript: readonly Numbered[]): SeqRange[] {
  // A notice that arrived while tools ran follows their results with a smaller seq. So ranges follow seqs, not
  // positions: a range contains no other seq.
  if (placed.length === 0) return [];
  const ranks = ranksIn(transcript);
  const ranges: SeqRange[] = [];
  for (const { seq } of placed) {
    const last = ranges.at(-1);
    if (last !== undefined && (ranks.get(seq) ?? -1) === (ranks.get(last.to_seq) ?? -1) + 1) last.to_seq = seq;
    else ranges.push({ from_seq: seq, to_seq: seq });
  }
  return ranges;
}

const ranked = new WeakMap<
  readonly Numbered[],
  { readonly length: number; readonly ranks: ReadonlyMap<number, number> }
>();

/** The rank of each seq, cached: a compaction asks several times about the same transcript. */
function ranksIn(transcript: readonly Numbered[]): ReadonlyMap<number, number> {
  const { length } = transcript;
  const known = ranked.get(transcript);
  if (known?.length === length) return known.ranks;
  const seqs = transcript.map(({ seq }) => seq).sort((a, b) => a - b);
  const ranks = new Map(seqs.map((seq, rank) => [seq, rank]));
  ranked.set(transcript, { length, ranks });
  return ranks;
}
