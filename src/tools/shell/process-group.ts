import type { ChildProcess } from "node:child_process";
import { kill } from "node:process";

/** Signals a detached child together with everything it started in its group. */
export function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    kill(-pid, signal);
  } catch (error) {
    // Nobody left in the group is what we wanted; EPERM is what macOS says of a group of zombies.
    const isGone = error instanceof Error && "code" in error && (error.code === "ESRCH" || error.code === "EPERM");
    if (!isGone) throw error;
  }
}
