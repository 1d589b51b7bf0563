import { readFileSync, readlinkSync } from "node:fs";

/** Who holds something: a process of this machine, or of another that shares the folder. */
export interface Owner {
  /** One boot of one machine, as seen from one process namespace: within it, process ids can be looked up. */
  readonly host: string;
  readonly pid: number;
  /** When the process started: ids are used again, this pair is not. */
  readonly started: string;
  /** Tells apart stores opened by one process. */
  readonly instance: string;
}

export function describeSelf(pid: number, instance: string): Owner {
  return { host: `${bootId()} ${processNamespace()}`, pid, started: startOf(pid) ?? "", instance };
}

/** A name for this boot of this machine: what held a lock before it does not any more. */
export function bootId(): string {
  return readText("/proc/sys/kernel/random/boot_id") ?? "unknown-boot";
}

/** Whether the owner's process runs; undefined when it cannot be known from here. */
export function isAlive(owner: Owner, self: Owner, signal: (pid: number) => boolean): boolean | undefined {
  if (owner.host !== self.host) return undefined;
  const started = startOf(owner.pid);
  if (started !== undefined) return started === owner.started;
  return owner.started === "" ? signal(owner.pid) : false;
}

/** Field 22 of /proc/PID/stat; the name before it may itself hold spaces and parentheses. */
function startOf(pid: number): string | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  // A process that is dead and not yet waited for holds nothing.
  return fields === undefined || fields[0] === "Z" ? undefined : fields[19];
}

function processNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "no-namespace";
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}
