import { RuntimeError } from "@rkat/core/contract/error";
import type { SessionLocks } from "@rkat/core/ports/store";
import { type Connection, createLook } from "./connection.ts";
import { sql } from "./sql.ts";

export interface LeaseParts {
  readonly connection: Connection;
  readonly realm: string;
  readonly kind: string;
  readonly owner: string;
  /** How long an owner may be silent before what it holds can be taken, by the database's clock. */
  readonly leaseMs: number;
  /** Leaves a word for the process that holds a session, which it hears sooner than it looks. */
  onInterrupt(sessionId: string): void;
}

export interface HeldLocks extends SessionLocks {
  /** Whether this process holds a session, as far as it knows. */
  isOurs(sessionId: string): boolean;
  /** Takes in that somebody asked for an interrupt. */
  interrupted(sessionId: string): void;
  close(): Promise<void>;
}

const BEATS_A_LEASE = 6;
/** An interrupt that nobody told is seen when its holder looks. */
const LOOK_MS = 1_000;

/**
 * Who holds what. A session's row names its owner, and one row a process says until when that owner lives: to renew
 * everything a process holds is one statement of one row, however much it is.
 */
export function createSessionLocks({ connection, realm, kind, owner, leaseMs, ...parts }: LeaseParts): HeldLocks {
  const held = new Map<string, AbortController>();
  /** Asked for, and nobody knows yet whose they are. */
  const arriving = new Set<string>();
  /** No longer held here, and the database could not be told: as long as this process lives, nobody else could take them. */
  const unreported = new Set<string>();
  /** Those that are being told of. */
  const freeing = new Map<string, Promise<void>>();
  const renewal = sql`
    insert into rkat.processes (realm, owner, until)
    values (${realm}, ${owner}, clock_timestamp() + ${`${leaseMs} milliseconds`}::interval)
    on conflict (realm, owner) do update set until = excluded.until`;
  let timer: NodeJS.Timeout | undefined;
  let isClosing = false;

  const beat = async (): Promise<void> => {
    // A session may be let go and taken again before the answer comes, and that hold is not what it speaks of.
    const holds = new Map([...held].filter(([id]) => !arriving.has(id)));
    const asked = await connection.query<{ id: string }>`
      with beat as (${renewal})
      select id from rkat.sessions
      where realm = ${realm} and id = any(${[...holds.keys()]}::text[])
        and (is_interrupted or owner is distinct from ${owner})`;
    // What was taken is lost: its turn is stopped, and its appends are refused.
    for (const { id } of asked) holds.get(id)?.abort();
    for (const id of unreported) if (!held.has(id)) await free(id);
    keepBeating();
  };
  // A database that is away is told of by the turn's own appends; the next beat tries again.
  const look = createLook(async () => (isClosing ? undefined : beat()));
  const keepBeating = (): void => {
    const everyMs = Math.min(LOOK_MS, leaseMs / BEATS_A_LEASE);
    timer ??= setInterval(look.request, everyMs).unref();
    if (held.size + unreported.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
  const release = async (sessionId: string): Promise<void> => {
    if (!held.delete(sessionId)) return;
    keepBeating();
    await free(sessionId);
  };
  /** Lets others have a session; what cannot be told now is told with a later beat. */
  const free = async (sessionId: string): Promise<void> => {
    unreported.add(sessionId);
    const asked = connection.query`
      with freed as (
        update rkat.sessions set owner = null, is_interrupted = false
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
   * The owner that a session had when the statement began, if it was dead then. Another may take the session while this one
   * waits for its row, and that it lives is not seen by a statement that began before.
   */
  const dead = (sessionId: string) => sql`
    select before.owner from rkat.sessions before
    where before.realm = ${realm} and before.id = ${sessionId} and not exists (
      select from rkat.processes p
      where p.realm = before.realm and p.owner = before.owner and p.until > clock_timestamp()
    )`;
  /** Asked of every row of a page: all that are asked at once are one statement. */
  let asking: { readonly ids: Set<string>; readonly answer: Promise<ReadonlySet<string>> } | undefined;
  const whichAreHeld = async (ids: ReadonlySet<string>): Promise<ReadonlySet<string>> => {
    await Promise.resolve();
    asking = undefined;
    const rows = await connection.query<{ id: string }>`
      select s.id from rkat.sessions s join rkat.processes p on p.realm = s.realm and p.owner = s.owner
      where s.realm = ${realm} and s.id = any(${[...ids]}::text[]) and p.until > clock_timestamp()`;
    return new Set(rows.map(({ id }) => id));
  };

  return {
    hold: async (sessionId) => {
      const busy = new RuntimeError("SESSION_BUSY", `session ${sessionId} is already running a turn`);
      if (held.has(sessionId)) throw busy;
      const interrupted = new AbortController();
      // Before it is asked for: of two that ask here at once, one does.
      held.set(sessionId, interrupted);
      arriving.add(sessionId);
      try {
        // On another connection it could come before what frees the last hold, and be freed by that.
        await freeing.get(sessionId);
        unreported.delete(sessionId);
        const taken = await connection.query`
          with beat as (${renewal})
          insert into rkat.sessions as s (realm, id, kind, owner) values (${realm}, ${sessionId}, ${kind}, ${owner})
          on conflict (realm, id) do update set owner = ${owner}, is_interrupted = false
          where s.owner is null or s.owner = ${owner} or s.owner = (${dead(sessionId)})
          returning s.id`;
        if (taken.length === 0) throw busy;
      } catch (error) {
        held.delete(sessionId);
        // It may have been taken before the database was lost.
        if (error !== busy) unreported.add(sessionId);
        throw error;
      } finally {
        arriving.delete(sessionId);
        keepBeating();
      }
      return {
        interrupted: interrupted.signal,
        release: async () => {
          if (held.get(sessionId) === interrupted) await release(sessionId);
        },
      };
    },
    isHeld: async (sessionId) => {
      if (asking === undefined) {
        const ids = new Set<string>();
        asking = { ids, answer: whichAreHeld(ids) };
      }
      asking.ids.add(sessionId);
      return (await asking.answer).has(sessionId);
    },
    interrupt: async (sessionId) => {
      const own = held.get(sessionId);
      if (own !== undefined) return own.abort();
      const onProgress = await connection.query`
        update rkat.sessions set is_interrupted = true
        where realm = ${realm} and id = ${sessionId} and owner is not null
        returning id`;
      if (onProgress.length > 0) parts.onInterrupt(sessionId);
    },
    isOurs: (sessionId) => held.has(sessionId),
    interrupted: (sessionId) => {
      // The word may be of a turn that has ended since; the row knows.
      if (held.has(sessionId)) look.request();
    },
    close: async () => {
      isClosing = true;
      const onProgress = await Promise.allSettled([...held.keys()].map(release));
      clearInterval(timer);
      await look.settled();
      // A database that is away forgets us by itself.
      if (onProgress.some(({ status }) => status === "rejected")) return;
      // With it go those that ended without a word, a day ago or longer.
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
