import { statfs, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import type { Vitals } from "@rkat/core/ports/telemetry";

interface Check {
  readonly ok: boolean;
  /** The problem, for the operator. */
  readonly why?: string;
}

/** The readiness of a server. */
export interface Readiness {
  /** `degraded`: it serves, and a part of it does not work. `unready`: send it no requests. */
  readonly status: "ready" | "degraded" | "unready";
  readonly checks: Readonly<Record<string, Check>>;
}

export interface ReadinessParts {
  readonly clock: Clock;
  /** Undefined without a store. */
  readonly stateFolder: string | undefined;
  /** Whether sessions are in a database. */
  readonly hasDatabase?: boolean | undefined;
  /** Undefined until there is a runtime. */
  vitals(): Vitals | undefined;
  /** Whether the server is stopping. */
  isEnding(): boolean;
  readonly freeBytesMin?: number | undefined;
}

/** Free bytes below which it is degraded: a turn may store several megabytes. */
const FREE_BYTES_MIN = 64 * 1_024 * 1_024;
/** More frequent probes get the last result. */
const FRESH_MS = 1_000;
const PROBE_MS_MAX = 2_000;
/** The checks whose failure makes it unready; the others make it degraded. */
const NEEDED: readonly string[] = ["server", "disk", "store"];

/** Checks what a server needs; concurrent calls share one check. It does not reject. */
export function createReadiness(parts: ReadinessParts): () => Promise<Readiness> {
  const { clock, isEnding } = parts;
  let found: { readonly atMs: number; readonly checks: Promise<Readiness["checks"]> } | undefined;
  return async () => {
    const nowMs = clock.now();
    if (found === undefined || Math.abs(nowMs - found.atMs) >= FRESH_MS) {
      found = { atMs: nowMs, checks: lookAt(parts) };
    }
    const seen = await found.checks;
    const checks = isEnding() ? { server: { ok: false, why: "this server is ending" }, ...seen } : seen;
    const failed = Object.keys(checks).filter((name) => checks[name]?.ok === false);
    if (failed.length === 0) return { status: "ready", checks };
    return { status: failed.some((name) => NEEDED.includes(name)) ? "unready" : "degraded", checks };
  };
}

async function lookAt(parts: ReadinessParts): Promise<Readiness["checks"]> {
  const { clock, stateFolder } = parts;
  const vitals = parts.vitals();
  if (vitals === undefined) return { server: { ok: false, why: "the server is starting" } };
  const check = async (probe: Promise<unknown>): Promise<Check> => {
    try {
      await inTime(clock, probe);
      return { ok: true };
    } catch (thrown) {
      return { ok: false, why: vitals.redact(messageOf(thrown)) };
    }
  };
  const disk = stateFolder === undefined ? [] : [["disk", check(probeDisk(stateFolder, parts))] as const];
  const isKept = stateFolder !== undefined || parts.hasDatabase === true;
  const kept = [...disk, ...(isKept ? [["store", check(vitals.probeStore())] as const] : [])];
  const memory = vitals.memory();
  const probes = [
    ...kept,
    ...(memory === undefined ? [] : [["index", check(probeMemory(memory.problem))] as const]),
    ["model", check(vitals.probeModel())] as const,
  ];
  return Object.fromEntries(await Promise.all(probes.map(async ([name, checked]) => [name, await checked] as const)));
}

async function inTime(clock: Clock, probe: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  const late = clock.sleep(PROBE_MS_MAX, done.signal).then(() => {
    if (!done.signal.aborted) throw new Error(`no answer within ${PROBE_MS_MAX / 1_000} seconds`);
  });
  try {
    await Promise.race([probe, late]);
  } finally {
    done.abort("done");
    probe.catch(() => {}); // It has timed out already.
  }
}

async function probeDisk(folder: string, { clock, freeBytesMin = FREE_BYTES_MIN }: ReadinessParts): Promise<void> {
  const { bavail, bsize, files, ffree } = await statfs(folder);
  const free = bavail * bsize;
  if (free < freeBytesMin) throw new Error(`${mebibytes(free)} are free, less than ${mebibytes(freeBytesMin)}`);
  // A file system that does not count its files says that it has none.
  if (files > 0 && ffree === 0) throw new Error("no more files can be made");
  // A random name, so that no link can be there.
  const path = join(folder, `.ready-${clock.newId()}`);
  await writeFile(path, "ready\n", { flag: "wx", mode: 0o600 });
  await unlink(path);
}

async function probeMemory(problem: string | undefined): Promise<void> {
  if (problem !== undefined) throw new Error(`what is said is not all findable: ${problem}`);
}

function mebibytes(bytes: number): string {
  return `${Math.floor(bytes / 1_048_576)} MiB`;
}
