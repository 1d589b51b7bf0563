import { invalid, messageOf } from "../contract/error.ts";
import type { PruneResult } from "../contract/forget.ts";
import { spellDuration } from "../contract/input.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hold, SessionRow, Store } from "../ports/store.ts";
import type { Service } from "../runtime/dispatch.ts";
import { walkOlder } from "../sessions/walk-rows.ts";
import { dueBy, isRetentionSet, type Retention, type RetentionRule, shortestKeepMs } from "../state/retention.ts";
import { type ForgettingService, holdIfFree } from "./forgetting.ts";

export interface PruningParts {
  readonly store: Pick<Store, "sessions" | "locks">;
  readonly clock: Clock;
  readonly forgetting: Pick<ForgettingService, "forgetSessions" | "resume">;
  /** The configured retention. */
  readonly retention: () => Retention;
  /** Whether due sessions are pruned in the background. */
  readonly runsInBackground: boolean;
  /** Receives a sentence about background pruning and its failures. */
  readonly warn: (sentence: string) => void;
}

/** Erases sessions whose retention has ended. */
export interface Pruning extends Pick<Service, "prune"> {
  close(): Promise<void>;
}

/** Entries erased at once, which are in memory together. */
const ENTRIES_MAX = 50_000;
/** Lets a server finish starting first. */
const FIRST_AFTER_MS = 5 * 60_000;
const EVERY_MS = 60 * 60_000;
const BACKGROUND_SESSIONS = 100;
/** The lock of background pruning, shared by all processes of the realm. */
const PRUNER = "retention";

export function createPruning(parts: PruningParts): Pruning {
  const { store, clock, forgetting } = parts;
  const prune: Service["prune"] = async ({ dry_run, limit }, { caller }) => {
    const retention = parts.retention();
    if (!isRetentionSet(retention)) {
      const message =
        'retention: nothing says how long sessions are kept; write [retention] sessions = "90d" in the configuration';
      throw invalid(message);
    }
    const { due, more, inTurn } = await findDue(parts, retention, limit);
    if (dry_run) {
      const held = await Promise.all(due.map(({ row }) => store.locks.isHeld(row.session_id)));
      const free = due.filter((_, at) => held[at] === false);
      const sessions = free.map((one) => ({ ...describe(one), title: one.row.title }));
      return { dry_run, sessions, more, busy: inTurn + due.length - free.length };
    }
    const done = await forgetting.forgetSessions(
      due.map(({ row }) => row.session_id),
      {
        by: caller?.name,
        isStillDue: async (id) => {
          const row = await store.sessions.get(id);
          return row !== undefined && !isAwaited(row) && dueBy(row, retention, clock.now()) !== undefined;
        },
      },
    );
    const { ids = new Set<string>(), ...proof } = done ?? {};
    const gone = due.filter(({ row }) => ids.has(row.session_id));
    return { dry_run, sessions: gone.map(describe), more, busy: inTurn + due.length - gone.length, ...proof };
  };

  const stop = new AbortController();
  const pruneInBackground = async (): Promise<void> => {
    let pruner: Hold | undefined;
    for (let waitMs = FIRST_AFTER_MS; ; waitMs = EVERY_MS) {
      await clock.sleep(waitMs, stop.signal, "background");
      if (stop.signal.aborted) break;
      try {
        pruner ??= await holdIfFree(store.locks, PRUNER);
        if (pruner === undefined || !isRetentionSet(parts.retention())) continue;
        // An erasure that an ended process left unfinished.
        await forgetting.resume();
        const { sessions, more, receipt } = await prune({ dry_run: false, limit: BACKGROUND_SESSIONS }, {});
        if (receipt !== undefined) parts.warn(sentenceOf(sessions.length, more, receipt.forgetting_id));
      } catch (thrown) {
        parts.warn(`what is kept no longer is not all forgotten and is tried again in an hour: ${messageOf(thrown)}`);
      }
    }
    await pruner?.release();
  };
  const background = parts.runsInBackground && isRetentionSet(parts.retention()) ? pruneInBackground() : undefined;
  return {
    prune,
    close: async () => {
      stop.abort();
      await background;
    },
  };
}

interface Due {
  readonly row: SessionRow;
  readonly rule: RetentionRule;
}

/** The oldest due sessions, as many as may be pruned at once, and how many more are due. */
async function findDue(
  { store, clock }: PruningParts,
  retention: Retention,
  limit: number,
): Promise<{ readonly due: readonly Due[]; readonly more: number; readonly inTurn: number }> {
  const nowMs = clock.now();
  const shortestMs = shortestKeepMs(retention);
  if (shortestMs === Number.POSITIVE_INFINITY) return { due: [], more: 0, inTurn: 0 };
  let oldest: Due[] = [];
  let [found, inTurn] = [0, 0];
  for await (const row of walkOlder(store.sessions, nowMs - shortestMs)) {
    await clock.yieldToEventLoop();
    const rule = dueBy(row, retention, nowMs);
    if (rule === undefined) continue;
    if (isAwaited(row) || (row.has_open_turn && (await store.locks.isHeld(row.session_id)))) {
      inTurn += 1;
      continue;
    }
    found += 1;
    oldest.push({ row, rule });
    // Rows come in descending order of update.
    if (oldest.length >= 2 * limit) oldest = oldest.slice(-limit);
  }
  const due = together(oldest.slice(-limit).reverse());
  return { due, more: found - due.length, inTurn };
}

/** Whether its turn waits for approval, while no process holds it; a turn cut off by a crash does not. */
function isAwaited({ waiting_calls = 0 }: SessionRow): boolean {
  return waiting_calls > 0;
}

/** The first of them that fit into memory together, at least one. */
function together(oldest: readonly Due[]): readonly Due[] {
  let entries = 0;
  const end = oldest.findIndex(({ row }, at) => {
    entries += row.last_seq;
    return at > 0 && entries > ENTRIES_MAX;
  });
  return end === -1 ? oldest : oldest.slice(0, end);
}

function describe({ row, rule: { rule, keep } }: Due): PruneResult["sessions"][number] {
  return {
    session_id: row.session_id,
    updated_at: new Date(row.updated_at_ms).toISOString(),
    rule,
    kept_for: keep === "forever" ? keep : spellDuration(keep),
  };
}

function sentenceOf(sessions: number, more: number, id: string): string {
  const rest = more === 0 ? "" : `; ${more} more go later`;
  return `${sessions} ${sessions === 1 ? "session was" : "sessions were"} kept long enough and forgotten, receipt ${id}${rest}`;
}
