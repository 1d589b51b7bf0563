import { readFileSync, readlinkSync } from "node:fs";

/** One boot of one machine in one process namespace, within which process ids can be looked up. */
export function bootAndNamespace(): string {
  return `${bootId()} ${processNamespace()}`;
}

/** Identifies this boot of this machine: earlier locks are void. */
export function bootId(): string {
  return readText("/proc/sys/kernel/random/boot_id") ?? "unknown-boot";
}

/**
 * When a process started, as far as the platform reports it: ids are reused, an id with its start is not. Field 22 of
 * /proc/PID/stat; the name before it may contain spaces and parentheses.
 */
export function startOf(pid: number): string | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  // A zombie process holds nothing.
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
