import type { AgentEntryBody } from "../../contract/agent/agent-entry.ts";
import type { Entry } from "../../contract/entry.ts";
import type { AgentRow } from "../../core/agent/agent-row.ts";
import { toChunk } from "../../memory/chunk.ts";
import { splitText } from "../../memory/split.ts";
import type { NewChunk } from "../../ports/memory.ts";
import type { MemorySource } from "../memory/memory-source.ts";
import type { AgentStore } from "./agent-log.ts";

const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** What agents remember, and their short-term summaries, as texts to be found. `turn` is the number of the memory. */
export function createAgentSource(open: () => Promise<AgentStore | undefined>): MemorySource {
  const names = new Map<string, string>();
  return {
    ends: async () => {
      const rows = (await (await open())?.sessions.all()) ?? [];
      for (const { session_id, agent } of rows) names.set(session_id, agent);
      return rows;
    },
    batchAfter: async (id, seq) => {
      const store = await open();
      const row = await store?.sessions.get(id);
      if (store === undefined || row === undefined) return { session_id: id, cursor: 0, chunks: [], discarded: [] };
      names.set(id, row.agent);
      const entries = (await store.log.read(id, seq + 1, ENTRIES_MAX)).filter((entry) => entry.seq <= row.last_seq);
      return { session_id: id, cursor: row.last_seq, chunks: entries.flatMap(chunksIn(id)), discarded: coveredIn(row) };
    },
    nameOf: (id) => names.get(id),
  };
}

function chunksIn(session_id: string): (entry: Entry<AgentEntryBody>) => readonly NewChunk[] {
  return ({ seq, timestamp_ms: created_at_ms, body }) => {
    const found = findable(body);
    if (found === undefined) return [];
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
