import type { CompactionCadence, ContextPart, Reshape, SeqRange } from "../contract/compaction.ts";
import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import { pinnedIn, reshapeMessage, summaryMessage } from "./compaction/shown-messages.ts";
import { applyPruned, type Pruned } from "./transcript-text.ts";

/** The hex SHA-256 of a text, handed in: this layer sees no library. */
export type Hash = (text: string) => string;

/** As much of a session's state as says what the model is shown. */
export interface ShownState {
  readonly shown: readonly Placed[];
  readonly pins: ReadonlySet<number>;
  /** The compaction that stands, last, and before it those whose summaries it goes on to show. */
  readonly shownBy: readonly CompactionRecord[];
}

/** What the model is shown now. */
export function assembleContext(state: Pick<ShownState, "shown">): readonly Message[] {
  return state.shown.map((placed) => placed.message);
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

const chained = new WeakMap<Message, { readonly before: string; readonly hash: string }>();

/**
 * One hash for a whole context: each message's is taken over its JSON and the hash before it. What was hashed for the
 * last call is remembered, so a call pays for its new messages only.
 */
export function hashContext(messages: readonly Message[], hash: Hash): string {
  return messages.reduce((chain, message) => chainHash(message, chain, hash), "");
}

/** The hash of everything up to a message, given that of everything before it. */
export function chainHash(message: Message, before: string, hash: Hash): string {
  const known = chained.get(message);
  if (known !== undefined && known.before === before) return known.hash;
  const next = { before, hash: hash(`${before}\n${JSON.stringify(message)}`) };
  chained.set(message, next);
  return next.hash;
}

/** A message and the seq of the entry that holds it. */
export interface Placed {
  readonly seq: number;
  readonly message: Message;
}

export function messagesOf(placed: readonly Placed[]): readonly Message[] {
  return placed.map(({ message }) => message);
}

/** What of a compaction decides what is shown. */
export type Showing = Pick<
  EntryBodyOf<"compacted">,
  "summary" | "rules" | "created_at" | "compaction_id" | "shows" | "pruned" | "reshape"
>;

/** A compaction as the fold keeps it. */
export interface CompactionRecord<Body extends Showing = EntryBodyOf<"compacted">> {
  readonly seq: number;
  readonly body: Body;
  /** How many messages of the transcript, the system message aside, it was made from. */
  readonly madeFrom: number;
  readonly undone: boolean;
  /** What was brought back since. */
  readonly expanded: readonly SeqRange[];
  /** The provider refused its own compaction of it. */
  readonly nativeRefused?: true;
}

/**
 * What the model is shown of a transcript: the system message, the newest compaction that stands, what is pinned, and
 * everything said since. Without a compaction, the transcript itself; so undoing one gives back the very same messages.
 */
export function showTranscript(
  transcript: readonly Placed[],
  compactions: readonly CompactionRecord<Showing>[],
  pins: ReadonlySet<number>,
): Placed[] {
  const standing = standingIn({ compactions });
  if (standing === undefined) return [...transcript];
  return showBy(transcript, standing, pins).shown;
}

/**
 * A message of a context as a compaction made it of the log: its seq, and which of the references the compaction shows
 * stand in it, by their numbers. The parts that a compaction itself says have its seq, in their order.
 */
export type ShownRef = readonly [seq: number, ...pruned: readonly number[]];

/** What a compaction that stands shows, and what it made that of. */
export function showBy(
  transcript: readonly Placed[],
  standing: CompactionRecord<Showing>,
  pins: ReadonlySet<number>,
): { readonly shown: Placed[]; readonly from: readonly ShownRef[] } {
  const systems = transcript[0]?.message.role === "system" ? 1 : 0;
  const cut = systems + standing.madeFrom;
  const from = refsBy(transcript.slice(systems, cut), standing, pins);
  const said = new Map(transcript.slice(systems, cut).map(({ seq, message }) => [seq, message]));
  const made = rebuild(from, standing, (seq) => said.get(seq)) ?? [];
  return { shown: [...transcript.slice(0, systems), ...made, ...transcript.slice(cut)], from };
}

/** The compaction that says what is shown: the newest that was not undone. */
export function standingIn<R extends { readonly undone: boolean }>(of: { readonly compactions: readonly R[] }) {
  return of.compactions.findLast((record) => !record.undone);
}

/** What a compaction still shows as references: of what was evicted, what is pinned or was brought back is whole again. */
export function prunedBy(
  { body, expanded }: Pick<CompactionRecord<Showing>, "body" | "expanded">,
  isPinned: (seq: number) => boolean,
): readonly Pruned[] {
  return body.pruned.filter(({ seq, reason }) => reason === undefined || !(isIn(expanded, seq) || isPinned(seq)));
}

/** What is evicted from what is shown now. */
export function evictedFrom({ shownBy, pins, shown }: ShownState): readonly Pruned[] {
  const standing = shownBy.at(-1);
  if (standing === undefined || !standing.body.pruned.some(({ reason }) => reason !== undefined)) return [];
  const seqs = new Set(shown.map(({ seq }) => seq));
  const pinned = new Set([...pinnedIn(shown, pins)].map(({ seq }) => seq));
  return prunedBy(standing, (seq) => pinned.has(seq)).filter(
    ({ seq, reason }) => reason !== undefined && seqs.has(seq),
  );
}

/** Which messages of what it covers a compaction shows, in their order, and as what. */
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
  // What was brought back stands before the first kept message that is younger, so the order of time holds.
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

/** The messages that a compaction shows of what it covers, made of what the log says; undefined where it lacks one. */
export function rebuild(
  refs: readonly ShownRef[],
  { seq, body }: Pick<CompactionRecord<Showing>, "seq" | "body">,
  messageAt: (seq: number) => Message | undefined,
): Placed[] | undefined {
  const parts = body.shows.filter((part): part is Exclude<ContextPart, SeqRange> => !("from_seq" in part));
  const shown: Placed[] = [];
  for (const [at, ...numbers] of refs) {
    const part = at === seq ? parts.shift() : undefined;
    const message = part === undefined ? messageAt(at) : messageOfPart(part, body);
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
  // Whatever stands for turns is none itself, also when a compactor of one's own put it there.
  return message.role === "user" ? { compaction_id: body.compaction_id, ...message } : message;
}

/** A kept message as the compaction shows it: large old results as references, simplified where that was needed. */
export function asKept(
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
 * The fold of when a session compacted. It lives in the log, so a session that is resumed or reused neither compacts
 * at once nor never; an attempt counts when it begins, so one that fails or whose process ends is not repeated at
 * every boundary.
 */
export function advanceCadence(cadence: CompactionCadence, body: EntryBody): CompactionCadence {
  const { session_boundary_index } = cadence;
  switch (body.kind) {
    case "model_called":
      return { ...cadence, session_boundary_index: session_boundary_index + 1 };
    case "imported":
      // A forked session has seen the boundaries of the answers it took over.
      if (body.message.role !== "block_assistant") return cadence;
      return { ...cadence, session_boundary_index: session_boundary_index + 1 };
    case "compacted":
      // An eviction neither delays nor forbids a compaction.
      if (body.evicted !== undefined) return cadence;
      return { ...cadence, last_compaction_boundary_index: session_boundary_index };
    // What was tried in vain is not tried again at the very next boundary.
    case "compaction_dropped":
    // Undone by a person, it is not to be made again at the very next boundary.
    case "compaction_undone":
      return { ...cadence, last_compaction_attempt_boundary_index: session_boundary_index };
    case "event":
      if (body.event.type !== "compaction_started") return cadence;
      return { ...cadence, last_compaction_attempt_boundary_index: session_boundary_index };
    default:
      return cadence;
  }
}
