import { foldAgent } from "../agent-memory/tiers.ts";
import type { AgentPlace } from "../agents/agent-operations.ts";
import type { AgentEntryBody } from "../contract/agent.ts";
import type { Entry, EntryBody } from "../contract/entry.ts";
import type { ForgetReceipt } from "../contract/forget.ts";
import { defined } from "../contract/json.ts";
import type { ScheduleEntryBody, ScheduleEntryOf } from "../contract/wire/schedule.ts";
import type { SessionMemory } from "../memory/session-memory.ts";
import type { Clock } from "../ports/clock.ts";
import type { SignedReceipt, Store } from "../ports/store.ts";
import type { Configuration } from "../runtime/configuration.ts";
import { foldSchedule, type ScheduleRow, type ScheduleStore } from "../schedules/schedule-row.ts";
import type { LiveSessions } from "../sessions/live-sessions.ts";
import { type Forgetting, type Hole, restates } from "../state/forgetting.ts";
import { foldRow } from "../state/session-row.ts";
import {
  type AnyEntry,
  everyLog,
  type ForgetReading,
  type LogPlan,
  planTarget,
  readLog,
  type Target,
} from "./forget-logs.ts";

export interface ForgettingParts {
  readonly store: Store;
  readonly live: Pick<LiveSessions, "renew">;
  readonly clock: Clock;
  readonly memory: SessionMemory | undefined;
  readonly agents: () => Promise<AgentPlace | undefined>;
  readonly schedules: () => Promise<ScheduleStore | undefined>;
  /** Returns whether a text contains one of the given texts, in any form. */
  readonly finder: (texts: readonly string[]) => (text: string | Uint8Array) => boolean;
  /** A keyed hash with a key that is never stored. */
  readonly newMac: () => (text: string) => string;
  readonly verify: (signed: SignedReceipt) => boolean;
  /** The realm's own settings, of which those with a text are removed. */
  readonly configuration: Pick<Configuration<unknown>, "saying" | "erase">;
  /** Ends the background jobs of a session, and deletes their output. */
  eraseJobs(sessionId: string): Promise<void>;
  /** Overwrites a text in the output of background jobs. */
  eraseJobText(finds: (text: Uint8Array) => boolean): Promise<void>;
  readonly warn: (sentence: string) => void;
}

/** An erasure job, stored until it is done. */
export interface Job {
  readonly target: ForgetReceipt["target"];
  readonly by?: string;
  readonly texts: readonly string[];
  /** Also searched for, in derived data. */
  readonly targets: readonly (Target & {
    readonly holes: readonly Hole[];
    readonly emptied: number;
    readonly cut: number;
  })[];
  /** Copies of erased messages, as forks have them. */
  readonly copies: readonly string[];
  /** Blobs with the text: messages that name one are erased with it. */
  readonly foundBlobs: readonly string[];
  /** The erased texts, to find sentences that restate them. */
  readonly restated: readonly string[];
  readonly blobs: readonly string[];
  /** Settings of the realm's configuration with the text. */
  readonly settings?: number;
}

/** An erasure before it is planned. */
export type Chosen = Pick<Job, "target" | "texts" | "copies" | "restated" | "foundBlobs"> & {
  readonly targets: readonly Target[];
};

/** How the entries of a target's log are judged. */
function judge(
  parts: ForgettingParts,
  chosen: Pick<Job, "texts" | "copies" | "restated" | "target" | "foundBlobs">,
  target: Target,
): Forgetting {
  const copies = new Set(chosen.copies);
  const seqs = new Set(target.seqs);
  // Where the whole log is erased, texts are not searched: for many sessions that would take longest.
  const finds = target.isAll ? () => false : parts.finder(chosen.texts.length === 0 ? NOTHING_TO_FIND : chosen.texts);
  const isText = chosen.target === "text";
  return {
    isAll: target.isAll,
    isEverywhere: isText,
    isGone: (seq, message) => {
      if (seqs.has(seq)) return true;
      if (copies.size + chosen.foundBlobs.length === 0) return false;
      const said = JSON.stringify(message);
      return copies.has(said) || chosen.foundBlobs.some((id) => said.includes(id));
    },
    finds,
    says: isText ? () => false : restates(chosen.restated),
    mac: parts.newMac(),
  };
}

/** A text that never occurs. */
const NOTHING_TO_FIND = ["\u{f0000}\u{f0001}\u{f0002}\u{f0003}"];

export interface Planned {
  readonly target: Target;
  readonly entries: readonly AnyEntry[];
  readonly plan: LogPlan;
}

export async function planAll(
  reading: ForgetReading,
  parts: ForgettingParts,
  chosen: Chosen,
): Promise<readonly Planned[]> {
  const planned: Planned[] = [];
  for (const target of chosen.targets) {
    const entries = await readLog(reading, target);
    const plan = await planTarget(entries, judge(parts, chosen, target), parts.clock.yieldToEventLoop);
    // Also an empty one is recorded as erased, or it would stay due for ever.
    if (plan.changed.length > 0 || chosen.target === "sessions") planned.push({ target, entries, plan });
  }
  return planned;
}

export async function apply(
  reading: ForgetReading,
  parts: ForgettingParts,
  { id, job }: { readonly id: string; readonly job: Job },
): Promise<void> {
  // First: what ends meanwhile must not bring the text back.
  if (job.target === "text") await parts.eraseJobText(parts.finder(job.texts));
  for (const target of job.targets) {
    if (target.kind === "session" && target.isAll) await parts.eraseJobs(target.id);
    const entries = await readLog(reading, target);
    const plan = await planTarget(entries, judge(parts, job, target), parts.clock.yieldToEventLoop);
    if (target.kind === "session")
      await applyToSession(reading, { id, target, job, parts }, entries as readonly Entry[], plan);
    else if (target.kind === "agent")
      await applyToAgent(reading, { id, target, job, parts }, entries as readonly Entry<AgentEntryBody>[], plan);
    else await applyToSchedule(reading, target, entries as readonly Entry<ScheduleEntryBody>[], plan);
    await parts.live.renew(target.id);
  }
  for (const { kind, id: session, isAll } of job.targets)
    if (kind === "session" && isAll) await reading.store.shred?.(session);
  await removeBlobs(reading, job.blobs);
  if ((job.settings ?? 0) > 0) await parts.configuration.erase(parts.finder(job.texts));
  const ids = (kind: Target["kind"]) => job.targets.filter((one) => one.kind === kind).map((one) => one.id);
  await reading.store.purge(ids("session"));
  await reading.agents?.store.purge(ids("agent"));
  await reading.schedules?.purge(ids("schedule"));
  const indexed = job.targets.filter(({ kind }) => kind !== "schedule");
  await parts.memory?.forget(indexed.map(({ id, kind, isAll }) => ({ id, isDropped: isAll && kind === "session" })));
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
  const changed = plan.changed as readonly Entry[]; // Planned from these entries.
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
    ...(target.isAll ? { whole: true as const } : {}),
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
  const { store, vault, eraseFiles = vault?.erase } = agents;
  const changed = plan.changed as readonly Entry<AgentEntryBody>[]; // Planned from these entries.
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
      ...defined({ recent, longterm, last_error }),
    };
    await store.log.append(target.id, last_seq, [{ span: 1, body: forgotten }]);
  }
  const { holes } = target;
  await eraseFiles?.(agent, {
    finds: job.target === "text" ? parts.finder(job.texts) : () => false,
    memories: now.flatMap(({ seq, body }) =>
      body.kind === "memory_added" && isWithin(seq, holes) ? [body.number] : [],
    ),
    notes: row.note_seqs.flatMap((seq, at) => (isWithin(seq, holes) ? [at + 1] : [])),
  });
  if (vault === undefined) return;
  // Rebuilt from the rest of the log.
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

/** A schedule that contains a forgotten text in what it does is deleted: what is left would do something else. */
async function applyToSchedule(
  { schedules }: ForgetReading,
  target: Job["targets"][number],
  entries: readonly Entry<ScheduleEntryBody>[],
  plan: LogPlan,
): Promise<void> {
  const changed = plan.changed as readonly Entry<ScheduleEntryBody>[]; // Planned from these entries.
  if (changed.length > 0) await schedules?.log.rewrite(target.id, changed);
  const bodies = new Map(changed.map(({ seq, body }) => [seq, body]));
  // A process that was killed after the rewrite left only the holes of its job.
  const isErased = (seq: number): boolean => bodies.has(seq) || isWithin(seq, target.holes);
  const now = entries.map((entry) => ({ ...entry, body: bodies.get(entry.seq) ?? entry.body }));
  const row = now.reduce<ScheduleRow | undefined>((so, entry) => foldSchedule(so, target.id, entry), undefined);
  if (row === undefined) return;
  const isDeleted = isErased(row.set_seq);
  const { spec, caller, next_due_ms } = row;
  const phased = now.findLast(({ body }) => body.kind === "schedule_phase");
  const added: ScheduleEntryBody[] = row.open
    .filter(({ set_seq }) => isErased(set_seq))
    .map(({ occurrence_id }) => ({
      kind: "occurrence_ended",
      occurrence_id,
      phase: "skipped",
      failure_detail: ERASED,
    }));
  if (isDeleted) {
    added.push({ kind: "schedule_set", spec, caller });
    added.push({ kind: "schedule_phase", phase: "deleted", reason: ERASED });
  } else if (phased !== undefined && isErased(phased.seq)) {
    added.push({ ...(phased.body as ScheduleEntryOf<"schedule_phase">), next_due_ms }); // As it was found.
  }
  if (added.length > 0)
    await schedules?.log.append(
      target.id,
      row.last_seq,
      added.map((body) => ({ span: 1, body })),
    );
}

const ERASED = "it contained a text that was forgotten";

function isWithin(seq: number, holes: readonly Hole[]): boolean {
  return holes.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq);
}

const BLOB_ID = /sha256:[0-9a-f]{64}/gu;

export function blobsNamed(entries: readonly AnyEntry[], { changed }: LogPlan): readonly string[] {
  const seqs = new Set(changed.map(({ seq }) => seq));
  return entries.filter(({ seq }) => seqs.has(seq)).flatMap(({ body }) => JSON.stringify(body).match(BLOB_ID) ?? []);
}

async function removeBlobs(reading: ForgetReading, blobs: readonly string[]): Promise<void> {
  if (blobs.length === 0) return;
  const left = new Set(blobs);
  for await (const { entries } of everyLog(reading)) {
    for (const { body } of entries) {
      for (const id of JSON.stringify(body).match(BLOB_ID) ?? []) left.delete(id);
      await reading.clock.yieldToEventLoop();
    }
  }
  for (const id of left) await reading.store.blobs.remove(id);
}
