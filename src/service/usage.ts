import type { Usage } from "../contract/event.ts";
import { parseDuration } from "../contract/input.ts";
import type { Cost } from "../contract/money.ts";
import type { OperationInput } from "../contract/operations.ts";
import type { UsageReport } from "../contract/usage.ts";
import { foldRow } from "../core/session-row.ts";
import { addUsage, NO_USAGE, totalTokens } from "../core/session-state.ts";
import { dayOf } from "../core/spent.ts";
import type { Clock } from "../ports/clock.ts";
import type { FoldRow, LogRow, Spent, Store } from "../ports/store.ts";
import type { AgentStore } from "./agent/agent-log.ts";
import type { Service } from "./dispatch.ts";

export interface UsageParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Undefined when there are no agents. */
  readonly agents: () => Promise<AgentStore | undefined>;
}

export interface UsageSums extends Pick<Service, "readUsage"> {
  /**
   * What somebody has spent, by the name the calls were made under, on the UTC day of this moment and those after it. It is
   * `partial` where some of the calls have no known price.
   */
  spentBy(name: string, sinceMs: number): Promise<Cost>;
}

/** Sums over rows: what they cost to read follows from how many sessions there are, not from how long they are. */
export function createUsageSums({ store, clock, agents }: UsageParts): UsageSums {
  const ofSessions = createSource(store, foldRow);
  let ofAgents: { readonly store: AgentStore; readonly read: Source } | undefined;
  const agentSource = async (): Promise<Source> => {
    const kept = await agents();
    if (kept === undefined) return async () => [];
    // Loaded with the first of them, as everything of agents is.
    const { foldAgent } = await import("../core/agent/tiers.ts");
    if (ofAgents?.store !== kept) ofAgents = { store: kept, read: createSource(kept, foldAgent) };
    return ofAgents.read;
  };
  const everything = async (since: string | undefined): Promise<readonly Sums[]> => {
    const ofAgent = await agentSource();
    return (await Promise.all([ofSessions(since), ofAgent(since)])).flat();
  };
  return {
    readUsage: async ({ by, since, labels = {} }, { caller }) => {
      const first = since === undefined ? undefined : firstDay(since, clock.now());
      // Agents have no labels: whoever is shown some sessions only is shown no agent.
      const wanted = [...Object.entries(labels), ...Object.entries(caller?.labels ?? {})];
      const isWanted = (one: Sums): boolean => wanted.every(([key, value]) => one.labels[key] === value);
      const sums = (await everything(first)).filter(isWanted);
      return { by, ...(first === undefined ? {} : { since: first }), groups: groupsOf(sums, by), total: totalOf(sums) };
    },
    spentBy: async (name, sinceMs) => {
      const own = (await everything(dayOf(sinceMs))).flatMap(({ spent }) => spent.filter(({ by }) => by === name));
      const { cost, ...usage } = sumOf(own).usage;
      const isUnknown = cost === undefined && totalTokens(usage) > 0;
      return cost ?? { amount: 0, currency: "USD", ...(isUnknown ? { partial: true as const } : {}) };
    },
  };
}

/** What was spent in one session, or by one agent. */
interface Sums {
  readonly labels: Readonly<Record<string, string>>;
  readonly spent: readonly Spent[];
}

/** Reads the sums of every log from a day on; undefined for all days. */
type Source = (since: string | undefined) => Promise<readonly Sums[]>;

interface SpendingRow extends LogRow {
  readonly updated_at_ms: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spent?: readonly Spent[];
}

/** Logs whose row is older than its sums, and what was read of them. */
const READ_MAX = 1_000;

function createSource<B, R extends SpendingRow>({ sessions, log }: Store<B, R>, fold: FoldRow<B, R>): Source {
  const read = new Map<string, { readonly last_seq: number; readonly spent: readonly Spent[] }>();
  const spentByLog = async ({ session_id, last_seq }: R): Promise<readonly Spent[]> => {
    const known = read.get(session_id);
    if (known?.last_seq === last_seq) return known.spent;
    const entries = await log.read(session_id, 1, Number.MAX_SAFE_INTEGER);
    const row = entries.reduce<R | undefined>((so, entry) => fold(so, session_id, entry), undefined);
    const sums = row?.spent ?? [];
    read.set(session_id, { last_seq, spent: sums });
    const [oldest] = read.keys();
    if (read.size > READ_MAX && oldest !== undefined) read.delete(oldest);
    return sums;
  };
  return async (since) => {
    const isWithin = ({ day }: Spent): boolean => since === undefined || day >= since;
    const sinceMs = since === undefined ? 0 : Date.parse(since);
    const sums: Sums[] = [];
    for (const row of await sessions.all()) {
      if (row.updated_at_ms < sinceMs) continue;
      // Only what has to be read is waited for: whoever limits a name's spending asks at every request.
      const spent = (row.spent ?? (await spentByLog(row))).filter(isWithin);
      if (spent.length > 0) sums.push({ labels: row.labels ?? {}, spent });
    }
    return sums;
  };
}

function firstDay(since: string, nowMs: number): string {
  const backMs = parseDuration(since);
  return backMs === undefined ? since : dayOf(Math.max(0, nowMs - backMs));
}

type By = OperationInput<"readUsage">["by"];

function groupsOf(sums: readonly Sums[], by: By): UsageReport["groups"] {
  const groups = new Map<string, Spent[]>();
  for (const { labels, spent } of sums) {
    for (const one of spent) {
      for (const key of keysOf(one, labels, by)) {
        const group = groups.get(key);
        if (group === undefined) groups.set(key, [one]);
        else group.push(one);
      }
    }
  }
  return [...groups].map(([key, spent]) => ({ key, ...sumOf(spent) })).sort(by === "day" ? byKey : dearestFirst);
}

function keysOf({ model, day, by: token = "" }: Spent, labels: Sums["labels"], by: By): readonly string[] {
  switch (by) {
    case "model":
      return [model];
    case "day":
      return [day];
    case "token":
      return [token];
    case "label": {
      const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
      return pairs.length === 0 ? [""] : pairs;
    }
  }
}

function totalOf(sums: readonly Sums[]): UsageReport["total"] {
  return sumOf(sums.flatMap(({ spent }) => spent));
}

function sumOf(spent: readonly Spent[]): UsageReport["total"] {
  const calls = spent.reduce((sum, one) => sum + one.calls, 0);
  return { calls, usage: spent.reduce<Usage>((sum, one) => addUsage(sum, one.usage), NO_USAGE) };
}

type Group = UsageReport["groups"][number];

function byKey(one: Group, other: Group): number {
  return one.key < other.key ? -1 : 1;
}

function dearestFirst(one: Group, other: Group): number {
  const dearer = (other.usage.cost?.amount ?? 0) - (one.usage.cost?.amount ?? 0);
  return dearer || totalTokens(other.usage) - totalTokens(one.usage) || byKey(one, other);
}
