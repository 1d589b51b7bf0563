import { isAlive, type Owner } from "./owner.ts";
import { openPrivateDb } from "./private-db.ts";
import { DamagedDb } from "./table-file.ts";

interface Lease {
  readonly owner: Owner;
  /** Counts up while the owner lives, for those who cannot look its process up. */
  readonly beat: number;
  readonly interrupt: boolean;
}

/** Named rights that one process has at a time. Nothing here survives a reboot, and nothing needs to. */
export interface Leases {
  /**
   * Takes a right that is free or whose owner died; false when someone has it. An owner that cannot be looked up counts
   * as dead after a silence, unless `from` says otherwise: it may only have stood still.
   */
  take(name: string, from?: "dead" | "silent"): boolean;
  /** How often a right was taken from an owner that did not give it. What is written says it: a later number wins. */
  takeovers(): number;
  /** Whether a right that was taken here is still ours, as of now. */
  isOurs(name: string): boolean;
  isTaken(name: string): boolean;
  give(name: string): void;
  /** Leaves a word for the owner. */
  interrupt(name: string): void;
  /** Whether someone left a word, or took what was ours. */
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
  /** Whether a process id is in use, where start times cannot be read. */
  readonly signal: (pid: number) => boolean;
  readonly silenceMsMax?: number | undefined;
  /** Told of damage and how it was dealt with. */
  readonly warn?: (sentence: string) => void;
}

/** A right that could not be given back is tried again this often. */
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
  /** Asked for at every append, and nearly always what it was. */
  let counted: { readonly stamp: object; readonly takeovers: number } | undefined;
  const takeoversNow = (): number => {
    const stamp = leases.stamp();
    if (counted?.stamp !== stamp) counted = { stamp, takeovers: takeovers() };
    return counted.takeovers;
  };
  /** Rights of ours that are given back as soon as the disk lets us. */
  const owed = new Set<string>();
  let giving: NodeJS.Timeout | undefined;
  const heard = new Map<string, { readonly beat: number; readonly atMs: number }>();
  const isOurs = ({ owner }: Lease): boolean => owner.instance === self.instance && owner.pid === self.pid;

  const isHeld = (name: string, lease: Lease | undefined, from: "dead" | "silent" = "silent"): boolean => {
    if (lease === undefined || (owed.has(name) && isOurs(lease))) return false;
    const alive = isAlive(lease.owner, self, signal);
    if (alive !== undefined || from === "dead") return alive ?? true;
    const last = heard.get(name);
    if (last === undefined || last.beat !== lease.beat) {
      heard.set(name, { beat: lease.beat, atMs: steadyNow() });
      return true;
    }
    return steadyNow() - last.atMs < silenceMsMax;
  };

  /** A file that is damaged is begun anew. */
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
  const give = (name: string): void => {
    try {
      giveNow(name);
      owed.delete(name);
    } catch {
      // Whoever asked is done; the right is free for us at once, and for others when the disk works again.
      owed.add(name);
    }
    if (owed.size === 0) clearInterval(giving);
    giving = owed.size === 0 ? undefined : (giving ?? setInterval(giveOwed, GIVE_AGAIN_MS).unref());
  };
  const giveOwed = (): void => {
    for (const name of [...owed]) give(name);
  };

  return {
    take: (name, from) => {
      const isTaken = writing(() => {
        const lease = leaseAt(name);
        if (isHeld(name, lease, from)) return false;
        if (lease !== undefined) leases.put(TAKEOVERS, takeovers() + 1);
        leases.put(name, { owner: self, beat: 0, interrupt: false });
        return true;
      });
      // Only what is written is ours again: until then it is still to be given back.
      if (isTaken) owed.delete(name);
      return isTaken;
    },
    takeovers: () => soundly(takeoversNow),
    isOurs: (name) =>
      soundly(() => {
        const lease = leaseAt(name);
        return lease !== undefined && isOurs(lease);
      }),
    isTaken: (name) => soundly(() => isHeld(name, leaseAt(name))),
    give,
    interrupt: (name) =>
      writing(() => {
        const lease = leaseAt(name);
        if (lease !== undefined) leases.put(name, { ...lease, interrupt: true });
      }),
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
