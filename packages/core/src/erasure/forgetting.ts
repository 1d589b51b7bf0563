import { holdSoon } from "../agents/agent-log.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Forget, ForgetReceipt, ForgetResult } from "../contract/forget.ts";
import type { Clock } from "../ports/clock.ts";
import type { Forgettings, Scan, SignedReceipt } from "../ports/forgettings.ts";
import type { Hold, SessionLocks } from "../ports/store.ts";
import type { CallContext, Service } from "../runtime/dispatch.ts";
import { apply, blobsNamed, type Chosen, type ForgettingParts, type Job, planAll } from "./forget-job.ts";
import { boundGoing, describeLog, everyLog, type ForgetReading, goingOf, type Target } from "./forget-logs.ts";
import { chooseSessions, chooseTargets } from "./forget-targets.ts";

/** The operations, and unfinished jobs of earlier processes. */
export interface ForgettingService {
  readonly operations: Pick<Service, "forget" | "listForgettings">;
  /** Erases whole sessions at once: those that are free and, once held, still due. */
  forgetSessions(ids: readonly string[], how: SessionsGoing): Promise<SessionsGone | undefined>;
  /** Finishes the jobs of processes that have ended. */
  resume(): Promise<void>;
  /** Resolves when no erasure runs. */
  settled(): Promise<void>;
}

interface SessionsGoing {
  isStillDue(id: string): Promise<boolean>;
  readonly by: string | undefined;
}

interface Done {
  readonly receipt: ForgetReceipt;
  readonly signed: SignedReceipt;
}

interface SessionsGone extends Done {
  readonly ids: ReadonlySet<string>;
}

const LISTED_MAX = 100;
const ROUNDS_MAX = 3;

export function createForgetting(parts: ForgettingParts): ForgettingService {
  const { store, clock, memory } = parts;
  let running: Promise<unknown> = Promise.resolve();
  /** One at a time: two would wait for each other's sessions. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = running.then(work);
    running = done.catch(() => {});
    return done;
  };
  const forgettings = (): Forgettings => {
    if (store.forgettings !== undefined) return store.forgettings;
    throw new RuntimeError(
      "SESSION_PERSISTENCE_DISABLED",
      "this store cannot forget with proof; it has no forgettings",
    );
  };
  const reading = async (): Promise<ForgetReading> => ({ store, agents: await parts.agents(), clock });

  const forget = async (input: Forget, call: CallContext): Promise<ForgetResult> => {
    forgettings();
    if (input.query !== undefined) return listFound(input.query, call);
    const how = await chooseTargets(await reading(), parts, input);
    const settings = how.target === "text" ? parts.configuration.saying(parts.finder(how.texts), call.caller) : 0;
    const reported = settings === 0 ? {} : { settings };
    if (input.dry_run) return { ...(await describe(await reading(), parts, how)), ...reported };
    // Its job would contain the text, and a receipt would say that nothing does.
    await finishBegun();
    return holding(clock.newId(), async (id, holds) => {
      for (const target of inOrder(how.targets)) holds.push(await holdTarget(await reading(), target, clock));
      const { planned, receipt, signed } = await begin(id, { ...how, ...reported }, call.caller?.name);
      const going = planned.flatMap(({ target, entries, plan }) => goingOf(target, entries, plan, { isDry: false }));
      return { dry_run: false, logs: receipt.logs, ...boundGoing(going), ...reported, receipt, signed };
    });
  };

  const forgetSessions = (ids: readonly string[], how: SessionsGoing): Promise<SessionsGone | undefined> =>
    holding(clock.newId(), async (id, holds) => {
      const going = new Set<string>();
      for (const session of ids) {
        const hold = await holdIfFree(store.locks, session);
        if (hold === undefined) continue;
        holds.push(hold);
        if (await how.isStillDue(session)) going.add(session);
      }
      if (going.size === 0) return undefined;
      const { receipt, signed } = await begin(id, await chooseSessions(await reading(), [...going]), how.by);
      return { ids: going, receipt, signed };
    });

  /** Runs one erasure exclusively; its locks are released at the end. */
  const holding = async <T>(id: string, work: (id: string, holds: Hold[]) => Promise<T>): Promise<T> => {
    const holds = [await store.locks.hold(id)];
    try {
      return await work(id, holds);
    } finally {
      for (const hold of holds.toReversed()) await hold.release();
    }
  };

  const blobsThere = async (ids: readonly string[]): Promise<readonly string[]> => {
    const there: string[] = [];
    for (const id of new Set(ids)) if ((await store.blobs.get(id)) !== undefined) there.push(id);
    return there;
  };

  /** Stores the job, whose logs are held, and runs it. */
  const begin = async (id: string, how: Chosen & Pick<Job, "settings">, by: string | undefined) => {
    const planned = await planAll(await reading(), parts, how);
    const named = planned.flatMap(({ entries, plan }) => blobsNamed(entries, plan));
    const job: Job = {
      ...how,
      targets: planned.map(({ target, plan: { holes, emptied, cut } }) => ({ ...target, holes, emptied, cut })),
      blobs: await blobsThere([...how.foundBlobs, ...named]),
      ...(by === undefined ? {} : { by }),
    };
    await forgettings().begin(id, JSON.stringify(job));
    const done = await carryOut(id, job).catch((thrown) => {
      throw unfinished(thrown);
    });
    return { planned, ...done };
  };

  /** Runs a job from its current state to the end. */
  const carryOut = async (id: string, job: Job): Promise<Done> => {
    const kept = forgettings();
    let scan: Scan | undefined;
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      await apply(await reading(), parts, { id, job });
      const found = job.texts.length === 0 ? NO_SCAN : await kept.scan(job.texts);
      // The job itself contains the text until it is done.
      scan = { ...found, matches: found.matches.filter(({ place }) => !place.includes(id)) };
      // Another process may just have indexed entries that it read before.
      if (scan.matches.length + scan.more === 0 || job.target !== "text") break;
    }
    const { places, bytes, matches, more } = scan ?? NO_SCAN;
    const at = clock.now();
    const receipt: ForgetReceipt = {
      version: 1,
      forgetting_id: id,
      at: new Date(at).toISOString(),
      target: job.target,
      ...(job.by === undefined ? {} : { by: job.by }),
      logs: job.targets.map((target) => describeLog(target, target)),
      blobs: job.blobs.length - (await blobsThere(job.blobs)).length,
      ...(job.settings === undefined ? {} : { settings: job.settings }),
      scan: {
        texts: job.texts.length,
        places,
        bytes,
        matches: matches.length + more,
        elsewhere: matches.slice(0, LISTED_MAX).map(({ place, form }) => ({ place, form })),
      },
      // A scan finds nothing in encrypted data: there the logs are compared.
      quoted_in:
        job.texts.length === 0 || (matches.length === 0 && store.shred === undefined)
          ? []
          : await quotedIn(await reading(), parts, job),
      backups: ((await kept.backups?.()) ?? [])
        .filter(({ at_ms }) => at_ms <= at)
        .map(({ place, at_ms }) => ({ place, at: new Date(at_ms).toISOString() })),
    };
    const signed = await kept.keep(JSON.stringify(receipt));
    await kept.end(id);
    return { receipt, signed };
  };

  const listFound = async (query: string, call: CallContext): Promise<ForgetResult> => {
    if (memory === undefined) throw new RuntimeError("MEMORY_STORE_DISABLED", "query: there is no memory to search");
    await memory.catchUp();
    const { hits } = await memory.recall(query, {
      scope: { discardedOnly: false },
      limit: QUERY_HITS,
      scoreMin: 0,
      signal: call.signal ?? new AbortController().signal,
    });
    const going = await Promise.all(
      hits.map(async ({ chunk }) => {
        const agent = await memory.nameOf(chunk.session_id);
        return {
          ...(agent === undefined ? { session_id: chunk.session_id } : { agent }),
          seq: chunk.seq,
          kind: chunk.kind,
          at: new Date(chunk.created_at_ms).toISOString(),
          excerpt: chunk.text.slice(0, 120).replace(/\s+/gu, " ").trim(),
        };
      }),
    );
    return { dry_run: true, logs: [], going, more: 0 };
  };

  return {
    operations: {
      forget: (input, call) => inTurn(() => forget(input, call)),
      listForgettings: async () => {
        const kept = forgettings();
        const all = await kept.receipts();
        const unfinished = (await kept.unfinished()).length;
        return { forgettings: all.map((signed) => ({ ...signed, valid: parts.verify(signed) })), unfinished };
      },
    },
    forgetSessions: (ids, how) =>
      inTurn(() => {
        forgettings();
        return forgetSessions(ids, how);
      }),
    resume: () =>
      inTurn(() => finishBegun().catch((thrown) => parts.warn(`what was to be forgotten waits: ${messageOf(thrown)}`))),
    settled: async () => {
      await running;
    },
  };

  async function finishBegun(): Promise<void> {
    for (const { id, job } of (await store.forgettings?.unfinished()) ?? []) {
      try {
        await resumeOne(id, job);
      } catch (thrown) {
        parts.warn(`what was to be forgotten is not all forgotten yet and is tried again: ${messageOf(thrown)}`);
      }
    }
  }

  async function resumeOne(id: string, text: string): Promise<void> {
    const own = await holdIfFree(store.locks, id);
    // The process that began it still runs.
    if (own === undefined) return;
    const holds: Hold[] = [];
    try {
      // Written by `forget`, whole or not at all.
      const job = JSON.parse(text) as Job;
      for (const target of inOrder(job.targets)) holds.push(await holdTarget(await reading(), target, clock));
      await carryOut(id, job);
    } finally {
      for (const hold of holds) await hold.release();
      await own.release();
    }
  }
}

const QUERY_HITS = 20;
const NO_SCAN: Scan = { places: 0, bytes: 0, matches: [], more: 0 };

async function describe(reading: ForgetReading, parts: ForgettingParts, chosen: Chosen): Promise<ForgetResult> {
  const planned = await planAll(reading, parts, chosen);
  const going = planned.flatMap(({ target, entries, plan }) => goingOf(target, entries, plan, { isDry: true }));
  return { dry_run: true, logs: planned.map(({ target, plan }) => describeLog(target, plan)), ...boundGoing(going) };
}

/** Messages with the same text in logs outside the request. */
async function quotedIn(
  reading: ForgetReading,
  { finder }: ForgettingParts,
  { texts }: Job,
): Promise<ForgetReceipt["quoted_in"]> {
  const finds = finder(texts);
  const found: ForgetReceipt["quoted_in"] = [];
  for await (const { kind, id, agent, entries } of everyLog(reading)) {
    for (const { seq, body } of entries) {
      if (found.length >= LISTED_MAX) return found;
      if (finds(JSON.stringify(body)))
        found.push({ ...(kind === "session" ? { session_id: id } : { agent: agent ?? id }), seq });
      await reading.clock.yieldToEventLoop();
    }
  }
  return found;
}

const HOLD_TRIES = 300;

function holdTarget({ store, agents }: ForgetReading, { kind, id }: Target, clock: Clock): Promise<Hold> {
  const place = kind === "session" ? store : agents?.store;
  if (place === undefined) throw new RuntimeError("SESSION_NOT_FOUND", `agent ${id} is not there`);
  return holdSoon(place, id, clock, HOLD_TRIES);
}

/** The lock of this id; undefined while another process holds it. */
export function holdIfFree(locks: SessionLocks, id: string): Promise<Hold | undefined> {
  return locks.hold(id).catch((thrown) => {
    if (thrown instanceof RuntimeError && thrown.code === "SESSION_BUSY") return undefined;
    throw thrown;
  });
}

/** All erasures lock logs in one order, or two would refuse each other. */
function inOrder<T extends Target>(targets: readonly T[]): readonly T[] {
  return [...targets].sort((one, other) => (one.id < other.id ? -1 : 1));
}

/** The job continues, so the caller must not take it as refused. */
function unfinished(thrown: unknown): RuntimeError {
  const message = `not all is forgotten yet; it goes on with the next forgetting, or when the realm is next opened: ${messageOf(thrown)}`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause: thrown });
}
