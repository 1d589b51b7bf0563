import type { Windows } from "../../core/agent/waterfall.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Vault } from "../../ports/vault.ts";
import type { Service } from "../dispatch.ts";
import { translateFailures } from "../store-border.ts";
import { type AgentStore, createAgentLog } from "./agent-log.ts";
import { type AgentMemory, createAgentMemory } from "./agent-memory.ts";
import type { SummariseTexts } from "./tier-summariser.ts";

export type AgentOperations = Pick<
  Service,
  "remember" | "takeNote" | "readAgentContext" | "compactAgent" | "readAgentStatus" | "listAgents"
>;

export interface AgentsParts {
  readonly store: AgentStore;
  readonly vault: Vault | undefined;
  readonly clock: Clock;
  readonly windows: Windows;
  readonly summarise: SummariseTexts;
  readonly tell: (line: string) => void;
  /** Told which log has grown. */
  readonly grown: (id: string) => void;
}

export interface Agents {
  readonly operations: AgentOperations;
  readonly store: AgentStore;
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
      grown: () => {},
      signal: stop.signal,
    });
    agents.set(name, created);
    return created;
  };
  return {
    store,
    operations: {
      remember: ({ agent: name, content, metadata }) => agent(name).remember([{ content, metadata }]),
      takeNote: async ({ agent: name, content, title }) => ({
        notes: await agent(name).note({ content, ...(title === undefined ? {} : { title }) }),
      }),
      readAgentContext: ({ agent: name, immediate }) => agent(name).context(immediate),
      compactAgent: ({ agent: name }) => agent(name).compact(),
      readAgentStatus: ({ agent: name }) => agent(name).status(),
      listAgents: async () => {
        const rows = await store.sessions.all();
        return {
          agents: rows
            .map((row) => ({
              agent: row.agent,
              count: row.count,
              created_at: new Date(row.created_at_ms).toISOString(),
              updated_at: new Date(row.updated_at_ms).toISOString(),
            }))
            .sort((a, b) => a.agent.localeCompare(b.agent, "en")),
        };
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
