import { hasCode, invalid } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import type { OpenTelemetry } from "../ports/telemetry.ts";
import type { Vault } from "../ports/vault.ts";
import type { Asking } from "../turn/model-call.ts";
import type { AgentStore } from "./agent-log.ts";
import type { AgentOperations, Agents } from "./agents.ts";

export interface AgentPlace {
  readonly store: AgentStore;
  /** Reads and writes the agents' files; undefined if this process writes none. */
  readonly vault: Vault | undefined;
  /** Erases files that an earlier process wrote, even if this one writes none. */
  readonly eraseFiles?: Vault["erase"] | undefined;
}

/** The agents' store before it is opened. */
export interface AgentHome {
  open(): Promise<AgentPlace>;
  /** Whether there may be an agent: opening an empty store would create it. */
  isThere(): boolean;
}

interface Summariser {
  readonly models: ModelResolver;
  readonly profile: string;
  readonly profiles: Readonly<Record<string, unknown>>;
  readonly asking: Pick<Asking, "clock" | "retry" | "calls" | "redact">;
}

export interface AgentOperationParts {
  readonly clock: Clock;
  readonly home: AgentHome;
  readonly windows: { readonly immediate: number; readonly recent: number };
  /** The summariser and its prompt, as configured at the time of the summary. */
  readonly summariser: () => Summariser;
  /** Whether invented facts are cut, as configured at the time of the summary. */
  readonly cutsInvented: () => boolean;
  /** What the calls of the caller with this name cost today, in US dollars. */
  readonly spentToday: (name: string) => Promise<number>;
  readonly telemetry: OpenTelemetry | undefined;
  readonly report: ((line: string) => void) | undefined;
  readonly grown: (id: string) => void;
}

/** The agents' operations; the first call loads and opens them. */
export function createAgentOperations(parts: AgentOperationParts): {
  readonly operations: AgentOperations;
  store(): Promise<AgentStore | undefined>;
  /** Likewise, with their files. */
  place(): Promise<AgentPlace | undefined>;
  close(): Promise<void>;
} {
  let opening: Promise<Agents & AgentPlace> | undefined;
  const opened = (): Promise<Agents & AgentPlace> => {
    // A failed opening is retried by the next call.
    opening ??= openAgents(parts).catch((thrown) => {
      opening = undefined;
      throw thrown;
    });
    return opening;
  };
  const operations = async (): Promise<AgentOperations> => (await opened()).operations;
  const mayHaveAgents = (): boolean => opening !== undefined || parts.home.isThere();
  return {
    operations: {
      remember: async (...given) => (await operations()).remember(...given),
      takeNote: async (...given) => (await operations()).takeNote(...given),
      readAgentContext: async (...given) => (await operations()).readAgentContext(...given),
      compactAgent: async (...given) => (await operations()).compactAgent(...given),
      readAgentStatus: async (...given) => (await operations()).readAgentStatus(...given),
      readAgentHistory: async (...given) => (await operations()).readAgentHistory(...given),
      readAgentReceipt: async (...given) => (await operations()).readAgentReceipt(...given),
      exportAgent: async (...given) => (await operations()).exportAgent(...given),
      listAgents: async (...given) => (mayHaveAgents() ? (await operations()).listAgents(...given) : { agents: [] }),
    },
    store: async () => (mayHaveAgents() ? (await opened()).store : undefined),
    place: async () => (mayHaveAgents() ? opened() : undefined),
    close: async () => {
      await (await opening)?.close();
    },
  };
}

async function openAgents(parts: AgentOperationParts): Promise<Agents & AgentPlace> {
  const { home, clock, windows, summariser, cutsInvented, spentToday, telemetry, report, grown } = parts;
  const { createAgents } = await import("./agents.ts");
  const { createTierSummariser } = await import("./tier-summariser.ts");
  const now = () => {
    const { models, profile, profiles, asking } = summariser();
    return createTierSummariser({ model: () => summariserOf(models, profile, { profiles }), asking, telemetry });
  };
  const place = await home.open();
  const agents = createAgents({
    ...place,
    clock,
    windows,
    summarise: (...texts) => now().summarise(...texts),
    roomBytes: () => now().roomBytes(),
    cutsInvented,
    spentToday,
    report: report ?? (() => {}),
    grown,
  });
  return { ...place, ...agents };
}

/** The profile that summarises by default; it may be absent. */
const DEFAULT_PROFILE = "summarizer";

/**
 * The model that summarises memories: that of the profile, else the sessions' model. Undefined if there is none or only
 * the offline model; then summaries consist of the memories' own sentences.
 */
async function summariserOf(
  models: ModelResolver,
  profile: string,
  { profiles }: { readonly profiles: Readonly<Record<string, unknown>> },
): Promise<ModelClient | undefined> {
  if (Object.hasOwn(profiles, profile)) return models.resolve(profile, undefined);
  if (profile !== DEFAULT_PROFILE) {
    const known = Object.keys(profiles).join(", ");
    const instead = known === "" ? "there is none" : `there are ${known}`;
    throw invalid(`agent_memory.profile is "${profile}"; ${instead} under [profiles]`);
  }
  const model = await models.resolve(undefined, undefined).catch((thrown) => {
    if (hasCode(thrown, "INVALID_PARAMS")) return undefined;
    throw thrown;
  });
  return model?.provider === "offline" ? undefined : model;
}
