import type { AgentEntryBodyOf, AgentHistory, AgentReceipt, Tier } from "../../contract/agent.ts";
import type { Receipt } from "../../contract/compaction.ts";
import type { Entry } from "../../contract/entry.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import { type AgentStore, agentId, isCompaction } from "./agent-log.ts";

type CompactionEntry = Entry<AgentEntryBodyOf<"tiers_compacted">>;

interface Place {
  readonly store: AgentStore;
  readonly name: string;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** Summaries from the newest back, until there are those of so many compactions. */
export async function readHistory(
  place: Place,
  { limit, before }: { readonly limit: number; readonly before: number | undefined },
): Promise<AgentHistory> {
  // One more than is asked for tells whether there are older ones.
  const found = await compactionsBefore(place, { limit: limit + 1, before });
  const shown = found.slice(0, limit);
  const last = shown.at(-1);
  return {
    summaries: shown.flatMap(({ seq, timestamp_ms, body }) => {
      const { recent, longterm, receipts, quality, remaking } = body;
      const created_at = new Date(timestamp_ms).toISOString();
      const newer = { seq, created_at, tier: "recent" as const, ...reportedTier(recent), ...counted(receipts?.recent) };
      if (longterm === undefined) return [newer];
      const older = {
        ...{ seq, created_at, tier: "longterm" as const, ...reportedTier(longterm), ...counted(receipts?.longterm) },
        ...(quality === undefined ? {} : { quality }),
        ...(remaking === undefined ? {} : { remaking }),
      };
      return [newer, older];
    }),
    ...(found.length > limit && last !== undefined ? { next_before_seq: last.seq } : {}),
  };
}

/** One compaction with its receipts: that of a seq, or the last. */
export async function readReceipt(place: Place, seq: number | undefined): Promise<AgentReceipt> {
  const { store, name } = place;
  const [entry] =
    seq === undefined
      ? await compactionsBefore(place, { limit: 1, before: undefined })
      : (await store.log.read(agentId(name), seq, 1)).filter((one) => one.seq === seq).filter(isCompaction);
  if (entry === undefined) {
    const which = seq === undefined ? "no compaction yet" : `no compaction with the seq ${seq}; its history names them`;
    throw new RuntimeError("SESSION_NOT_FOUND", `${seq === undefined ? "agent" : "seq"}: agent ${name} has ${which}`);
  }
  const { recent, longterm, receipts, at_count, forced, model, usage, notes = [], quality, remaking } = entry.body;
  const withReceipt = (tier: Tier, receipt: Receipt | undefined) => ({
    ...reportedTier(tier),
    ...(receipt === undefined ? {} : { receipt }),
  });
  return {
    seq: entry.seq,
    created_at: new Date(entry.timestamp_ms).toISOString(),
    at_count,
    forced,
    ...(model === undefined ? {} : { model }),
    usage,
    notes,
    recent: withReceipt(recent, receipts?.recent),
    ...(longterm === undefined ? {} : { longterm: withReceipt(longterm, receipts?.longterm) }),
    ...(quality === undefined ? {} : { quality }),
    ...(remaking === undefined ? {} : { remaking }),
  };
}

function reportedTier({ from, to, summary, by }: Tier): Tier {
  return { from, to, summary, by };
}

function counted(receipt: Receipt | undefined) {
  if (receipt === undefined) return {};
  const { total, in_summary, in_tail, recoverable, lost, invented, unverified = [] } = receipt;
  const counts = { total, in_summary, in_tail, recoverable, lost };
  return { receipt: { ...counts, invented: invented.length, unverified: unverified.length } };
}

const PAGE_ENTRIES = 512;

/** The newest compactions before a seq, newest first: at least so many, where there are. */
async function compactionsBefore(
  { store: { sessions, log }, name, yieldToEventLoop }: Place,
  { limit, before }: { readonly limit: number; readonly before: number | undefined },
): Promise<readonly CompactionEntry[]> {
  const id = agentId(name);
  const end = (await sessions.get(id))?.last_seq ?? 0;
  const found: CompactionEntry[] = [];
  let to = Math.min(end, (before ?? end + 1) - 1);
  while (to > 0 && found.length < limit) {
    const from = Math.max(1, to - PAGE_ENTRIES + 1);
    const page = (await log.read(id, from, to - from + 1)).filter(({ seq }) => seq <= to);
    found.push(...page.filter(isCompaction).toReversed());
    to = from - 1;
    await yieldToEventLoop();
  }
  return found;
}
