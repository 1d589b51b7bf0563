import type { Compaction } from "../contract/compaction.ts";
import { isUntrusted, originOf } from "../contract/message.ts";
import { cutSentences } from "../grounding/cut-sentences.ts";
import { isInstruction } from "../grounding/specifics.ts";
import { summarySources } from "../grounding/summary-sources.ts";
import type { Placed } from "../state/context.ts";
import type { Asking } from "../turn/model-call.ts";
import type { Compacting } from "./prepare.ts";
import { CASCADE, cutInSections } from "./shown-messages.ts";
import { oneLine } from "./work-state.ts";

type Quoted = NonNullable<Compaction["quoted"]>;

const QUOTED_MAX = 20;
const QUOTED_CHARS_MAX = 300;
/** What is left of a summary that only repeated text of tools. */
const NOTHING_ELSE = "The summary repeated text of tools only.";

/**
 * Takes the instructions out of a summary that rest on untrusted text alone: they are shown behind it as
 * quotations, with those of the summary that it replaces. Nothing else of the text changes.
 */
export async function quoteInstructions(
  summary: string,
  inherited: Quoted,
  by: {
    readonly transcript: readonly Placed[];
    readonly compacting: Pick<Compacting, "reading" | "strategy">;
    readonly asking: Pick<Asking, "clock" | "signal">;
  },
): Promise<{ readonly summary: string; readonly quoted: Quoted }> {
  const { transcript, compacting, asking } = by;
  const only: string[] = [];
  cutSentences(summary, (sentence) => {
    if (isInstruction(sentence)) only.push(sentence);
    return false;
  });
  // Many summaries give none, which is seen without reading their sources.
  if (only.length === 0) return { summary, quoted: inherited };
  const given = { summary, messages: transcript, only };
  const sources = await (compacting.reading === undefined
    ? summarySources(given, asking.clock.yieldToEventLoop)
    : compacting.reading("sources", given, asking.signal));
  const untrusted = new Set(transcript.flatMap(({ seq, message }) => (isUntrusted(originOf(message)) ? [seq] : [])));
  const moved = new Map(
    sources.flatMap(({ text, seqs }) =>
      seqs.length > 0 && seqs.every((seq) => untrusted.has(seq)) ? [[text, seqs[0] ?? 0]] : [],
    ),
  );
  if (moved.size === 0) return { summary, quoted: inherited };
  const cut = (text: string): string => cutSentences(text, (sentence) => moved.has(sentence));
  const left = compacting.strategy === CASCADE ? cutInSections(summary, cut) : cut(summary);
  const quoted = [...moved].map(([text, seq]) => ({ seq, text: oneLine(text, QUOTED_CHARS_MAX) }));
  const all = new Map([...inherited, ...quoted].map((one) => [one.text, one]));
  return { summary: left === "" ? NOTHING_ELSE : left, quoted: [...all.values()].slice(-QUOTED_MAX) };
}
