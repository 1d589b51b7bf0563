import { grammarFaults } from "@rkat/core/compaction/grammar";
import { assembleContext, type CompactionRecord, isIn, type Placed } from "@rkat/core/state/context";
import type { WholeState } from "@rkat/core/state/whole-state";
import { estimateTokens } from "@rkat/core/turn/tokens";

/** What is wrong with a context, whatever was done to it before; one sentence for each rule that is broken. */
export function brokenRules(state: WholeState): readonly string[] {
  const { transcript, shown, pins, compactions } = state;
  const systemPrompt = state.settings.system_prompt;
  const broken = grammarFaults(assembleContext(state)).map(({ grammar, fault }) => `${grammar}: ${fault}`);
  const [first] = shown;
  const content = first?.message.role === "system" ? first.message.content : undefined;
  if (content !== systemPrompt) broken.push(`the context begins with ${JSON.stringify(first?.message)}`);
  const places = new Map(transcript.map(({ seq }, at) => [seq, at]));
  const at = shown.flatMap(({ seq }) => places.get(seq) ?? []);
  if (at.some((place, index) => place <= (at[index - 1] ?? -1))) broken.push(`not in the order of time: ${at.join()}`);
  const isShown = new Set(shown.map(({ seq }) => seq));
  const standing = compactions.filter((record) => !record.undone);
  const isAccounted = (seq: number): boolean =>
    isShown.has(seq) || standing.some(({ body }) => isIn(body.discarded, seq));
  const vanished = transcript.filter(({ seq }) => !isAccounted(seq)).map(({ seq }) => seq);
  if (vanished.length > 0) broken.push(`neither shown nor discarded by a standing compaction: ${vanished.join()}`);
  // What a rewrite took away keeps its pin for when it is restored.
  const unpinned = [...pins].filter((seq) => places.has(seq) && !isShown.has(seq));
  if (unpinned.length > 0) broken.push(`pinned and not shown: ${unpinned.join()}`);
  const tokens = estimateTokens(assembleContext(state));
  if (tokens !== state.shownTokens) broken.push(`${state.shownTokens} tokens are counted, there are ${tokens}`);
  return broken;
}

/** A context before something was done to it. */
export interface Earlier {
  readonly shown: readonly Placed[];
  readonly transcript: readonly Placed[];
}

export function snapshot({ shown, transcript }: WholeState): Earlier {
  return { shown: [...shown], transcript: [...transcript] };
}

/** What is wrong with a compaction that was committed: what was shown is kept, discarded or superseded, each once. */
export function brokenByCompaction(before: Earlier, state: WholeState, record: CompactionRecord): readonly string[] {
  const { body } = record;
  const late = state.transcript.slice(before.transcript.length);
  const source = [...before.shown.filter(({ message }) => message.role !== "system"), ...late];
  const logged = new Set(state.transcript.map(({ seq }) => seq));
  const seqsIn = (ranges: readonly { from_seq: number; to_seq: number }[]): number[] =>
    ranges.flatMap((range) => state.transcript.filter(({ seq }) => isIn([range], seq)).map(({ seq }) => seq));
  const kept = seqsIn(body.shows.filter((part) => "from_seq" in part));
  const discarded = seqsIn(body.discarded);
  const said = source.filter(({ seq }) => logged.has(seq)).map(({ seq }) => seq);
  const broken: string[] = [];
  const parts = [...kept, ...discarded].sort((a, b) => a - b).join();
  if (parts !== said.sort((a, b) => a - b).join())
    broken.push(`kept ${kept.join()} and discarded ${discarded.join()} of ${said.join()}`);
  const carried = body.shows.flatMap((part) => ("message" in part ? [JSON.stringify(part.message)] : []));
  const earlier = source.filter(({ seq }) => !logged.has(seq)).map(({ message }) => message);
  const isThere = (message: (typeof earlier)[number]): boolean =>
    carried.includes(JSON.stringify(message)) !==
    ("compaction_id" in message && message.compaction_id === body.superseded);
  if (!earlier.every(isThere)) broken.push(`${earlier.length} earlier summaries, ${body.superseded} is superseded`);
  const summaries = body.shows.filter((part) => "summary" in part).length;
  if (summaries !== (discarded.length > 0 ? 1 : 0))
    broken.push(`${summaries} summaries for ${discarded.length} messages`);
  const tokensBefore = estimateTokens([...before.shown, ...late].map(({ message }) => message));
  if (state.shownTokens >= tokensBefore) broken.push(`${state.shownTokens} tokens, before ${tokensBefore}`);
  const reported = [body.messages_before, body.messages_after, body.tokens_before, body.tokens_after].join();
  const counted = [before.shown.length + late.length, state.shown.length, tokensBefore, state.shownTokens].join();
  if (reported !== counted) broken.push(`told ${reported}, counted ${counted}`);
  return broken;
}

/** What is wrong with a compaction that was not made: but for what was said meanwhile, nothing changed. */
export function brokenByFailure(before: Earlier, state: WholeState): readonly string[] {
  const late = state.transcript.slice(before.transcript.length);
  const expected = [...before.shown, ...late];
  const isSame = state.shown.length === expected.length && state.shown.every((placed, at) => placed === expected[at]);
  return isSame ? [] : ["a compaction that was not made changed the context"];
}
