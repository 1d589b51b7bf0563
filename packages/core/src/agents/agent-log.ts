import { createHash } from "node:crypto";
import { type AgentRow, foldAgent } from "../agent-memory/tiers.ts";
import type { AgentEntryBody, AgentEntryBodyOf } from "../contract/agent.ts";
import type { Entry } from "../contract/entry.ts";
import { hasCode, messageOf } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hold, SessionLocks, Store } from "../ports/store.ts";
import type { Vault, VaultMemory, VaultTexts } from "../ports/vault.ts";

export type AgentStore = Store<AgentEntryBody, AgentRow>;

/** The log of one agent. Several callers and processes may append; the log orders their entries. */
export interface AgentLog {
  readonly id: string;
  row(): Promise<AgentRow | undefined>;
  /** Appends the entries that `make` returns for the current number of memories; resolves with the durable row. */
  append(make: (count: number) => readonly AgentEntryBody[]): Promise<AgentRow>;
  /** Memories by number, both ends inclusive. */
  memories(from: number, to: number): Promise<readonly VaultMemory[]>;
  entriesAt(seqs: readonly number[]): Promise<readonly Entry<AgentEntryBody>[]>;
}

interface Job extends PromiseWithResolvers<AgentRow> {
  readonly make: (count: number) => readonly AgentEntryBody[];
}

/** At most this many waiting appends are written together. */
const JOBS_MAX = 256;
/** The newest memories are cached; a compaction needs no others. */
const KEPT_MAX = 512;
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

export function createAgentLog(name: string, { store, clock }: { store: AgentStore; clock: Clock }): AgentLog {
  const id = agentId(name);
  const waiting: Job[] = [];
  let isPumping = false;
  let kept: VaultMemory[] = [];
  /** The erasure these memories reflect. */
  let keptSince: number | undefined;

  const keep = (memories: readonly VaultMemory[]): void => {
    const follows = (kept.at(-1)?.number ?? -1) + 1 === memories[0]?.number;
    kept = [...(follows ? kept : []), ...memories].slice(-KEPT_MAX);
  };

  const write = async (jobs: readonly Job[]): Promise<void> => {
    const hold = await holdSoon(store, id, clock);
    try {
      let row = await store.sessions.get(id);
      let count = row?.count ?? 0;
      const made = jobs.map(({ make }) => {
        const bodies = make(count);
        count += bodies.filter(({ kind }) => kind === "memory_added").length;
        return bodies;
      });
      const entries = await store.log.append(
        id,
        row?.last_seq ?? 0,
        made.flat().map((body) => ({ span: 1, body })),
      );
      const rest = [...entries];
      for (const [at, bodies] of made.entries()) {
        for (const entry of rest.splice(0, bodies.length)) row = foldAgent(row, id, entry);
        if (row !== undefined) jobs[at]?.resolve(row);
      }
      keep(memoriesIn(entries));
    } finally {
      await hold.release();
    }
  };

  const pump = async (): Promise<void> => {
    isPumping = true;
    while (waiting.length > 0) {
      const jobs = waiting.splice(0, JOBS_MAX);
      try {
        await write(jobs);
      } catch (thrown) {
        for (const job of jobs) job.reject(thrown);
      }
    }
    isPumping = false;
  };

  return {
    id,
    row: () => store.sessions.get(id),
    append: (make) => {
      const job = { make, ...Promise.withResolvers<AgentRow>() };
      waiting.push(job);
      if (!isPumping) void pump();
      return job.promise;
    },
    memories: async (from, to) => {
      const row = await store.sessions.get(id);
      if (keptSince !== row?.forgotten_seq) kept = [];
      keptSince = row?.forgotten_seq;
      const isKept = from >= (kept[0]?.number ?? ENTRIES_MAX) && to <= (kept.at(-1)?.number ?? 0);
      if (isKept) return kept.filter(({ number }) => number >= from && number <= to);
      const place = row?.places.findLast(({ number }) => number <= from);
      const start = place === undefined ? 1 : place.seq + from - place.number;
      const found = memoriesIn(await store.log.read(id, start, ENTRIES_MAX));
      keep(found);
      return found.filter(({ number }) => number >= from && number <= to);
    },
    entriesAt: async (seqs) => (await Promise.all(seqs.map((seq) => store.log.read(id, seq, 1)))).flat(),
  };
}

function memoriesIn(entries: readonly Entry<AgentEntryBody>[]): readonly VaultMemory[] {
  return entries
    .filter((entry): entry is Entry<AgentEntryBodyOf<"memory_added">> => entry.body.kind === "memory_added")
    .map(({ timestamp_ms: created_at_ms, body: { number, content, metadata, file } }) => ({
      number,
      content,
      created_at_ms,
      metadata,
      file,
    }));
}

export function isCompaction(entry: Entry<AgentEntryBody>): entry is Entry<AgentEntryBodyOf<"tiers_compacted">> {
  return entry.body.kind === "tiers_compacted";
}

const HOLD_WAIT_MS = 10;
const HOLD_TRIES_MAX = 1_000;

/** Waits for a caller that holds the log briefly, for example to add a memory. */
export async function holdSoon(
  { locks }: Pick<AgentStore, "locks">,
  id: string,
  clock: Clock,
  triesMax = HOLD_TRIES_MAX,
): Promise<Hold> {
  const { signal } = new AbortController();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await locks.hold(id);
    } catch (thrown) {
      const isBusy = hasCode(thrown, "SESSION_BUSY");
      if (!isBusy || attempt === triesMax) throw thrown;
      await clock.sleep(HOLD_WAIT_MS, signal);
    }
  }
}

/** The files of one agent. They follow the log: a failed write is reported and never affects the log. */
export interface AgentFiles {
  /** Once per process: imports files that a person added and writes those a crash left out. */
  ready(): Promise<void>;
  wroteMemories(row: AgentRow, added: number): Promise<void>;
  wroteNote(note: Parameters<Vault["writeNote"]>[1]): Promise<void>;
  compacted(row: AgentRow): Promise<void>;
  texts(): Promise<VaultTexts>;
}

interface AgentFilesParts {
  readonly vault: Vault | undefined;
  readonly log: AgentLog;
  readonly locks: SessionLocks;
  readonly report: (what: string) => void;
  readonly add: (found: Awaited<ReturnType<Vault["found"]>>) => Promise<unknown>;
}

const NO_TEXTS: VaultTexts = { commands: [], notes: [] };

export function createAgentFiles(name: string, { vault, log, locks, report, add }: AgentFilesParts): AgentFiles {
  let prepared: Promise<void> | undefined;

  const attempt = async <T>(work: (files: Vault) => Promise<T>, otherwise: T): Promise<T> => {
    if (vault === undefined) return otherwise;
    try {
      return await work(vault);
    } catch (thrown) {
      report(`The files under .rkat/agents/${name} could not be used (${messageOf(thrown)})`);
      return otherwise;
    }
  };
  const takeIn = async (files: Vault): Promise<void> => {
    // Editors end a file with a line break that is no part of the memory.
    const found = (await files.found(name)).map((one) => ({ ...one, content: one.content.trimEnd() }));
    if (found.length === 0) return;
    const row = await log.row();
    // A process may have died after it appended them.
    const known = new Map((row === undefined ? [] : await log.memories(1, row.count)).map((one) => [keyOf(one), one]));
    const taken = found.flatMap((one) => known.get(keyOf(one)) ?? []);
    if (taken.length > 0) await files.writeMemories(name, taken);
    const fresh = found.filter((one) => !known.has(keyOf(one)));
    if (fresh.length === 0) return;
    await add(fresh);
    report(`${fresh.length} ${fresh.length === 1 ? "memory" : "memories"} taken in from files`);
  };
  /** One process at a time imports files; another skips the import. */
  const takeInAlone = async (files: Vault): Promise<void> => {
    const lock = agentId(name, "files of agent");
    if (await locks.isHeld(lock)) return;
    const hold = await locks.hold(lock);
    try {
      await takeIn(files);
    } finally {
      await hold.release();
    }
  };
  const compacted = ({ recent, longterm, compacted_at_ms }: AgentRow): Promise<void> =>
    attempt(async (files) => {
      if (recent === undefined || compacted_at_ms === undefined) return;
      await files.writeSummaries(name, { recent, longterm, compacted_at_ms });
    }, undefined);

  return {
    ready: () => {
      prepared ??= attempt(async (files) => {
        await takeInAlone(files);
        const row = await log.row();
        if (row === undefined) return;
        const written = await files.written(name, row.count);
        if (written < row.count) await files.writeMemories(name, await log.memories(written + 1, row.count));
        await compacted(row);
      }, undefined);
      return prepared;
    },
    wroteMemories: (row, added) =>
      attempt(
        async (files) => files.writeMemories(name, await log.memories(row.count - added + 1, row.count)),
        undefined,
      ),
    wroteNote: (note) => attempt((files) => files.writeNote(name, note), undefined),
    compacted,
    texts: () => attempt((files) => files.texts(name), NO_TEXTS),
  };
}

function keyOf({ file, content }: { readonly file?: string | undefined; readonly content: string }): string {
  return JSON.stringify([file, content]);
}

/** The log's id, derived from the agent's name. */
export function agentId(name: string, purpose = "agent"): string {
  const bytes = createHash("sha256").update(`${purpose} ${name}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
