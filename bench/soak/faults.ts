import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { below, pick } from "../../test/compaction/chances.ts";
import type { Soak } from "./soak.ts";

/** A disk that can be filled at will: a file system in memory of its own, where that is allowed. */
export interface Disk {
  readonly isOwn: boolean;
  /** Whether it is full, or was a moment ago. */
  isFull(): boolean;
  fill(): void;
  drain(): void;
  close(): void;
}

const DISK_MB = 2_048;
/** What was asked while it was full may be answered this much later. */
const AFTERMATH_MS = 20_000;

export function openDisk(folder: string): Disk {
  mkdirSync(folder, { recursive: true });
  const isOwn = mount(folder);
  const ballast = join(folder, "ballast");
  let fullUntilMs = 0;
  return {
    isOwn,
    isFull: () => performance.now() < fullUntilMs,
    fill: () => {
      fullUntilMs = Number.POSITIVE_INFINITY;
      const file = openSync(ballast, "w");
      const block = Buffer.alloc(1 << 20);
      try {
        for (let blocks = 0; blocks <= DISK_MB * 2; blocks += 1) {
          const { bavail, bsize } = statfsSync(folder);
          const bytes = Math.min(block.length, bavail * bsize);
          if (bytes === 0) return;
          writeSync(file, block, 0, bytes);
        }
      } catch {
        // It is full, which is what was wanted.
      } finally {
        closeSync(file);
      }
    },
    drain: () => {
      rmSync(ballast, { force: true });
      fullUntilMs = performance.now() + AFTERMATH_MS;
    },
    close: () => {
      rmSync(ballast, { force: true });
      if (isOwn) execFileSync("umount", ["--lazy", folder], { stdio: "ignore" });
    },
  };
}

function mount(folder: string): boolean {
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_MB}m,mode=0700`, "rkat-soak", folder], {
      stdio: "ignore",
    });
    return true;
  } catch {
    return false;
  }
}

/** What was done to the servers. */
export interface Done {
  kills: number;
  fullDisks: number;
  embedders: number;
}

/** Does harm every so often until it is aborted: a server is killed, the disk is full for a while, an embedder is killed. */
export async function doHarm(soak: Soak, disk: Disk, how: { everyMs: number; signal: AbortSignal }): Promise<Done> {
  const done: Done = { kills: 0, fullDisks: 0, embedders: 0 };
  const { random, servers } = soak;
  for (let rounds = 0; !how.signal.aborted; rounds += 1) {
    await rest(how.everyMs * (0.5 + random()), how.signal);
    if (how.signal.aborted) break;
    const server = pick(random, Object.values(servers));
    if (rounds % 3 === 2 && disk.isOwn) {
      disk.fill();
      await rest(2_000 + below(random, 4_000), how.signal);
      disk.drain();
      done.fullDisks += 1;
    } else if (rounds % 3 === 1) {
      // The server itself lives on: what it loses is told, and the next search starts the model again.
      done.embedders += Object.values(servers).filter(({ pid }) => killEmbedder(pid)).length;
    } else if (server !== undefined) {
      await server.kill(below(random, 2_000));
      done.kills += 1;
    }
  }
  return done;
}

function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Kills a process that a server started to embed, where it has one. */
function killEmbedder(parent: number): boolean {
  const child = childrenOf(parent).find((pid) => /model-process/.test(read(`/proc/${pid}/cmdline`)));
  if (child === undefined) return false;
  try {
    process.kill(child, "SIGKILL");
    return true;
  } catch {
    return false; // It has just ended by itself.
  }
}

function childrenOf(parent: number): readonly number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => read(`/proc/${pid}/stat`).split(") ")[1]?.split(" ")[1] === String(parent)).map(Number);
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // A process may be gone by now.
  }
}
