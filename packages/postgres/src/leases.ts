import { RuntimeError } from "@rkat/core/contract/error";
import type { SessionLocks } from "@rkat/core/ports/store";
import { type Connection, createLook } from "./connection.ts";
import { sql } from "./sql.ts";

export interface LeaseParts {
  readonly connection: Connection;
  readonly realm: string;
  readonly kind: string;
  readonly owner: string;
  /** How long an owner may be silent before others can take its sessions, by the database's clock. */
  readonly leaseMs: number;
  /** Notifies the holder of a session, which reacts sooner than by polling. */
  onInterrupt(sessionId: string): void;
  /** Sends the holder of a session a note. */
  onNote(sessionId: string, note: string): void;
}

export interface HeldLocks extends SessionLocks {
  /** Whether this process holds a session, as far as it knows. */
  isOurs(sessionId: string): boolean;
  interrupted(sessionId: string): void;
  noted(sessionId: string, note: string): void;
  close(): Promise<void>;
}

/** The owner of a session whose turn was left unfinished; no process has this name. */
const ABANDONED = "abandoned";
const BEATS_A_LEASE = 6;
/** An interrupt whose notification was lost is found by polling. */
const LOOK_MS = 1_000;

/**
 * The sessions that each process holds. A session's row names its owner, and one row per process has the expiry of that
 * owner, so that renewing all leases of a process updates one row.
 */
export function createSessionLocks({ connection, realm, kind, owner, leaseMs, ...parts }: LeaseParts): HeldLocks {
  const held = new Map<string, AbortController>();
  const readers = new Map<string, (note: string) => void>();
  /** Requested, without an answer yet. */
  const arriving = new Set<string>();
  /** Released here, but not yet in the database; until then no other process can take them. */
  const unreported = new Map<string, string | null>();
  /** Those whose release is being sent. */
  const freeing = new Map<string, Promise<void>>();
  const renewal = sql`
    insert into rkat.processes (realm, owner, until)
    values (${realm}, ${owner}, clock_timestamp() + ${`${leaseMs} milliseconds`}::interval)
    on conflict (realm, owner) do update set until = excluded.until`;
  let timer: NodeJS.Timeout | undefined;
  let isClosing = false;

  const beat = async (): Promise<void> => {
    // A session may be released and taken again before the answer arrives; the answer does not apply to the new hold.
    const holds = new Map([...held].filter(([id]) => !arriving.has(id)));
    const asked = await connection.query<{ id: string }>`
      with beat as (${renewal})
      select id from rkat.sessions
      where realm = ${realm} and id = any(${[...holds.keys()]}::text[])
        and (is_interrupted or owner is distinct from ${owner})`;
    // The session was taken by another process: its turn is stopped, and its appends are refused.
    for (const { id } of asked) holds.get(id)?.abort();
    for (const [id, next] of unreported) if (!held.has(id)) await free(id, next);
    keepBeating();
  };
  // The appends of the turn report an unreachable database; the next beat retries.
  const look = createLook(async () => (isClosing ? undefined : beat()));
  const keepBeating = (): void => {
    const everyMs = Math.min(LOOK_MS, leaseMs / BEATS_A_LEASE);
    timer ??= setInterval(look.request, everyMs).unref();
    if (held.size + unreported.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
  const release = async (sessionId: string, next: string | null = null): Promise<void> => {
    if (!held.delete(sessionId)) return;
    readers.delete(sessionId);
    keepBeating();
    await free(sessionId, next);
  };
  /** Releases a session; a release that cannot be sent now is sent with a later beat. */
  const free = async (sessionId: string, next: string | null): Promise<void> => {
    unreported.set(sessionId, next);
    const asked = connection.query`
      with freed as (
        update rkat.sessions set owner = ${next}, is_interrupted = false
        where realm = ${realm} and id = ${sessionId} and owner = ${owner} and folded is not null
      )
      delete from rkat.sessions
      where realm = ${realm} and id = ${sessionId} and owner = ${owner} and folded is null`;
    const over = asked.then(
      () => void unreported.delete(sessionId),
      () => {},
    );
    freeing.set(sessionId, over);
    await over;
    freeing.delete(sessionId);
    await asked;
  };
  /**
   * The owner that a session had when the statement began, if its lease had expired then. Another process may take the
   * session while this one waits for its row, and a statement that began before does not see that owner's lease.
   */
  const dead = (sessionId: string) => sql`
    select before.owner from rkat.sessions before
    where before.realm = ${realm} and before.id = ${sessionId} and not exists (
      select from rkat.processes p
      where p.realm = before.realm and p.owner = before.owner and p.until > clock_timestamp()
    )`;
  /** Called for every row of a page; concurrent calls share one statement. */
  let asking: { readonly ids: Set<string>; readonly answer: Promise<ReadonlyMap<string, boolean>> } | undefined;
  /** The sessions that have an owner, and whether its process lives. */
  const ownersOf = async (ids: ReadonlySet<string>): Promise<ReadonlyMap<string, boolean>> => {
    await Promise.resolve();
    asking = undefined;
    const rows = await connection.query<{ id: string; lives: boolean | null }>`
      select s.id, p.until > clock_timestamp() as lives
      from rkat.sessions s left join rkat.processes p on p.realm = s.realm and p.owner = s.owner
      where s.realm = ${realm} and s.id = any(${[...ids]}::text[]) and s.owner is not null`;
    return new Map(rows.map(({ id, lives }) => [id, lives === true]));
  };
  const ownerLives = async (sessionId: string): Promise<boolean | undefined> => {
    if (asking === undefined) {
      const ids = new Set<string>();
      asking = { ids, answer: ownersOf(ids) };
    }
    asking.ids.add(sessionId);
    return (await asking.answer).get(sessionId);
  };

  return {
    hold: async (sessionId) => {
      const busy = new RuntimeError("SESSION_BUSY", `session ${sessionId} is already running a turn`);
      if (held.has(sessionId)) throw busy;
      const interrupted = new AbortController();
      // Before the request, so that of two concurrent callers only one requests it.
      held.set(sessionId, interrupted);
      arriving.add(sessionId);
      let wasAbandoned: boolean;
      try {
        // On another connection it could overtake the release of the last hold, and be released by it.
        await freeing.get(sessionId);
        unreported.delete(sessionId);
        const taken = await connection.query<{ last: string | null }>`
          with beat as (${renewal}),
            before as (select owner from rkat.sessions where realm = ${realm} and id = ${sessionId})
          insert into rkat.sessions as s (realm, id, kind, owner) values (${realm}, ${sessionId}, ${kind}, ${owner})
          on conflict (realm, id) do update set owner = ${owner}, is_interrupted = false
          where s.owner is null or s.owner = ${owner} or s.owner = (${dead(sessionId)})
          returning (select before.owner from before) as last`;
        if (taken[0] === undefined) throw busy;
        wasAbandoned = taken[0].last !== null && taken[0].last !== owner;
      } catch (error) {
        held.delete(sessionId);
        // It may have been taken before the database was lost.
        if (error !== busy) unreported.set(sessionId, null);
        throw error;
      } finally {
        arriving.delete(sessionId);
        keepBeating();
      }
      return {
        interrupted: interrupted.signal,
        wasAbandoned,
        onNote: (listener) => void readers.set(sessionId, listener),
        release: async () => {
          if (held.get(sessionId) === interrupted) await release(sessionId);
        },
        abandon: async () => {
          if (held.get(sessionId) === interrupted) await release(sessionId, ABANDONED);
        },
      };
    },
    isHeld: async (sessionId) => (await ownerLives(sessionId)) === true,
    isAbandoned: async (sessionId) => (await ownerLives(sessionId)) === false,
    interrupt: async (sessionId) => {
      const own = held.get(sessionId);
      if (own !== undefined) return own.abort();
      const onProgress = await connection.query`
        update rkat.sessions set is_interrupted = true
        where realm = ${realm} and id = ${sessionId} and owner is not null
        returning id`;
      if (onProgress.length > 0) parts.onInterrupt(sessionId);
    },
    note: async (sessionId, note) => parts.onNote(sessionId, note),
    noted: (sessionId, note) => readers.get(sessionId)?.(note),
    isOurs: (sessionId) => held.has(sessionId),
    interrupted: (sessionId) => {
      // The notification may concern a turn that has ended since; the row decides.
      if (held.has(sessionId)) look.request();
    },
    close: async () => {
      isClosing = true;
      const onProgress = await Promise.allSettled([...held.keys()].map((sessionId) => release(sessionId)));
      clearInterval(timer);
      await look.settled();
      // In an unreachable database our lease expires by itself.
      if (onProgress.some(({ status }) => status === "rejected")) return;
      // Also deletes the rows of processes that died a day ago or longer.
      await connection
        .runOnce(
          (query) => query`
            delete from rkat.processes where realm = ${realm}
              and (owner = ${owner} or until < clock_timestamp() - interval '1 day')`,
        )
        .catch(() => {});
    },
  };
}
