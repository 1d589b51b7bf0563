import type { AgentEntryBody } from "../../contract/agent.ts";
import type { Entry } from "../../contract/entry.ts";
import { FORGOTTEN } from "../../contract/forgotten.ts";
import type { OperationOutput } from "../../contract/operations.ts";
import type { AgentRow } from "../../core/agent/tiers.ts";
import { splitText, toChunk } from "../../memory/chunk.ts";
import type { Clock } from "../../ports/clock.ts";
import type { NewChunk } from "../../ports/memory.ts";
import type { Service } from "../dispatch.ts";
import { translateFailures } from "../live-sessions.ts";
import type { MemorySource } from "../memory-background.ts";
import { logPage } from "../portable-log.ts";
import { walkRows } from "../walk-rows.ts";
import { readHistory, readReceipt } from "./agent-history.ts";
import { type AgentStore, agentId, createAgentLog } from "./agent-log.ts";
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
  /** Told which log has grown. */
  readonly grown: (id: string) => void;
}

export interface Agents {
  readonly operations: AgentOperations;
  readonly store: AgentStore;
  readonly vault: AgentsParts["vault"];
  /** Waits a while for compactions that run; one that is cut off is due again. */
  close(): Promise<void>;
}

const CLOSE_GRACE_MS = 10_000;

/** The agents of a project, each with its memory; one is there as soon as it remembers something. */
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

/** What agents remember, and their short-term summaries, as texts to be found. `turn` is the number of the memory. */
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

/** What is not shown word for word any more, and the summaries. */
function coveredIn({ recent, places, last_seq, summary_seqs }: AgentRow) {
  if (recent === undefined) return [];
  const last = (places[0]?.seq ?? last_seq + 1) - 1;
  const later = summary_seqs.filter((seq) => seq > last).map((seq) => ({ from_seq: seq, to_seq: seq }));
  return [{ from_seq: 1, to_seq: last }, ...later];
}
