import type { AgentStore } from "../agents/agent-log.ts";
import { parseDuration } from "../contract/input.ts";
import type { Cost } from "../contract/money.ts";
import type { OperationInput } from "../contract/operations.ts";
import type { UsageReport } from "../contract/session-info.ts";
import type { Clock } from "../ports/clock.ts";
import type { FoldRow, LogRow, Spent, Store } from "../ports/store.ts";
import { createRowWatch, type RowWatch, walkRows } from "../sessions/walk-rows.ts";
import { foldRow } from "../state/session-row.ts";
import { addUsage, dayOf, NO_USAGE, totalTokens } from "../turn/cost.ts";
import type { Service } from "./dispatch.ts";

export interface UsageParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly agents: () => Promise<AgentStore | undefined>;
}

export interface UsageSums extends Pick<Service, "readUsage"> {
  /** What a caller has spent since the UTC day of this time. `partial` if some calls have no known price. */
  spentBy(name: string, sinceMs: number): Promise<Cost>;
}

/** Sums over rows, so the cost depends on the number of sessions, not their length. */
export function createUsageSums({ store, clock, agents }: UsageParts): UsageSums {
  const ofSessions = createSource(store, foldRow);
  let ofAgents: { readonly store: AgentStore; readonly read: Source } | undefined;
  const agentSource = async (): Promise<Source> => {
    const kept = await agents();
    if (kept === undefined) return async function* () {};
    // Agents are loaded on first use.
    const { foldAgent } = await import("../agent-memory/tiers.ts");
    if (ofAgents?.store !== kept) ofAgents = { store: kept, read: createSource(kept, foldAgent) };
    return ofAgents.read;
  };
  const everything = async function* (asked: Asked): AsyncGenerator<Sums> {
    const met = new Set<string>();
    for (const source of [ofSessions, await agentSource()]) {
      for await (const one of source(asked)) {
        if (one.spent.length === 0 || met.has(one.id)) continue;
        met.add(one.id);
        yield one;
      }
    }
  };
  let kept: KeptSums | undefined;
  const totalOf = async (name: string, since: string): Promise<UsageReport["total"]> => {
    const tally = createTally();
    const add = (spent: readonly Spent[]): void => {
      for (const one of spent) if (one.by === name) tally.add("", one);
    };
    if (kept?.since !== since) kept = keptSince(since, clock.now);
    const { logs, looks } = kept;
    if (logs === undefined) {
      for await (const { spent } of everything({ since })) add(spent);
      return tally.total();
    }
    for await (const { id, spent } of ofSessions({ since }, looks.sessions.changed)) logs.set(id, spent);
    for await (const { id, spent } of (await agentSource())({ since }, looks.agents.changed)) logs.set(id, spent);
    if (logs.size > KEPT_LOGS_MAX && kept?.logs === logs) kept = { since, looks, logs: undefined };
    for (const spent of logs.values()) add(spent);
    return tally.total();
  };
  return {
    readUsage: async ({ by, since, labels = {} }, { caller }) => {
      const first = since === undefined ? undefined : firstDay(since, clock.now());
      // Agents have no labels: a caller restricted to labels sees none.
      const wanted = [...Object.entries(labels), ...Object.entries(caller?.labels ?? {})];
      const isWanted = (one: Sums): boolean => wanted.every(([key, value]) => one.labels[key] === value);
      const [groups, all] = [createTally(), createTally()];
      for await (const one of everything({ since: first, labels: Object.fromEntries(wanted) })) {
        if (!isWanted(one)) continue;
        for (const spent of one.spent) {
          all.add("", spent);
          for (const key of keysOf(spent, one.labels, by)) groups.add(key, spent);
        }
      }
      const sorted = groups.groups().sort(by === "day" ? byKey : dearestFirst);
      return { by, ...(first === undefined ? {} : { since: first }), groups: sorted, total: all.total() };
    },
    spentBy: async (name, sinceMs) => {
      const { cost, ...usage } = (await totalOf(name, dayOf(sinceMs))).usage;
      const isUnknown = cost === undefined && totalTokens(usage) > 0;
      return cost ?? { amount: 0, currency: "USD", ...(isUnknown ? { partial: true as const } : {}) };
    },
  };
}

interface Sums {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spent: readonly Spent[];
}

interface Asked {
  /** A day; undefined for all. */
  readonly since: string | undefined;
  readonly labels?: Readonly<Record<string, string>>;
}

/** The sums of every matching log; a log may come twice, the later one newer. */
type Source = (asked: Asked, read?: RowWatch["changed"]) => AsyncGenerator<Sums>;

/** Caches the spending since a day: cost limits ask with every request, and mostly nothing has changed. */
interface KeptSums {
  readonly since: string;
  readonly looks: { readonly sessions: RowWatch; readonly agents: RowWatch };
  /** By log; undefined if there are too many. */
  readonly logs: Map<string, readonly Spent[]> | undefined;
}

const KEPT_LOGS_MAX = 10_000;

function keptSince(since: string, now: () => number): KeptSums {
  return { since, looks: { sessions: createRowWatch(now), agents: createRowWatch(now) }, logs: new Map() };
}

interface SpendingRow extends LogRow {
  readonly spent?: readonly Spent[];
}

/** Logs whose row is older than their sums, and the entries read. */
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
  return async function* ({ since, labels = {} }, read = walkRows) {
    const isWithin = ({ day }: Spent): boolean => since === undefined || day >= since;
    const from = since === undefined ? {} : { updatedSinceMs: Date.parse(since) };
    for await (const row of read(sessions, { ...from, labels })) {
      const spent = (row.spent ?? (await spentByLog(row))).filter(isWithin);
      yield { id: row.session_id, labels: row.labels ?? {}, spent };
    }
  };
}

function firstDay(since: string, nowMs: number): string {
  const backMs = parseDuration(since);
  return backMs === undefined ? since : dayOf(Math.max(0, nowMs - backMs));
}

type By = OperationInput<"readUsage">["by"];

/** Sums incrementally: it holds one sum per group. */
function createTally() {
  const sums = new Map<string, UsageReport["total"]>();
  const sumOf = (key: string): UsageReport["total"] => sums.get(key) ?? { calls: 0, usage: NO_USAGE };
  return {
    add: (key: string, { calls, usage }: Spent): void => {
      const so = sumOf(key);
      sums.set(key, { calls: so.calls + calls, usage: addUsage(so.usage, usage) });
    },
    groups: (): Group[] => [...sums].map(([key, sum]) => ({ key, ...sum })),
    total: (): UsageReport["total"] => sumOf(""),
  };
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

type Group = UsageReport["groups"][number];

function byKey(one: Group, other: Group): number {
  return one.key < other.key ? -1 : 1;
}

function dearestFirst(one: Group, other: Group): number {
  const dearer = (other.usage.cost?.amount ?? 0) - (one.usage.cost?.amount ?? 0);
  return dearer || totalTokens(other.usage) - totalTokens(one.usage) || byKey(one, other);
}
