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
  /** Takes a right that is free or whose owner died; false when someone has it. */
  take(name: string): boolean;
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

export interface LeaseOptions {
  readonly path: string;
  readonly self: Owner;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly steadyNow: () => number;
  /** Whether a process id is in use, where start times cannot be read. */
  readonly signal: (pid: number) => boolean;
}

export function openLeases({ path, self, steadyNow, signal }: LeaseOptions): Leases {
  const leases = openPrivateDb<Lease, string>(path, { noSync: true, encoding: "json" }, () => {});
  const heard = new Map<string, { readonly beat: number; readonly atMs: number }>();
  const isOurs = ({ owner }: Lease): boolean => owner.instance === self.instance && owner.pid === self.pid;

  const isHeld = (name: string, lease: Lease | undefined): boolean => {
    if (lease === undefined) return false;
    const alive = isAlive(lease.owner, self, signal);
    if (alive !== undefined) return alive;
    const last = heard.get(name);
    if (last === undefined || last.beat !== lease.beat) {
      heard.set(name, { beat: lease.beat, atMs: steadyNow() });
      return true;
    }
    return steadyNow() - last.atMs < SILENCE_MS_MAX;
  };

  return {
    take: (name) =>
      leases.transactionSync(() => {
        if (isHeld(name, leases.get(name))) return false;
        void leases.put(name, { owner: self, beat: 0, interrupt: false });
        return true;
      }),
    isTaken: (name) => isHeld(name, leases.get(name)),
    give: (name) =>
      leases.transactionSync(() => {
        const lease = leases.get(name);
        if (lease !== undefined && isOurs(lease)) void leases.remove(name);
      }),
    interrupt: (name) =>
      leases.transactionSync(() => {
        const lease = leases.get(name);
        if (lease !== undefined) void leases.put(name, { ...lease, interrupt: true });
      }),
    isInterrupted: (name) => {
      const lease = leases.get(name);
      return lease === undefined || !isOurs(lease) || lease.interrupt;
    },
    beat: (name) =>
      leases.transactionSync(() => {
        const lease = leases.get(name);
        if (lease !== undefined && isOurs(lease)) void leases.put(name, { ...lease, beat: lease.beat + 1 });
      }),
    close: () => leases.close(),
  };
}
