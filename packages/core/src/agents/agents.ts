import type { AgentRow } from "../agent-memory/tiers.ts";
import type { AgentEntryBody, AgentEntryBodyOf, AgentHistory, AgentReceipt, Tier } from "../contract/agent.ts";
import { FORGOTTEN, type Receipt } from "../contract/compaction.ts";
import { verdictOf, withVerdict } from "../contract/describe-event.ts";
import type { Entry } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import { defined } from "../contract/json.ts";
import type { OperationOutput } from "../contract/operations.ts";
import type { MemorySource } from "../memory/memory-background.ts";
import type { Clock } from "../ports/clock.ts";
import type { NewChunk } from "../ports/memory.ts";
import { splitText, toChunk } from "../recall/chunk.ts";
import type { Service } from "../runtime/dispatch.ts";
import { translateFailures } from "../sessions/live-sessions.ts";
import { walkRows } from "../sessions/walk-rows.ts";
import { logPage } from "../transfer/portable-log.ts";
import { type AgentStore, agentId, createAgentLog, isCompaction } from "./agent-log.ts";
import { type AgentMemory, type AgentMemoryParts, createAgentMemory } from "./agent-memory.ts";

export type AgentOperations = Pick<
  Service,
  | "remember"
  | "takeNote"
  | "readAgentContext"
  | "compactAgent"
  | "readAgentStatus"
  | "readAgentHistory"
  | "readAgentReceipt"
  | "listAgents"
  | "exportAgent"
>;

export interface AgentsParts
  extends Pick<
    AgentMemoryParts,
    "vault" | "windows" | "summarise" | "roomBytes" | "cutsInvented" | "spentToday" | "report"
  > {
  readonly store: AgentStore;
  readonly clock: Clock;
  readonly grown: (id: string) => void;
}

export interface Agents {
  readonly operations: AgentOperations;
  readonly store: AgentStore;
  readonly vault: AgentsParts["vault"];
  /** Waits a bounded time for running compactions; an interrupted one is due again. */
  close(): Promise<void>;
}

const CLOSE_GRACE_MS = 10_000;

/** The agents of a project with their memories; the first memory creates an agent. */
export function createAgents(parts: AgentsParts): Agents {
  const store = translateFailures(parts.store);
  const stop = new AbortController();
  const agents = new Map<string, AgentMemory>();
  const agent = (name: string): AgentMemory => {
    const known = agents.get(name);
    if (known !== undefined) return known;
    const log = createAgentLog(name, { store, clock: parts.clock });
    const created = createAgentMemory(name, {
      ...parts,
      log,
      locks: store.locks,
      yieldToEventLoop: parts.clock.yieldToEventLoop,
      grown: () => {},
      signal: stop.signal,
    });
    agents.set(name, created);
    return created;
  };
  const placeOf = (name: string) => ({ store, name, yieldToEventLoop: parts.clock.yieldToEventLoop });
  return {
    store,
    vault: parts.vault,
    operations: {
      remember: ({ agent: name, content, metadata }, { caller }) =>
        agent(name).remember([{ content, metadata }], caller),
      takeNote: async ({ agent: name, content, title }) => ({
        notes: await agent(name).note({ content, ...(title === undefined ? {} : { title }) }),
      }),
      readAgentContext: ({ agent: name, immediate }) => agent(name).context(immediate),
      compactAgent: ({ agent: name }, { caller }) => agent(name).compact(caller),
      readAgentStatus: ({ agent: name }) => agent(name).status(),
      readAgentHistory: ({ agent: name, limit, before_seq }) =>
        readHistory(placeOf(name), { limit, before: before_seq }),
      readAgentReceipt: ({ agent: name, seq }) => readReceipt(placeOf(name), seq),
      exportAgent: async ({ agent: name, after, limit }) => {
        const id = agentId(name);
        const read = await store.log.read(id, after + 1, limit);
        const last_seq = (await store.sessions.get(id))?.last_seq ?? 0;
        return { agent: name, ...(await logPage(read, { after, last_seq }, parts.clock)) };
      },
      listAgents: async () => {
        const known = new Map<string, OperationOutput<"listAgents">["agents"][number]>();
        for await (const row of walkRows(store.sessions)) {
          known.set(row.agent, {
            agent: row.agent,
            count: row.count,
            created_at: new Date(row.created_at_ms).toISOString(),
            updated_at: new Date(row.updated_at_ms).toISOString(),
          });
        }
        return { agents: [...known.values()].sort((a, b) => a.agent.localeCompare(b.agent, "en")) };
      },
    },
    close: async () => {
      const settled = Promise.all([...agents.values()].map((one) => one.settled()));
      const waited = new AbortController();
      const grace = parts.clock.sleep(CLOSE_GRACE_MS, waited.signal).then(() => stop.abort());
      await settled;
      waited.abort();
      await grace;
      await store.close();
    },
  };
}

const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Memories and short-term summaries as searchable texts. `turn` is the number of the memory. */
export function createAgentSource(open: () => Promise<AgentStore | undefined>): MemorySource {
  return {
    rows: async () => (await open())?.sessions,
    batchAfter: async (id, seq) => {
      const store = await open();
      const row = await store?.sessions.get(id);
      if (store === undefined || row === undefined) return { session_id: id, cursor: 0, chunks: [], discarded: [] };
      const entries = (await store.log.read(id, seq + 1, ENTRIES_MAX)).filter((entry) => entry.seq <= row.last_seq);
      return { session_id: id, cursor: row.last_seq, chunks: entries.flatMap(chunksIn(id)), discarded: coveredIn(row) };
    },
    nameOf: async (id) => (await (await open())?.sessions.get(id))?.agent,
  };
}

function chunksIn(session_id: string): (entry: Entry<AgentEntryBody>) => readonly NewChunk[] {
  return ({ seq, timestamp_ms: created_at_ms, body }) => {
    const found = findable(body);
    if (found === undefined || found.text === FORGOTTEN) return [];
    const { text, turn, kind } = found;
    return splitText(text).map((part, at) =>
      toChunk({ session_id, turn, seq, part: at, role: "assistant", kind, created_at_ms, text: part }),
    );
  };
}

function findable(body: AgentEntryBody): { text: string; turn: number; kind: string } | undefined {
  switch (body.kind) {
    case "memory_added":
      return { text: body.content, turn: body.number, kind: "agent_memory" };
    case "tiers_compacted":
      return { text: body.recent.summary, turn: body.recent.to, kind: "agent_summary" };
    case "note_added":
      return {
        text: [body.title, body.content].filter((part) => part !== undefined).join("\n"),
        turn: 0,
        kind: "agent_note",
      };
    case "tiers_failed":
    case "forgotten":
      return undefined;
  }
}

/** The memories no longer shown verbatim, and the summaries. */
function coveredIn({ recent, places, last_seq, summary_seqs }: AgentRow) {
  if (recent === undefined) return [];
  const last = (places[0]?.seq ?? last_seq + 1) - 1;
  const later = summary_seqs.filter((seq) => seq > last).map((seq) => ({ from_seq: seq, to_seq: seq }));
  return [{ from_seq: 1, to_seq: last }, ...later];
}

type CompactionEntry = Entry<AgentEntryBodyOf<"tiers_compacted">>;

interface Place {
  readonly store: AgentStore;
  readonly name: string;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** Summaries from the newest back, of as many compactions as requested. */
async function readHistory(
  place: Place,
  { limit, before }: { readonly limit: number; readonly before: number | undefined },
): Promise<AgentHistory> {
  // One more than requested shows whether there are older ones.
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
        ...defined({ quality, remaking }),
      };
      return [newer, older];
    }),
    ...(found.length > limit && last !== undefined ? { next_before_seq: last.seq } : {}),
  };
}

/** One compaction with its receipts: at a seq, or the last. */
async function readReceipt(place: Place, seq: number | undefined): Promise<AgentReceipt> {
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
    ...(receipt === undefined ? {} : { receipt: withVerdict(receipt) }),
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
    ...defined({ quality, remaking }),
  };
}

function reportedTier({ from, to, summary, by }: Tier): Tier {
  return { from, to, summary, by };
}

function counted(receipt: Receipt | undefined) {
  if (receipt === undefined) return {};
  const { total, in_summary, in_tail, recoverable, lost, invented, unverified = [] } = receipt;
  const counts = { total, in_summary, in_tail, recoverable, lost };
  const verdict = verdictOf(receipt);
  return { receipt: { ...counts, invented: invented.length, unverified: unverified.length, verdict } };
}

const PAGE_ENTRIES = 512;

/** At least this many of the newest compactions before a seq, newest first. */
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
