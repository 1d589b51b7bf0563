import { RuntimeError } from "@rkat/core/contract/error";
import type { SessionLocks } from "@rkat/core/ports/store";
import { bootAndNamespace, startOf } from "@rkat/core/tools/process-identity";
import { openPrivateDb } from "../tables/private-db.ts";
import { DamagedDb } from "../tables/table-file.ts";

interface Lease {
  readonly owner: Owner;
  /** Counts up while the owner lives, for those who cannot look its process up. */
  readonly beat: number;
  readonly interrupt: boolean;
  /** Its owner left it with work unfinished. */
  readonly isAbandoned?: true;
  /** Notes of others that its owner has not read. */
  readonly notes?: readonly string[];
}

/** Named rights that one process has at a time. Nothing here survives a reboot, and nothing needs to. */
export interface Leases {
  /**
   * Takes a right that is free, or abandoned by an owner that died; false when someone has it. An owner that cannot be looked up counts
   * as dead after a silence, unless `from` says otherwise: it may only have stood still.
   */
  take(name: string, from?: "dead" | "silent"): "free" | "abandoned" | false;
  /** How often a right was taken from an owner that did not give it. What is written says it: a later number wins. */
  takeovers(): number;
  /** Whether a right that was taken here is still ours, as of now. */
  isOurs(name: string): boolean;
  isTaken(name: string): boolean;
  give(name: string): void;
  /** Gives it so that it counts as that of a process that has ended. */
  abandon(name: string): void;
  /** Whether it was abandoned, or its owner ended without giving it. */
  isAbandoned(name: string): boolean;
  /** Leaves a message for the owner. */
  interrupt(name: string): void;
  /** Leaves the owner a note, unless many wait; it is left again. */
  note(name: string, note: string): void;
  /** Takes the notes for us. */
  takeNotes(name: string): readonly string[];
  /** Whether another process left a message, or took our right. */
  isInterrupted(name: string): boolean;
  /** Tells those who cannot look our process up that we live. */
  beat(name: string): void;
  close(): Promise<void>;
}

/** A silent owner that cannot be looked up is given this long, by our own steady clock. */
const SILENCE_MS_MAX = 30_000;

const TAKEOVERS = "takeovers";

export interface LeaseOptions {
  readonly path: string;
  readonly self: Owner;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly steadyNow: () => number;
  /** Whether a process id is in use, if start times cannot be read. */
  readonly signal: (pid: number) => boolean;
  readonly silenceMsMax?: number | undefined;
  /** Receives damage and how it was handled. */
  readonly warn?: (sentence: string) => void;
}

const NOTES_MAX = 100;
/** A failed release is retried this often. */
const GIVE_AGAIN_MS = 250;

export function openLeases(options: LeaseOptions): Leases {
  const { path, self, steadyNow, signal, silenceMsMax = SILENCE_MS_MAX, warn = () => {} } = options;
  const leases = openPrivateDb<Lease | number, string>(path, { noSync: true, encoding: "json" }, warn);
  const leaseAt = (name: string): Lease | undefined => {
    const value = leases.get(name);
    return typeof value === "number" ? undefined : value;
  };
  const takeovers = (): number => {
    const value = leases.get(TAKEOVERS);
    return typeof value === "number" ? value : 0;
  };
  /** Read with every append, and nearly always unchanged. */
  let counted: { readonly stamp: object; readonly takeovers: number } | undefined;
  const takeoversNow = (): number => {
    const stamp = leases.stamp();
    if (counted?.stamp !== stamp) counted = { stamp, takeovers: takeovers() };
    return counted.takeovers;
  };
  /** Own leases to release as soon as the disk works again. */
  const owed = new Map<string, (name: string) => void>();
  let giving: NodeJS.Timeout | undefined;
  const heartbeats = new Map<string, { readonly beat: number; readonly atMs: number }>();
  const isOurs = ({ owner }: Lease): boolean => owner.instance === self.instance && owner.pid === self.pid;

  const isHeld = (name: string, lease: Lease | undefined, from: "dead" | "silent" = "silent"): boolean => {
    if (lease === undefined || lease.isAbandoned === true || (owed.has(name) && isOurs(lease))) return false;
    const alive = isAlive(lease.owner, self, signal);
    if (alive !== undefined || from === "dead") return alive ?? true;
    const last = heartbeats.get(name);
    if (last === undefined || last.beat !== lease.beat) {
      heartbeats.set(name, { beat: lease.beat, atMs: steadyNow() });
      return true;
    }
    return steadyNow() - last.atMs < silenceMsMax;
  };

  /** A damaged file is started anew. */
  const soundly = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof DamagedDb)) throw error;
      warn(`${error.message}; it is begun anew`);
      leases.renew();
      return work();
    }
  };
  const writing = <T>(work: () => T): T => soundly(() => leases.transactionSync(work));
  const giveNow = (name: string): void =>
    writing(() => {
      const lease = leaseAt(name);
      if (lease !== undefined && isOurs(lease)) leases.remove(name);
    });
  const abandonNow = (name: string): void =>
    writing(() => {
      const lease = leaseAt(name);
      if (lease !== undefined && isOurs(lease)) leases.put(name, { ...lease, isAbandoned: true });
    });
  const leave = (name: string, now: (name: string) => void): void => {
    try {
      now(name);
      owed.delete(name);
    } catch {
      // The caller continues; the lease is free for this process at once, and for others when the disk works again.
      owed.set(name, now);
    }
    if (owed.size === 0) clearInterval(giving);
    giving = owed.size === 0 ? undefined : (giving ?? setInterval(giveOwed, GIVE_AGAIN_MS).unref());
  };
  const giveOwed = (): void => {
    for (const [name, now] of [...owed]) leave(name, now);
  };

  return {
    take: (name, from) => {
      const taken = writing(() => {
        const lease = leaseAt(name);
        if (isHeld(name, lease, from)) return false;
        if (lease !== undefined) leases.put(TAKEOVERS, takeovers() + 1);
        leases.put(name, { owner: self, beat: 0, interrupt: false });
        return lease === undefined ? "free" : "abandoned";
      });
      // Held again only once it is written: until then it is still to be released.
      if (taken) owed.delete(name);
      return taken;
    },
    takeovers: () => soundly(takeoversNow),
    isOurs: (name) =>
      soundly(() => {
        const lease = leaseAt(name);
        return lease !== undefined && isOurs(lease);
      }),
    isTaken: (name) => soundly(() => isHeld(name, leaseAt(name))),
    give: (name) => leave(name, giveNow),
    abandon: (name) => leave(name, abandonNow),
    isAbandoned: (name) =>
      soundly(() => {
        const lease = leaseAt(name);
        return lease !== undefined && !isHeld(name, lease);
      }),
    interrupt: (name) =>
      writing(() => {
        const lease = leaseAt(name);
        if (lease !== undefined) leases.put(name, { ...lease, interrupt: true });
      }),
    note: (name, note) =>
      writing(() => {
        const lease = leaseAt(name);
        const { notes = [] } = lease ?? {};
        if (lease === undefined || notes.includes(note) || notes.length >= NOTES_MAX) return;
        leases.put(name, { ...lease, notes: [...notes, note] });
      }),
    takeNotes: (name) => {
      if (soundly(() => leaseAt(name)?.notes) === undefined) return [];
      return writing(() => {
        const lease = leaseAt(name);
        if (lease === undefined || !isOurs(lease)) return [];
        const { notes = [], ...rest } = lease;
        leases.put(name, rest);
        return notes;
      });
    },
    isInterrupted: (name) =>
      soundly(() => {
        const lease = leaseAt(name);
        return lease === undefined || !isOurs(lease) || lease.interrupt;
      }),
    beat: (name) =>
      writing(() => {
        const lease = leaseAt(name);
        if (lease !== undefined && isOurs(lease)) leases.put(name, { ...lease, beat: lease.beat + 1 });
      }),
    close: async () => {
      giveOwed();
      clearInterval(giving);
      await leases.close();
    },
  };
}

/** The holder of a lease: a process of this machine, or of another that shares the folder. */
export interface Owner {
  /** One boot of one machine in one process namespace, within which process ids can be looked up. */
  readonly host: string;
  readonly pid: number;
  /** The start time of the process: ids are reused, this pair is not. */
  readonly started: string;
  /** Distinguishes stores opened by one process. */
  readonly instance: string;
}

export function describeSelf(pid: number, instance: string): Owner {
  return { host: bootAndNamespace(), pid, started: startOf(pid) ?? "", instance };
}

/** Whether the owner's process runs; undefined if unknown here. */
function isAlive(owner: Owner, self: Owner, signal: (pid: number) => boolean): boolean | undefined {
  if (owner.host !== self.host) return undefined;
  const started = startOf(owner.pid);
  if (started !== undefined) return started === owner.started;
  return owner.started === "" ? signal(owner.pid) : false;
}

const LISTEN_MS = 250;
/** A heartbeat every five seconds: a sixth of the silence after which a holder counts as dead. */
const LISTENS_PER_BEAT = 20;

interface HeldLocks extends SessionLocks {
  /** Whether another process took a session that is held here. */
  isLost(sessionId: string): boolean;
  close(): void;
}

/** One holder per session across all processes of the folder; it polls for interrupts. */
export function createSessionLocks(leases: Leases): HeldLocks {
  const held = new Map<string, { readonly interrupted: AbortController; readonly timer: NodeJS.Timeout }>();
  const release = (sessionId: string, leave: (name: string) => void = leases.give): void => {
    clearInterval(held.get(sessionId)?.timer);
    if (held.delete(sessionId)) leave(nameOf(sessionId));
  };
  return {
    hold: async (sessionId) => {
      const name = nameOf(sessionId);
      const taken = !held.has(sessionId) && leases.take(name);
      if (taken === false) throw new RuntimeError("SESSION_BUSY", `session ${sessionId} is already running a turn`);
      const interrupted = new AbortController();
      let listens = 0;
      let receive: ((note: string) => void) | undefined;
      const listen = (): void => {
        if (leases.isInterrupted(name)) interrupted.abort();
        if (receive !== undefined) for (const note of leases.takeNotes(name)) receive(note);
        if (++listens % LISTENS_PER_BEAT === 0) leases.beat(name);
      };
      const timer = setInterval(() => {
        try {
          listen();
        } catch {
          // The turn's own appends report a failing disk; the next poll retries.
        }
      }, LISTEN_MS).unref();
      held.set(sessionId, { interrupted, timer });
      return {
        interrupted: interrupted.signal,
        wasAbandoned: taken === "abandoned",
        onNote: (listener) => {
          receive = listener;
        },
        release: async () => {
          if (held.get(sessionId)?.timer === timer) release(sessionId);
        },
        abandon: async () => {
          if (held.get(sessionId)?.timer === timer) release(sessionId, leases.abandon);
        },
      };
    },
    isLost: (sessionId) => held.has(sessionId) && !leases.isOurs(nameOf(sessionId)),
    isHeld: async (sessionId) => leases.isTaken(nameOf(sessionId)),
    isAbandoned: async (sessionId) => leases.isAbandoned(nameOf(sessionId)),
    interrupt: async (sessionId) => {
      const own = held.get(sessionId);
      if (own === undefined) leases.interrupt(nameOf(sessionId));
      else own.interrupted.abort();
    },
    note: async (sessionId, note) => leases.note(nameOf(sessionId), note),
    close: () => {
      for (const sessionId of [...held.keys()]) release(sessionId);
    },
  };
}

function nameOf(sessionId: string): string {
  return `session ${sessionId}`;
}
