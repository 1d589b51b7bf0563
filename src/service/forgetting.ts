import type { AgentEntryBody } from "../contract/agent.ts";
import type { Entry, EntryBody } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Forget, ForgetReceipt, ForgetResult } from "../contract/forget.ts";
import { foldAgent } from "../core/agent/tiers.ts";
import { type Forgetting, type Hole, retellingOf } from "../core/forgetting.ts";
import { foldRow } from "../core/session-row.ts";
import type { Clock } from "../ports/clock.ts";
import type { Forgettings, Scan, SignedReceipt } from "../ports/forgettings.ts";
import type { Hold, Store } from "../ports/store.ts";
import { sentencesOf } from "../text/sentences.ts";
import { agentId } from "./agent/agent-log.ts";
import type { CallContext, Service } from "./dispatch.ts";
import {
  type AgentPlaceForForgetting,
  type AnyEntry,
  boundGoing,
  copiesIn,
  everyLog,
  type ForgetReading,
  forksOf,
  goingOf,
  type LogPlan,
  planTarget,
  readLog,
  requireLog,
  type Target,
  tellLog,
  textsSaid,
} from "./forget-logs.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { SessionMemory } from "./session-memory.ts";

export interface ForgettingParts {
  readonly store: Store;
  readonly live: Pick<LiveSessions, "renew">;
  readonly clock: Clock;
  readonly memory: SessionMemory | undefined;
  readonly agents: () => Promise<AgentPlaceForForgetting | undefined>;
  /** Tells whether a text says one of some texts, in any form. */
  readonly finder: (texts: readonly string[]) => (text: string) => boolean;
  /** A keyed hash, of a key that is made for it and kept nowhere. */
  readonly newMac: () => (text: string) => string;
  readonly verify: (signed: SignedReceipt) => boolean;
  /** Back-ups that are known to have been made. */
  readonly backups: () => Promise<readonly { readonly place: string; readonly at_ms: number }[]>;
  readonly warn: (sentence: string) => void;
}

/** Operations, and work that goes on from an earlier process. */
export interface ForgettingService extends Pick<Service, "forget" | "listForgettings"> {
  /** Finishes what was begun and not ended by a process that is gone. */
  resume(): Promise<void>;
  /** Resolves when nothing is being forgotten any more. */
  settled(): Promise<void>;
}

/** What a forgetting is, as it is kept until it is done. */
interface Job {
  readonly target: ForgetReceipt["target"];
  readonly by?: string;
  readonly texts: readonly string[];
  /** What is looked for besides, in what is derived. */
  readonly targets: readonly (Target & {
    readonly holes: readonly Hole[];
    readonly emptied: number;
    readonly cut: number;
  })[];
  /** Copies of messages that go, as forks have them. */
  readonly copies: readonly string[];
  /** What the messages said, for sentences that retell them. */
  readonly retold: readonly string[];
  readonly blobs: readonly string[];
}

/** What is looked for afterwards, of everything that was said. */
const TEXTS_MAX = 400;
const SENTENCE_CHARS_MIN = 24;
const TEXT_CHARS_MIN = 4;
const LISTED_MAX = 100;
const ROUNDS_MAX = 3;
const HOLD_MS = 20;
const HOLD_TRIES = 250;

export function createForgetting(parts: ForgettingParts): ForgettingService {
  const { store, clock, memory } = parts;
  let running: Promise<unknown> = Promise.resolve();
  /** One after the other: two would wait for each other's sessions. */
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
    const kept = forgettings();
    if (input.query !== undefined) return listFound(input.query, call);
    const how = await chooseTargets(await reading(), parts, input);
    if (input.dry_run) return describe(await reading(), parts, how);
    const id = clock.newId();
    const own = await store.locks.hold(id);
    const holds: Hold[] = [];
    try {
      for (const target of how.targets) holds.push(await holdSoon(await reading(), target, clock));
      const planned = await planAll(await reading(), parts, how);
      const job: Job = {
        ...how,
        targets: planned.map(({ target, plan: { holes, emptied, cut } }) => ({ ...target, holes, emptied, cut })),
        blobs: [...new Set(planned.flatMap(({ entries, plan }) => blobsNamed(entries, plan)))],
        ...(call.caller === undefined ? {} : { by: call.caller.name }),
      };
      const going = planned.flatMap(({ target, entries, plan }) => goingOf(target, entries, plan, { isDry: false }));
      await kept.begin(id, JSON.stringify(job));
      const { receipt, signed } = await carryOut(id, job);
      return { dry_run: false, logs: receipt.logs, ...boundGoing(going), receipt, signed };
    } finally {
      for (const hold of holds) await hold.release();
      await own.release();
    }
  };

  /** Does a job to its end, from wherever it stands. */
  const carryOut = async (id: string, job: Job): Promise<{ receipt: ForgetReceipt; signed: SignedReceipt }> => {
    const kept = forgettings();
    let scan: Scan | undefined;
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      await apply(await reading(), parts, { id, job });
      const found = job.texts.length === 0 ? NO_SCAN : await kept.scan(job.texts);
      // The job itself stands there until it is done.
      scan = { ...found, matches: found.matches.filter(({ place }) => !place.includes(id)) };
      // Another process may have taken in, a moment before, what it had read a moment earlier.
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
      logs: job.targets.map((target) => tellLog(target, target)),
      blobs: job.blobs.length,
      scan: {
        texts: job.texts.length,
        places,
        bytes,
        matches: matches.length + more,
        elsewhere: matches.slice(0, LISTED_MAX).map(({ place, form }) => ({ place, form })),
      },
      quoted_in: matches.length === 0 ? [] : await quotedIn(await reading(), parts, job),
      backups: (await parts.backups())
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
    forget: (input, call) => inTurn(() => forget(input, call)),
    listForgettings: async () => {
      const kept = forgettings();
      const all = await kept.receipts();
      const unfinished = (await kept.unfinished()).length;
      return { forgettings: all.map((signed) => ({ ...signed, valid: parts.verify(signed) })), unfinished };
    },
    resume: () =>
      inTurn(async () => {
        for (const { id, job } of (await store.forgettings?.unfinished()) ?? []) {
          try {
            await resumeOne(id, job);
          } catch (thrown) {
            parts.warn(`what was to be forgotten is not all forgotten yet and is tried again: ${messageOf(thrown)}`);
          }
        }
      }),
    settled: async () => {
      await running;
    },
  };

  async function resumeOne(id: string, text: string): Promise<void> {
    const own = await store.locks.hold(id).catch((thrown) => {
      // Whoever began it lives.
      if (thrown instanceof RuntimeError && thrown.code === "SESSION_BUSY") return undefined;
      throw thrown;
    });
    if (own === undefined) return;
    const holds: Hold[] = [];
    try {
      // Kept by `forget`, whole or not at all.
      const job = JSON.parse(text) as Job;
      for (const target of job.targets) holds.push(await holdSoon(await reading(), target, clock));
      await carryOut(id, job);
    } finally {
      for (const hold of holds) await hold.release();
      await own.release();
    }
  }
}

const QUERY_HITS = 20;
const NO_SCAN: Scan = { places: 0, bytes: 0, matches: [], more: 0 };

type Chosen = Pick<Job, "target" | "texts" | "copies" | "retold"> & { readonly targets: readonly Target[] };

/** What a forgetting is about: which logs, and by what the rest is known. */
async function chooseTargets(reading: ForgetReading, { finder }: ForgettingParts, input: Forget): Promise<Chosen> {
  const { query_exact, agent } = input;
  if (query_exact !== undefined) {
    const finds = finder([query_exact]);
    const targets: Target[] = [];
    for await (const { entries, ...log } of everyLog(reading)) {
      if (entries.some(({ body }) => finds(JSON.stringify(body))))
        targets.push({ ...log, isAll: false, seqs: [], isCopy: false });
    }
    return { target: "text", texts: [query_exact], targets, copies: [], retold: [] };
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
    gone.push(...entries.filter((entry) => isAll || seqs.some((seq) => holdsSeq(entry, seq))));
    targets.push({ kind: "session", id, isAll, seqs, isCopy: false });
  }
  for (const id of await forksOf(reading, new Set(bySession.keys())))
    targets.push({ kind: "session", id, isAll: false, seqs: [], isCopy: true });
  const target = input.messages !== undefined ? "messages" : input.seq === undefined ? "session" : "message";
  return { target, targets, copies: copiesIn(gone), ...toLookFor(textsSaid(gone)) };
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
  return { target: isAll ? "agent" : "memory", targets, copies: [], ...toLookFor(textsSaid(gone)) };
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

/** Texts by which it is seen that nothing is left: whole short ones, and sentences of long ones, spread over all. */
function toLookFor(said: readonly string[]): Pick<Job, "texts" | "retold"> {
  const pieces = said.flatMap((text) => {
    if (text.length <= 2 * SENTENCE_CHARS_MIN) return [text.trim()];
    return sentencesOf(text).filter((sentence) => sentence.length >= SENTENCE_CHARS_MIN);
  });
  const all = [...new Set(pieces)].filter((piece) => piece.length >= TEXT_CHARS_MIN);
  const step = Math.max(1, all.length / TEXTS_MAX);
  const texts = Array.from({ length: Math.min(all.length, TEXTS_MAX) }, (_, at) => all[Math.floor(at * step)] ?? "");
  return { texts, retold: said };
}

/** How what a target's log says is judged. */
function judge(
  parts: ForgettingParts,
  chosen: Pick<Job, "texts" | "copies" | "retold" | "target">,
  target: Target,
): Forgetting {
  const copies = new Set(chosen.copies);
  const seqs = new Set(target.seqs);
  const finds = parts.finder(chosen.texts.length === 0 ? NOTHING_TO_FIND : chosen.texts);
  const isText = chosen.target === "text";
  return {
    isAll: target.isAll,
    isEverywhere: isText,
    isGone: (seq, message) => seqs.has(seq) || (copies.size > 0 && copies.has(JSON.stringify(message))),
    finds,
    says: isText ? () => false : retellingOf(chosen.retold),
    mac: parts.newMac(),
  };
}

/** Nobody writes this. */
const NOTHING_TO_FIND = ["\u{f0000}\u{f0001}\u{f0002}\u{f0003}"];

interface Planned {
  readonly target: Target;
  readonly entries: readonly AnyEntry[];
  readonly plan: LogPlan;
}

async function planAll(reading: ForgetReading, parts: ForgettingParts, chosen: Chosen): Promise<readonly Planned[]> {
  const planned: Planned[] = [];
  for (const target of chosen.targets) {
    const entries = await readLog(reading, target);
    const plan = await planTarget(entries, judge(parts, chosen, target), parts.clock.breathe);
    if (plan.changed.length > 0) planned.push({ target, entries, plan });
  }
  return planned;
}

async function describe(reading: ForgetReading, parts: ForgettingParts, chosen: Chosen): Promise<ForgetResult> {
  const planned = await planAll(reading, parts, chosen);
  const going = planned.flatMap(({ target, entries, plan }) => goingOf(target, entries, plan, { isDry: true }));
  return { dry_run: true, logs: planned.map(({ target, plan }) => tellLog(target, plan)), ...boundGoing(going) };
}

/** Does everything of a job that is not done yet. */
async function apply(
  reading: ForgetReading,
  parts: ForgettingParts,
  { id, job }: { readonly id: string; readonly job: Job },
): Promise<void> {
  for (const target of job.targets) {
    const entries = await readLog(reading, target);
    const plan = await planTarget(entries, judge(parts, job, target), parts.clock.breathe);
    if (target.kind === "session")
      await applyToSession(reading, { id, target, job, parts }, entries as readonly Entry[], plan);
    else await applyToAgent(reading, { id, target, job, parts }, entries as readonly Entry<AgentEntryBody>[], plan);
    await parts.live.renew(target.id);
  }
  await removeBlobs(reading, job.blobs);
  const ids = (kind: Target["kind"]) => job.targets.filter((one) => one.kind === kind).map((one) => one.id);
  await reading.store.purge(ids("session"));
  await reading.agents?.store.purge(ids("agent"));
  await parts.memory?.forget(
    job.targets.map((target) => ({ id: target.id, isDropped: target.isAll && target.kind === "session" })),
  );
}

interface Applying {
  readonly parts: ForgettingParts;
  readonly id: string;
  readonly target: Job["targets"][number];
  readonly job: Job;
}

async function applyToSession(
  { store }: ForgetReading,
  { id, target, job }: Applying,
  entries: readonly Entry[],
  plan: LogPlan,
): Promise<void> {
  // Planned of these entries.
  const changed = plan.changed as readonly Entry[];
  if (changed.length > 0) await store.log.rewrite(target.id, changed);
  await store.checkpoints?.remove(target.id);
  if (entries.some(({ body }) => body.kind === "forgotten" && body.forgetting_id === id)) return;
  const bodies = new Map(changed.map(({ seq, body }) => [seq, body]));
  const row = entries.reduce<ReturnType<typeof foldRow> | undefined>(
    (so, entry) => foldRow(so, target.id, { ...entry, body: bodies.get(entry.seq) ?? entry.body }),
    undefined,
  );
  const { title = "", labels = {}, last_seq = 0, archived = false } = row ?? {};
  const holes = target.holes.map(({ from_seq, to_seq, mac }) => ({ from_seq, to_seq, mac }));
  const forgotten: EntryBody = {
    kind: "forgotten",
    forgetting_id: id,
    holes,
    row: { title, labels },
    ...(job.by === undefined ? {} : { by: job.by }),
  };
  const ended: readonly EntryBody[] = target.isAll && !archived ? [{ kind: "archived" }] : [];
  await store.log.append(
    target.id,
    last_seq,
    [forgotten, ...ended].map((body) => ({ span: 1, body })),
  );
}

async function applyToAgent(
  { agents }: ForgetReading,
  { id, target, job, parts }: Applying,
  entries: readonly Entry<AgentEntryBody>[],
  plan: LogPlan,
): Promise<void> {
  if (agents === undefined) return;
  const { store, vault } = agents;
  // Planned of these entries.
  const changed = plan.changed as readonly Entry<AgentEntryBody>[];
  if (changed.length > 0) await store.log.rewrite(target.id, changed);
  const bodies = new Map(changed.map(({ seq, body }) => [seq, body]));
  const now = entries.map((entry) => ({ ...entry, body: bodies.get(entry.seq) ?? entry.body }));
  const row = now.reduce<ReturnType<typeof foldAgent> | undefined>(
    (so, entry) => foldAgent(so, target.id, entry),
    undefined,
  );
  if (row === undefined) return;
  const { recent, longterm, last_error, last_seq, agent } = row;
  if (!entries.some(({ body }) => body.kind === "forgotten" && body.forgetting_id === id)) {
    const forgotten: AgentEntryBody = {
      kind: "forgotten",
      agent,
      forgetting_id: id,
      holes: target.holes.map(({ from_seq, to_seq, mac }) => ({ from_seq, to_seq, mac })),
      ...(recent === undefined ? {} : { recent }),
      ...(longterm === undefined ? {} : { longterm }),
      ...(last_error === undefined ? {} : { last_error }),
    };
    await store.log.append(target.id, last_seq, [{ span: 1, body: forgotten }]);
  }
  const { holes } = target;
  if (vault === undefined) return;
  await vault.erase(agent, {
    finds: job.target === "text" ? parts.finder(job.texts) : () => false,
    memories: now.flatMap(({ seq, body }) =>
      body.kind === "memory_added" && isWithin(seq, holes) ? [body.number] : [],
    ),
    notes: row.note_seqs.flatMap((seq, at) => (isWithin(seq, holes) ? [at + 1] : [])),
  });
  // What was taken away is there again, as far as the log still says it.
  for (const { seq, timestamp_ms, body } of now) {
    if (body.kind === "tiers_compacted") {
      const { recent, longterm } = body;
      await vault.writeSummaries(agent, { recent, longterm, compacted_at_ms: timestamp_ms });
    } else if (!isWithin(seq, holes)) continue;
    else if (body.kind === "memory_added") {
      const { number, content } = body;
      await vault.writeMemories(agent, [{ number, content, created_at_ms: timestamp_ms }]);
    } else if (body.kind === "note_added") {
      await vault.writeNote(agent, { number: row.note_seqs.indexOf(seq) + 1, content: body.content });
    }
  }
}

function isWithin(seq: number, holes: readonly Hole[]): boolean {
  return holes.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
}

const BLOB_ID = /sha256:[0-9a-f]{64}/gu;

/** Blobs that entries named which change. */
function blobsNamed(entries: readonly AnyEntry[], { changed }: LogPlan): readonly string[] {
  const seqs = new Set(changed.map(({ seq }) => seq));
  return entries.filter(({ seq }) => seqs.has(seq)).flatMap(({ body }) => JSON.stringify(body).match(BLOB_ID) ?? []);
}

/** Takes away those blobs that nobody names any more. */
async function removeBlobs(reading: ForgetReading, blobs: readonly string[]): Promise<void> {
  if (blobs.length === 0) return;
  const left = new Set(blobs);
  for await (const { entries } of everyLog(reading)) {
    for (const { body } of entries) for (const id of JSON.stringify(body).match(BLOB_ID) ?? []) left.delete(id);
  }
  for (const id of left) await reading.store.blobs.remove(id);
}

/** Messages of logs that were not asked about and say the same. */
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
      await reading.clock.breathe();
    }
  }
  return found;
}

/** Somebody who holds a log for a moment is waited for; a turn is not. */
async function holdSoon({ store, agents }: ForgetReading, { kind, id }: Target, clock: Clock): Promise<Hold> {
  const locks = kind === "session" ? store.locks : agents?.store.locks;
  if (locks === undefined) throw new RuntimeError("SESSION_NOT_FOUND", `agent ${id} is not there`);
  const { signal } = new AbortController();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await locks.hold(id);
    } catch (thrown) {
      const isBusy = thrown instanceof RuntimeError && thrown.code === "SESSION_BUSY";
      if (!isBusy || attempt === HOLD_TRIES) throw thrown;
      await clock.sleep(HOLD_MS, signal);
    }
  }
}
