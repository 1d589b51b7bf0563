import type { EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import type { RewriteCommit } from "../contract/rewrite.ts";
import type { SessionSettings } from "../contract/session.ts";
import { type CompactionRecord, chainHash, type Hash, type Placed } from "./context.ts";
import { assistantText } from "./tokens.ts";

/** A rewrite as the fold keeps it, with the transcript it was made from. */
export interface RewriteRecord {
  readonly commit: RewriteCommit;
  readonly before: readonly Placed[];
}

/** A compaction as the fold keeps it. It is undone by hand, or while what it was made from is not the transcript. */
export interface KeptCompaction extends CompactionRecord {
  /** How often the transcript had been rewritten when it was made. */
  readonly madeAfter: number;
  readonly undoneByHand: boolean;
}

export type RewriteTo = EntryBodyOf<"rewritten">["to"];

interface Transcripts {
  readonly transcript: readonly Placed[];
  readonly rewrites: readonly Pick<RewriteRecord, "before">[];
}

/** The transcript with a rewrite, whose entry has this seq. Messages that stay are the same objects. */
export function rewrite(state: Transcripts, to: RewriteTo, seq: number): Placed[] {
  if ("restores" in to) return [...transcriptAfter(state, to.restores)].slice(0, to.message_count);
  const placed = to.messages.map((message, at) => ({ seq: seq + at, message }));
  return [...state.transcript.slice(0, to.start), ...placed, ...state.transcript.slice(to.end)];
}

/** The transcript there was after so many rewrites, as long as it became before the next. */
export function transcriptAfter({ transcript, rewrites }: Transcripts, number: number): readonly Placed[] {
  return rewrites[number]?.before ?? transcript;
}

/**
 * The compactions as they stand once the transcript is the newest. A summary of what is no longer said must not be
 * shown; where a rewrite restores what it was made from, it stands again.
 */
export function judgeCompactions(
  compactions: readonly KeptCompaction[],
  transcripts: Transcripts,
): readonly KeptCompaction[] {
  const now = saidIn(transcripts.transcript);
  const shared = new Map<number, number>();
  const sharedWith = (number: number): number => {
    const known = shared.get(number) ?? commonLength(saidIn(transcriptAfter(transcripts, number)), now);
    shared.set(number, known);
    return known;
  };
  return compactions.map((one) => {
    const undone = one.undoneByHand || one.madeFrom > sharedWith(one.madeAfter);
    return undone === one.undone ? one : { ...one, undone };
  });
}

/** A transcript without its system message. */
export function saidIn(transcript: readonly Placed[]): readonly Placed[] {
  return transcript[0]?.message.role === "system" ? transcript.slice(1) : transcript;
}

function commonLength(before: readonly Placed[], after: readonly Placed[]): number {
  const at = before.findIndex(({ seq }, index) => seq !== after[index]?.seq);
  return at < 0 ? before.length : at;
}

/** Everything a session ever said, what rewrites took away with it, in the order of the log. */
export function everSaid({ transcript, rewrites }: Transcripts): readonly Placed[] {
  if (rewrites.length === 0) return transcript;
  const all = new Map([...rewrites.map(({ before }) => before), transcript].flat().map((one) => [one.seq, one]));
  return [...all.values()].sort((a, b) => a.seq - b.seq);
}

/** What names a transcript by what it says. */
export function revisionOf(transcript: readonly Placed[], hash: Hash): string {
  return asRevision(
    transcript.reduce((chain, { message }) => chainHash(message, chain, hash), ""),
    hash,
  );
}

function asRevision(chain: string, hash: Hash): string {
  return `sha256:${chain === "" ? hash("") : chain}`;
}

/** The hash of a part of a transcript on its own. */
export function spanDigest(messages: readonly Message[], hash: Hash): string {
  return `sha256:${hash(JSON.stringify(messages))}`;
}

/** The transcript that has a revision, as what a rewrite restores; undefined when the session never had it. */
export function findRevision(
  state: Transcripts,
  revision: string,
  hash: Hash,
): Extract<RewriteTo, { restores: number }> | undefined {
  for (let restores = state.rewrites.length; restores >= 0; restores -= 1) {
    const message_count = lengthAt(transcriptAfter(state, restores), revision, hash);
    if (message_count !== undefined) return { restores, message_count };
  }
  return undefined;
}

/** A transcript only grows between rewrites, so each of its beginnings was one. */
function lengthAt(transcript: readonly Placed[], revision: string, hash: Hash): number | undefined {
  let chain = "";
  if (asRevision(chain, hash) === revision) return 0;
  for (const [at, { message }] of transcript.entries()) {
    chain = chainHash(message, chain, hash);
    if (asRevision(chain, hash) === revision) return at + 1;
  }
  return undefined;
}

/** Settings that say what a transcript begins with. */
export function withSystemOf(settings: SessionSettings, [first]: readonly Placed[]): SessionSettings {
  const { system_prompt: _before, ...rest } = settings;
  return first?.message.role === "system" ? { ...rest, system_prompt: first.message.content } : rest;
}

/** The last thing a transcript has the model say. */
export function lastTextIn(transcript: readonly Placed[]): { readonly seq: number; readonly text: string } | undefined {
  const last = transcript.findLast(
    ({ message }) => message.role === "block_assistant" && assistantText(message) !== "",
  );
  return last?.message.role === "block_assistant" ? { seq: last.seq, text: assistantText(last.message) } : undefined;
}
