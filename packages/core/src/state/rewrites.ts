import type { EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import type { RewriteCommit } from "../contract/rewrite.ts";
import type { SessionSettings } from "../contract/session.ts";
import { assistantText } from "../turn/tokens.ts";
import { type CompactionRecord, chainHash, type Hash, type Placed } from "./context.ts";

/** A rewrite with the transcript it replaced. */
export interface RewriteRecord {
  readonly commit: RewriteCommit;
  readonly before: readonly Placed[];
}

/** A compaction in the fold. It is undone by a user, or while the transcript differs from its source. */
export interface KeptCompaction extends CompactionRecord {
  /** How many rewrites came before it. */
  readonly madeAfter: number;
  readonly undoneByHand: boolean;
}

export type RewriteTo = EntryBodyOf<"rewritten">["to"];

interface Transcripts {
  readonly transcript: readonly Placed[];
  readonly rewrites: readonly Pick<RewriteRecord, "before">[];
}

/** Applies a rewrite whose entry has this seq. Unchanged messages remain the same objects. */
export function rewrite(state: Transcripts, to: RewriteTo, seq: number): Placed[] {
  if ("restores" in to) return [...transcriptAfter(state, to.restores)].slice(0, to.message_count);
  const placed = to.messages.map((message, at) => ({ seq: seq + at, message }));
  return [...state.transcript.slice(0, to.start), ...placed, ...state.transcript.slice(to.end)];
}

/** The transcript after this many rewrites, as it was just before the next one. */
export function transcriptAfter({ transcript, rewrites }: Transcripts, number: number): readonly Placed[] {
  return rewrites[number]?.before ?? transcript;
}

/** The compactions for the current transcript: summaries of removed messages are inactive until restored. */
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

export function saidIn(transcript: readonly Placed[]): readonly Placed[] {
  return transcript[0]?.message.role === "system" ? transcript.slice(1) : transcript;
}

function commonLength(before: readonly Placed[], after: readonly Placed[]): number {
  const at = before.findIndex(({ seq }, index) => seq !== after[index]?.seq);
  return at < 0 ? before.length : at;
}

/** Everything a session ever contained, including what rewrites removed, in log order. */
export function everSaid({ transcript, rewrites }: Transcripts): readonly Placed[] {
  if (rewrites.length === 0) return transcript;
  const all = new Map([...rewrites.map(({ before }) => before), transcript].flat().map((one) => [one.seq, one]));
  return [...all.values()].sort((a, b) => a.seq - b.seq);
}

/** A hash that names a transcript by its content. */
export function revisionOf(transcript: readonly Placed[], hash: Hash): string {
  return asRevision(
    transcript.reduce((chain, { message }) => chainHash(message, chain, hash), ""),
    hash,
  );
}

function asRevision(chain: string, hash: Hash): string {
  return `sha256:${chain === "" ? hash("") : chain}`;
}

export function spanDigest(messages: readonly Message[], hash: Hash): string {
  return `sha256:${hash(JSON.stringify(messages))}`;
}

/** The transcript with this revision as the target of a restore; undefined if the session never had it. */
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

/** A transcript only grows between rewrites, so each of its prefixes was a revision. */
function lengthAt(transcript: readonly Placed[], revision: string, hash: Hash): number | undefined {
  let chain = "";
  if (asRevision(chain, hash) === revision) return 0;
  for (const [at, { message }] of transcript.entries()) {
    chain = chainHash(message, chain, hash);
    if (asRevision(chain, hash) === revision) return at + 1;
  }
  return undefined;
}

export function withSystemOf(settings: SessionSettings, [first]: readonly Placed[]): SessionSettings {
  const { system_prompt: _before, ...rest } = settings;
  return first?.message.role === "system" ? { ...rest, system_prompt: first.message.content } : rest;
}

export function lastTextIn(transcript: readonly Placed[]): { readonly seq: number; readonly text: string } | undefined {
  const last = transcript.findLast(
    ({ message }) => message.role === "block_assistant" && assistantText(message) !== "",
  );
  return last?.message.role === "block_assistant" ? { seq: last.seq, text: assistantText(last.message) } : undefined;
}
