import { isAlive, type Owner } from "./owner.ts";
import { openPrivateDb } from "./private-db.ts";

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
}

export function openLeases({ path, self, steadyNow, signal, silenceMsMax = SILENCE_MS_MAX }: LeaseOptions): Leases {
  const leases = openPrivateDb<Lease | number, string>(path, { noSync: true, encoding: "json" }, () => {});
  const leaseAt = (name: string): Lease | undefined => {
    const value = leases.get(name);
    return typeof value === "number" ? undefined : value;
  };
  const takeovers = (): number => {
    const value = leases.get(TAKEOVERS);
    return typeof value === "number" ? value : 0;
  };
  const heard = new Map<string, { readonly beat: number; readonly atMs: number }>();
  const isOurs = ({ owner }: Lease): boolean => owner.instance === self.instance && owner.pid === self.pid;

  const isHeld = (name: string, lease: Lease | undefined, from: "dead" | "silent" = "silent"): boolean => {
    if (lease === undefined) return false;
    const alive = isAlive(lease.owner, self, signal);
    if (alive !== undefined || from === "dead") return alive ?? true;
    const last = heard.get(name);
    if (last === undefined || last.beat !== lease.beat) {
      heard.set(name, { beat: lease.beat, atMs: steadyNow() });
      return true;
    }
    return steadyNow() - last.atMs < silenceMsMax;
  };

  return {
    take: (name, from) =>
      leases.transactionSync(() => {
        const lease = leaseAt(name);
        if (isHeld(name, lease, from)) return false;
        if (lease !== undefined) void leases.put(TAKEOVERS, takeovers() + 1);
        void leases.put(name, { owner: self, beat: 0, interrupt: false });
        return true;
      }),
    takeovers,
    isOurs: (name) => {
      // Not as of when this tick began to read: the process may have stood still since.
      leases.resetReadTxn();
      const lease = leaseAt(name);
      return lease !== undefined && isOurs(lease);
    },
    isTaken: (name) => isHeld(name, leaseAt(name)),
    give: (name) =>
      leases.transactionSync(() => {
        const lease = leaseAt(name);
        if (lease !== undefined && isOurs(lease)) void leases.remove(name);
      }),
    interrupt: (name) =>
      leases.transactionSync(() => {
        const lease = leaseAt(name);
        if (lease !== undefined) void leases.put(name, { ...lease, interrupt: true });
      }),
    isInterrupted: (name) => {
      const lease = leaseAt(name);
      return lease === undefined || !isOurs(lease) || lease.interrupt;
    },
    beat: (name) =>
      leases.transactionSync(() => {
        const lease = leaseAt(name);
        if (lease !== undefined && isOurs(lease)) void leases.put(name, { ...lease, beat: lease.beat + 1 });
      }),
    close: () => leases.close(),
  };
}
