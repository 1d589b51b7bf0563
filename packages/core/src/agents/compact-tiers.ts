import {
  type CheckedTier,
  checkTier,
  distinct,
  lengthOf,
  measureLongterm,
  stepsOf,
} from "../agent-memory/check-tier.ts";
import { type AgentRow, isDoubtful, QUALITY_FLOOR, type Waterfall } from "../agent-memory/tiers.ts";
import { type Recover, summarisedIn, writeReceipt } from "../compaction/receipt.ts";
import type { AgentEntryBodyOf, LongtermQuality, Remaking, Tier } from "../contract/agent.ts";
import type { Receipt } from "../contract/compaction.ts";
import type { Entry } from "../contract/entry.ts";
import { messageOf } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import { piecesOf } from "../grounding/exactness.ts";
import { indexTexts } from "../grounding/occurrence.ts";
import { type Specific, specificsOf } from "../grounding/specifics.ts";
import type { Clock } from "../ports/clock.ts";
import type { VaultMemory } from "../ports/vault.ts";
import { messagesOf, type Placed } from "../state/context.ts";
import { bytesOf } from "../state/transcript-text.ts";
import { type AgentLog, isCompaction } from "./agent-log.ts";
import { extractTexts, fitTexts, type SummariseTexts } from "./tier-summariser.ts";

export interface TierWork {
  readonly log: AgentLog;
  readonly row: AgentRow;
  readonly fall: Waterfall;
  readonly summarise: SummariseTexts;
  /** The bytes of text that fit into one summary request. */
  readonly roomBytes: () => Promise<number>;
  readonly spend: Parameters<SummariseTexts>[2];
  readonly cutsInvented: boolean;
  /** Whether the agent needs a summary, so that sentences are extracted when the model's summary is unusable. */
  readonly mustSucceed: boolean;
  /** Why no money may be spent on remaking a summary; undefined if it may. */
  readonly whyNotRemake: () => Promise<string | undefined>;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
  readonly signal: AbortSignal;
}

type Made = Pick<
  AgentEntryBodyOf<"tiers_compacted">,
  "recent" | "longterm" | "receipts" | "quality" | "remaking" | "notes" | "previous_seq"
>;

/** Beyond this, the longest texts are read only at both ends, by the check as by the model. */
const READ_BYTES_MAX = 2_000_000;

/** Makes both summaries of a compaction, checked and with receipts; rejects when one is unusable. */
export async function compactTiers(work: TierWork): Promise<Made> {
  const { log, row, fall, yieldToEventLoop } = work;
  const notes: string[] = [];
  const older = fall.longterm === undefined ? [] : await summariesNow(work);
  const chained = older.length === 0 ? undefined : await writeSummary(work, messagesFrom(older), notes);
  const gone = placed(await log.memories(fall.recent.from, fall.recent.to));
  const recent = await writeSummary(work, messagesOf(gone), notes);
  const longterm = chained && (await settleLongterm(work, older, chained));
  const tail = messagesOf(placed(await log.memories(fall.recent.to + 1, fall.atCount)));
  const receipt = receiptFor(yieldToEventLoop);
  const receipts = {
    recent: await receipt(recent, {
      specifics: await specificsIn(gone, yieldToEventLoop),
      tail: [...tail, ...shown(longterm?.made)],
      recover: recoverByTexts(textsIn(messagesOf(gone)), yieldToEventLoop),
    }),
    ...(longterm === undefined
      ? {}
      : {
          longterm: await receipt(longterm.made, {
            specifics: longterm.specifics,
            tail: [...tail, ...shown(recent)],
            recover: recoverByTexts(longterm.texts, yieldToEventLoop),
          }),
        }),
  };
  return {
    recent: tierOf(recent, fall.recent),
    ...(longterm === undefined || fall.longterm === undefined
      ? {}
      : { longterm: tierOf(longterm.made, fall.longterm), quality: longterm.quality }),
    ...(longterm?.remaking === undefined ? {} : { remaking: longterm.remaking }),
    ...(row.compacted_seq === undefined ? {} : { previous_seq: row.compacted_seq }),
    receipts,
    ...(notes.length === 0 ? {} : { notes }),
  };
}

function tierOf({ summary, by }: CheckedTier, range: { readonly from: number; readonly to: number }): Tier {
  return { summary, by, ...range };
}

function shown(made: CheckedTier | undefined): readonly Message[] {
  return made === undefined ? [] : [said(made.summary, 0)];
}

function placed(memories: readonly VaultMemory[]): readonly Placed[] {
  const texts = fitTexts(
    memories.map(({ content }) => content),
    READ_BYTES_MAX,
  );
  return memories.map(({ number, created_at_ms }, at) => ({
    seq: number,
    message: said(texts[at] ?? "", created_at_ms),
  }));
}

function messagesFrom(sources: readonly SourceSummary[]): readonly Message[] {
  return sources.map(({ text, created_at_ms }) => said(text, created_at_ms));
}

function textsIn(messages: readonly Message[]): readonly string[] {
  return messages.flatMap((message) => (message.role === "user" ? [String(message.content)] : []));
}

/** A checked summary of messages, oldest first. */
async function writeSummary(work: TierWork, sources: readonly Message[], notes: string[]): Promise<CheckedTier> {
  const { signal, summarise, spend, mustSucceed } = work;
  const texts = textsIn(sources);
  try {
    return await checked(work, await summarise(texts, signal, spend), sources);
  } catch (thrown) {
    if (!mustSucceed || signal.aborted) throw thrown;
    // Without any summary the verbatim part would grow without bound: extracted sentences are better.
    notes.push(`${messageOf(thrown)}, so the summary is extractive`);
    return checked(work, extractTexts(texts), sources);
  }
}

function checked(
  { cutsInvented, yieldToEventLoop }: TierWork,
  written: Pick<CheckedTier, "summary" | "by">,
  sources: readonly Message[],
): Promise<CheckedTier> {
  return checkTier(written, { sources, sourceChars: lengthOf(textsIn(sources)), cutsInvented, yieldToEventLoop });
}

interface Longterm {
  readonly made: CheckedTier;
  readonly quality: LongtermQuality;
  readonly remaking?: Remaking;
  /** The texts it was made from, and their specifics. */
  readonly texts: readonly string[];
  readonly specifics: readonly Specific[];
}

/** The long-term summary with its quality; if that is doubtful, the better of it and one remade from the waterfall. */
async function settleLongterm(work: TierWork, older: readonly SourceSummary[], made: CheckedTier): Promise<Longterm> {
  const { row, yieldToEventLoop } = work;
  const of = sourcesOf(older);
  const before = row.longterm === undefined ? 1 : (row.longterm_quality ?? 1);
  const quality = await measureLongterm({ made, ...of, before, yieldToEventLoop });
  const chained = { made, quality, ...of };
  if (!isDoubtful(quality.quality, row)) return chained;
  const waterfall = await readWaterfall(work);
  // The long-term summary was just made from the only short-term summary.
  return waterfall.summaries < 2 ? chained : holdAgainst(work, waterfall, chained);
}

function sourcesOf(sources: readonly SourceSummary[]): Pick<Longterm, "texts" | "specifics"> {
  return {
    texts: sources.map(({ text }) => text),
    specifics: distinct(sources.flatMap(({ specifics }) => specifics)),
  };
}

/** The bytes from which sentences are chosen, to measure what could be kept. */
const CHOSEN_FROM_BYTES_MAX = 256_000;

async function holdAgainst(
  work: TierWork,
  { sources, summaries }: Awaited<ReturnType<typeof readWaterfall>>,
  chained: Longterm,
): Promise<Longterm> {
  const { yieldToEventLoop, signal } = work;
  const of = sourcesOf(sources);
  const measure = (made: CheckedTier): Promise<LongtermQuality> =>
    measureLongterm({ made, ...of, texts: fitTexts(of.texts, CHOSEN_FROM_BYTES_MAX), before: 1, yieldToEventLoop });
  const held = await measure(chained.made);
  const facts = {
    quality_before: chained.quality.quality,
    summaries,
    specifics: of.specifics.length,
    kept_before: held.kept,
  };
  const stays = (remaking: Pick<Remaking, "outcome" | "steps" | "kept_remade" | "reason">): Longterm => ({
    ...chained,
    quality: { ...chained.quality, quality: held.quality },
    remaking: { ...facts, ...remaking },
  });
  if (held.quality >= QUALITY_FLOOR) return stays({ outcome: "not_needed", steps: 0 });
  const reason = await work.whyNotRemake();
  if (reason !== undefined) return stays({ outcome: "failed", steps: 0, reason });
  let steps = 0;
  const summarise: SummariseTexts = (...given) => {
    steps += 1;
    return work.summarise(...given);
  };
  try {
    const made = await remake({ ...work, summarise }, sources);
    const quality = await measure(made);
    const remade = { steps, kept_remade: quality.kept };
    const isBetter = quality.kept - quality.invented > held.kept - held.invented;
    if (!isBetter) return stays({ outcome: "not_better", ...remade });
    return { made, quality, ...of, remaking: { ...facts, outcome: "remade", ...remade } };
  } catch (thrown) {
    // A closing runtime is no failure: the compaction stays due.
    if (signal.aborted) throw thrown;
    return stays({ outcome: "failed", steps, reason: messageOf(thrown) });
  }
}

/** The share of a step's room for the summary of earlier steps. */
const CARRIED_BYTES = 4_000;

/** Summarises the whole waterfall, oldest first, in as few steps as the window allows. */
async function remake(work: TierWork, sources: readonly SourceSummary[]): Promise<CheckedTier> {
  const { summarise, signal, spend } = work;
  const room = await work.roomBytes();
  const bytesMax = Math.max(room - CARRIED_BYTES, room / 2);
  let last: Awaited<ReturnType<SummariseTexts>> | undefined;
  for (const texts of stepsOf(
    sources.map(({ text }) => text),
    { bytesMax, bytesOf },
  )) {
    last = await summarise(last === undefined ? texts : [last.summary, ...texts], signal, spend);
  }
  if (last === undefined) throw new Error("there is nothing to make it of");
  return checked(work, last, messagesFrom(sources));
}

interface Accounted {
  readonly specifics: readonly Specific[];
  readonly tail: readonly Message[];
  readonly recover: Recover;
}

function receiptFor(yieldToEventLoop: Clock["yieldToEventLoop"]) {
  return (made: CheckedTier, { specifics, tail, recover }: Accounted) =>
    writeReceipt({
      gone: [],
      inherited: specifics,
      saved: [],
      summary: made.summary,
      tail,
      pinned: [],
      pruned: [],
      invented: made.invented,
      inventedCut: made.inventedCut,
      unverified: made.unverified,
      doubtful: made.doubtful,
      yieldToEventLoop,
      recover,
    });
}

/** Memories and summaries that are no longer shown stay in the log, where recall and the history find them. */
function recoverByTexts(texts: readonly string[], yieldToEventLoop: Clock["yieldToEventLoop"]): Recover {
  const index = indexTexts(texts.flatMap(piecesOf), yieldToEventLoop);
  return async (specific) => ((await index.has(specific)) ? "expansion" : undefined);
}

interface SourceSummary {
  readonly text: string;
  readonly created_at_ms: number;
  readonly specifics: readonly Specific[];
}

interface Reading {
  readonly log: AgentLog;
  readonly row: AgentRow;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** Both current summaries, the older first: the sources of the next long-term summary. */
async function summariesNow({ log, row, yieldToEventLoop }: Reading): Promise<readonly SourceSummary[]> {
  const entry = await compactionAt(log, row.compacted_seq);
  const created_at_ms = row.compacted_at_ms ?? row.updated_at_ms;
  const read = async (tier: Tier | undefined, receipt: Receipt | undefined): Promise<readonly SourceSummary[]> =>
    tier === undefined ? [] : [await sourceOf(tier, { receipt, created_at_ms, yieldToEventLoop })];
  const receipts = entry?.body.receipts;
  return [...(await read(row.longterm, receipts?.longterm)), ...(await read(row.recent, receipts?.recent))];
}

/** Older short-term summaries are represented by the long-term summary of their time. */
const SUMMARIES_MAX = 512;

interface FallenSummaries {
  /** Oldest first. */
  readonly sources: readonly SourceSummary[];
  readonly summaries: number;
}

/**
 * The waterfall: all short-term summaries, preceded by the long-term summary from before the first one that can be
 * read.
 */
async function readWaterfall({ log, row, yieldToEventLoop }: Reading): Promise<FallenSummaries> {
  const found: SourceSummary[] = [];
  let summaries = 0;
  let entry = await compactionAt(log, row.compacted_seq);
  while (entry !== undefined) {
    await yieldToEventLoop();
    const { body, timestamp_ms: created_at_ms } = entry;
    summaries += 1;
    found.push(await sourceOf(body.recent, { receipt: body.receipts?.recent, created_at_ms, yieldToEventLoop }));
    const before = summaries < SUMMARIES_MAX ? await compactionAt(log, body.previous_seq) : undefined;
    if (before === undefined && body.longterm !== undefined) {
      found.push(await sourceOf(body.longterm, { receipt: body.receipts?.longterm, created_at_ms, yieldToEventLoop }));
    }
    entry = before;
  }
  return { sources: found.toReversed(), summaries };
}

async function sourceOf(
  { summary: text, to }: Tier,
  of: { receipt: Receipt | undefined; created_at_ms: number; yieldToEventLoop: Clock["yieldToEventLoop"] },
): Promise<SourceSummary> {
  const { receipt, created_at_ms, yieldToEventLoop } = of;
  // Without a receipt the origin of a sentence is unknown; the newest memory of the summary stands for all.
  const specifics =
    receipt === undefined
      ? await specificsIn([{ seq: to, message: said(text, created_at_ms) }], yieldToEventLoop)
      : summarisedIn(receipt);
  return { text, created_at_ms, specifics };
}

async function compactionAt(
  log: AgentLog,
  seq: number | undefined,
): Promise<Entry<AgentEntryBodyOf<"tiers_compacted">> | undefined> {
  if (seq === undefined) return undefined;
  return (await log.entriesAt([seq])).find(isCompaction);
}

/** A text as a user message, so that its rules, names and numbers count as a user's. */
function said(content: string, created_at_ms: number): Message {
  return { role: "user", content, created_at: new Date(created_at_ms).toISOString() };
}

/** All specifics of the texts. The empty last message keeps the last text from being read as a question. */
function specificsIn(
  texts: readonly Placed[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly Specific[]> {
  return specificsOf([...texts, { seq: Number.MAX_SAFE_INTEGER, message: said("", 0) }], yieldToEventLoop);
}
