import { agentId, holdSoon } from "../agents/agent-log.ts";
import { hasCode, invalid, messageOf, RuntimeError } from "../contract/error.ts";
import type { Forget, ForgetReceipt, ForgetResult, PruneResult } from "../contract/forget.ts";
import { spellDuration } from "../contract/input.ts";
import type { Clock } from "../ports/clock.ts";
import type { Forgettings, Hold, Scan, SessionLocks, SessionRow, SignedReceipt, Store } from "../ports/store.ts";
import type { CallContext, Service } from "../runtime/dispatch.ts";
import { runLock } from "../schedules/schedules.ts";
import { walkOlder } from "../sessions/walk-rows.ts";
import { dueBy, isRetentionSet, type Retention, type RetentionRule, shortestKeepMs } from "../state/retention.ts";
import { sentencesOf } from "../text/sentences.ts";
import { apply, blobsNamed, type Chosen, type ForgettingParts, type Job, planAll } from "./forget-job.ts";
import {
  type AnyEntry,
  boundGoing,
  copiesIn,
  describeLog,
  everyLog,
  type ForgetReading,
  forksOf,
  goingOf,
  namedLog,
  readLog,
  requireLog,
  type Target,
  textsSaid,
} from "./forget-logs.ts";

/** The operations, and unfinished jobs of earlier processes. */
export interface ForgettingService {
  readonly operations: Pick<Service, "forget" | "listForgettings">;
  /** Erases whole sessions at once: those that are free and, once held, still due. */
  forgetSessions(ids: readonly string[], how: SessionsGoing): Promise<SessionsGone | undefined>;
  /** Finishes the jobs of processes that have ended. */
  resume(): Promise<void>;
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
  const reading = async (): Promise<ForgetReading> => ({
    ...{ store, clock },
    agents: await parts.agents(),
    schedules: await parts.schedules(),
  });

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
      await holdTargets(await reading(), how.targets, { holds, clock });
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
    await memory.catchUp(undefined, call.indexed);
    const { hits } = await memory.recall(query, {
      scope: { discardedOnly: false },
      limit: QUERY_HITS,
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
      inTurn(() => finishBegun().catch((thrown) => parts.warn(`an unfinished erasure waits: ${messageOf(thrown)}`))),
    settled: async () => {
      await running;
    },
  };

  async function finishBegun(): Promise<void> {
    for (const { id, job } of (await store.forgettings?.unfinished()) ?? []) {
      try {
        await resumeOne(id, job);
      } catch (thrown) {
        parts.warn(`an erasure is incomplete and is tried again: ${messageOf(thrown)}`);
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
      await holdTargets(await reading(), job.targets, { holds, clock });
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
  for await (const { entries, ...log } of everyLog(reading)) {
    for (const { seq, body } of entries) {
      if (found.length >= LISTED_MAX) return found;
      if (finds(JSON.stringify(body))) found.push({ ...namedLog(log), seq });
      await reading.clock.yieldToEventLoop();
    }
  }
  return found;
}

const HOLD_TRIES = 300;

async function holdTargets(
  { store, agents, schedules }: ForgetReading,
  targets: readonly Target[],
  { holds, clock }: { readonly holds: Hold[]; readonly clock: Clock },
): Promise<void> {
  for (const { kind, id } of inOrder(targets)) {
    const place = { session: store, agent: agents?.store, schedule: schedules }[kind];
    if (place === undefined) throw new RuntimeError("SESSION_NOT_FOUND", `${kind} ${id} is not there`);
    // A server that runs the schedule has read its text, and might bring it back.
    if (kind === "schedule")
      holds.push(await holdSoon(place, runLock(id), clock, HOLD_TRIES).catch((thrown) => refuseRunning(thrown, id)));
    holds.push(await holdSoon(place, id, clock, HOLD_TRIES));
  }
}

function refuseRunning(cause: unknown, id: string): never {
  const isBusy = hasCode(cause, "SESSION_BUSY");
  const message = `schedule ${id} is running; pause it, and try again when its run has ended`;
  throw isBusy ? new RuntimeError("SESSION_BUSY", message, { cause }) : cause;
}

/** The lock of this id; undefined while another process holds it. */
export function holdIfFree(locks: SessionLocks, id: string): Promise<Hold | undefined> {
  return locks.hold(id).catch((thrown) => {
    if (hasCode(thrown, "SESSION_BUSY")) return undefined;
    throw thrown;
  });
}

/** All erasures lock logs in one order, or two would refuse each other. */
function inOrder<T extends Target>(targets: readonly T[]): readonly T[] {
  return [...targets].sort((one, other) => (one.id < other.id ? -1 : 1));
}

/** The job continues, so the caller must not take it as refused. */
function unfinished(thrown: unknown): RuntimeError {
  const message = `the erasure is incomplete; it continues with the next erasure, or when the realm is next opened: ${messageOf(thrown)}`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause: thrown });
}

/** The limits of the texts that are searched for afterwards. */
const TEXTS_MAX = 400;
const SENTENCE_CHARS_MIN = 24;
const TEXT_CHARS_MIN = 4;

/** The target of an erasure: which logs, and which texts identify the rest. */
async function chooseTargets(reading: ForgetReading, { finder }: ForgettingParts, input: Forget): Promise<Chosen> {
  const { query_exact, agent } = input;
  if (query_exact !== undefined) {
    const finds = finder([query_exact]);
    const foundBlobs = await blobsWith(reading, finds);
    const targets: Target[] = [];
    for await (const { entries, ...log } of everyLog(reading)) {
      for (const { body } of entries) {
        const said = JSON.stringify(body);
        await reading.clock.yieldToEventLoop();
        if (!finds(said) && !foundBlobs.some((id) => said.includes(id))) continue;
        targets.push({ ...log, isAll: false, seqs: [], isCopy: false });
        break;
      }
    }
    return { target: "text", texts: [query_exact], targets, copies: [], foundBlobs, restated: [] };
  }
  if (agent !== undefined) return chooseAgent(reading, agent, input.memory);
  const wanted = input.messages ?? [{ session_id: input.session_id ?? "", seq: input.seq }];
  const bySession = Map.groupBy(wanted, ({ session_id }) => session_id);
  const gone: AnyEntry[] = [];
  const targets: Target[] = [];
  for (const [id, messages] of bySession) {
    const entries = await readLog(reading, { kind: "session", id });
    requireLog(entries, `session ${id}`);
    const seqs = messages.flatMap(({ seq }) => seq ?? []);
    const isAll = seqs.length === 0;
    for (const seq of seqs) requireMessage(entries, id, seq);
    const own = entries.flatMap(messagesIn).filter((entry) => isAll || seqs.some((seq) => holdsSeq(entry, seq)));
    // One by one: there may be more than one call accepts.
    for (const entry of own) gone.push(entry);
    targets.push({ kind: "session", id, isAll, seqs, isCopy: false });
  }
  for (const id of await forksOf(reading, new Set(bySession.keys())))
    targets.push({ kind: "session", id, isAll: false, seqs: [], isCopy: true });
  const target = input.messages !== undefined ? "messages" : input.seq === undefined ? "session" : "message";
  return { target, targets, copies: copiesIn(gone), foundBlobs: [], ...toLookFor(textsSaid(gone)) };
}

const BLOBS_A_PAGE = 100;

async function blobsWith(
  { store: { blobs }, clock }: ForgetReading,
  finds: (bytes: Uint8Array) => boolean,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (
    let page = await blobs.ids("", BLOBS_A_PAGE);
    page.length > 0;
    page = await blobs.ids(page.at(-1) ?? "", BLOBS_A_PAGE)
  ) {
    for (const id of page) {
      const blob = await blobs.get(id);
      if (blob !== undefined && finds(blob.data)) found.push(id);
      await clock.yieldToEventLoop();
    }
  }
  return found;
}

/** Only whole sessions: copies and restatements in other sessions stay. */
async function chooseSessions(reading: ForgetReading, ids: readonly string[]): Promise<Chosen> {
  const said: string[] = [];
  for (const id of ids) {
    for (const text of textsSaid(await readLog(reading, { kind: "session", id }))) said.push(text);
  }
  const targets = ids.map((id): Target => ({ kind: "session", id, isAll: true, seqs: [], isCopy: false }));
  return { target: "sessions", targets, copies: [], foundBlobs: [], texts: toLookFor(said).texts, restated: [] };
}

async function chooseAgent(reading: ForgetReading, agent: string, memory: number | undefined): Promise<Chosen> {
  const id = agentId(agent);
  const entries = await readLog(reading, { kind: "agent", id });
  requireLog(entries, `agent ${agent}`);
  const isWanted = ({ body }: AnyEntry): boolean =>
    memory === undefined || (body.kind === "memory_added" && body.number === memory);
  const gone = entries.filter(isWanted);
  if (gone.length === 0) throw new RuntimeError("SESSION_NOT_FOUND", `memory: agent ${agent} has no memory ${memory}`);
  const isAll = memory === undefined;
  const seqs = isAll ? [] : gone.map(({ seq }) => seq);
  const targets: Target[] = [{ kind: "agent", id, agent, isAll, seqs, isCopy: false }];
  return { target: isAll ? "agent" : "memory", targets, copies: [], foundBlobs: [], ...toLookFor(textsSaid(gone)) };
}

/** Each message that a rewrite inserted counts by itself, as forks copy it. */
function messagesIn(entry: AnyEntry): readonly AnyEntry[] {
  const { seq, body } = entry;
  if (body.kind !== "rewritten" || !("messages" in body.to)) return [entry];
  return body.to.messages.map((message, at) => ({
    ...entry,
    seq: seq + at,
    span: 1,
    body: { kind: "imported", message },
  }));
}

function holdsSeq({ seq, span }: AnyEntry, wanted: number): boolean {
  return seq <= wanted && wanted < seq + span;
}

function requireMessage(entries: readonly AnyEntry[], id: string, seq: number): void {
  const entry = entries.find((one) => holdsSeq(one, seq));
  if (
    entry !== undefined &&
    (textsSaid([entry]).length > 0 || "message" in entry.body || entry.body.kind === "rewritten")
  )
    return;
  throw new RuntimeError(
    "SESSION_NOT_FOUND",
    `seq: session ${id} has no message at ${seq}; rkat session show lists them`,
  );
}

/** Texts that prove the erasure: short ones whole, and sentences from all over long ones. */
function toLookFor(said: readonly string[]): Pick<Job, "texts" | "restated"> {
  const pieces = said.flatMap((text) => {
    if (text.length <= 2 * SENTENCE_CHARS_MIN) return [text.trim()];
    return sentencesOf(text).filter((sentence) => sentence.length >= SENTENCE_CHARS_MIN);
  });
  // A quotation may omit the end of a sentence.
  const bare = pieces.map((piece) => piece.replace(/[.!?]$/u, ""));
  const all = [...new Set(bare)].filter((piece) => piece.length >= TEXT_CHARS_MIN);
  const step = Math.max(1, all.length / TEXTS_MAX);
  const texts = Array.from({ length: Math.min(all.length, TEXTS_MAX) }, (_, at) => all[Math.floor(at * step)] ?? "");
  return { texts, restated: said };
}

export interface PruningParts {
  readonly store: Pick<Store, "sessions" | "locks">;
  readonly clock: Clock;
  readonly forgetting: Pick<ForgettingService, "forgetSessions" | "resume">;
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
      const sessions = free.map((one) => ({ ...describeDue(one), title: one.row.title }));
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
    return { dry_run, sessions: gone.map(describeDue), more, busy: inTurn + due.length - gone.length, ...proof };
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
        parts.warn(`pruning is incomplete and is tried again in an hour: ${messageOf(thrown)}`);
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

function describeDue({ row, rule: { rule, keep } }: Due): PruneResult["sessions"][number] {
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
