import type { AgentEntryBodyOf, Tier } from "../../contract/agent.ts";
import type { Receipt } from "../../contract/compaction.ts";
import type { Entry } from "../../contract/entry.ts";
import type { Message } from "../../contract/message.ts";
import type { AgentRow } from "../../core/agent/tiers.ts";
import type { Placed } from "../../core/context.ts";
import { type Specific, specificsOf } from "../../core/grounding/specifics.ts";
import type { Clock } from "../../ports/clock.ts";
import { type AgentLog, isCompaction } from "./agent-log.ts";

/** A summary that another is made of, with what it says of what it stands for. */
export interface SourceSummary {
  readonly text: string;
  readonly created_at_ms: number;
  readonly specifics: readonly Specific[];
}

interface Reading {
  readonly log: AgentLog;
  readonly row: AgentRow;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** Both summaries as they are, the older first: what the next long-term summary is made of. */
export async function summariesNow({ log, row, yieldToEventLoop }: Reading): Promise<readonly SourceSummary[]> {
  const entry = await compactionAt(log, row.compacted_seq);
  const created_at_ms = row.compacted_at_ms ?? row.updated_at_ms;
  const read = async (tier: Tier | undefined, receipt: Receipt | undefined): Promise<readonly SourceSummary[]> =>
    tier === undefined ? [] : [await sourceOf(tier, { receipt, created_at_ms, yieldToEventLoop })];
  const receipts = entry?.body.receipts;
  return [...(await read(row.longterm, receipts?.longterm)), ...(await read(row.recent, receipts?.recent))];
}

/** More short-term summaries are not read again: the long-term summary of then speaks for those before. */
const SUMMARIES_MAX = 512;

interface FallenSummaries {
  /** Oldest first. */
  readonly sources: readonly SourceSummary[];
  /** How many of them are short-term summaries. */
  readonly summaries: number;
}

/**
 * The waterfall: every short-term summary there was. What lies before the first that can be
 * followed back to is there by the long-term summary of that moment.
 */
export async function readWaterfall({ log, row, yieldToEventLoop }: Reading): Promise<FallenSummaries> {
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
  // Of a summary without a receipt nobody knows which memory said what; the newest it speaks for stands for them.
  const specifics =
    receipt === undefined
      ? await specificsIn([{ seq: to, message: said(text, created_at_ms) }], yieldToEventLoop)
      : receipt.items.filter(({ status }) => status === "in_summary");
  return { text, created_at_ms, specifics };
}

async function compactionAt(
  log: AgentLog,
  seq: number | undefined,
): Promise<Entry<AgentEntryBodyOf<"tiers_compacted">> | undefined> {
  if (seq === undefined) return undefined;
  return (await log.entriesAt([seq])).find(isCompaction);
}

/** A text of an agent's life as something that was said: rules, names and numbers of it count as a user's do. */
export function said(content: string, created_at_ms: number): Message {
  return { role: "user", content, created_at: new Date(created_at_ms).toISOString() };
}

/** Every specific of such texts. What the last of them begins with is no question because it is the last. */
export function specificsIn(
  texts: readonly Placed[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly Specific[]> {
  return specificsOf([...texts, { seq: Number.MAX_SAFE_INTEGER, message: said("", 0) }], yieldToEventLoop);
}
