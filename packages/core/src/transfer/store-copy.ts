import { isDeepStrictEqual } from "node:util";
import type { AgentRow } from "../agent-memory/tiers.ts";
import type { AgentEntryBody } from "../contract/agent.ts";
import { invalid, messageOf, RuntimeError } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { BlobStore, ConfigStore, KeptLayer, LogRow, Store } from "../ports/store.ts";
import { translateFailures } from "../sessions/live-sessions.ts";
import { copyLogs, Faulty, forEachOf, type LogsCopied, orFaulty } from "./log-copy.ts";

/** A place with a realm: everything that cannot be derived. */
export interface KeptPlace {
  /** Its name in sentences, without secrets. */
  readonly name: string;
  readonly sessions: Store;
  readonly agents: {
    /** Whether it has any. */
    isThere(): Promise<boolean>;
    open(): Promise<Store<AgentEntryBody, AgentRow>>;
  };
  readonly config: ConfigStore;
}

export interface CopyOptions {
  /** Dry run: only report what would be written. */
  readonly dryRun?: boolean | undefined;
  /** Replaces a differing configuration in the target. */
  readonly forceConfig?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Receives progress, often. */
  readonly progress?: ((of: CopyProgress) => void) | undefined;
}

export interface CopyProgress {
  readonly what: "blobs" | "sessions" | "agents";
  readonly done: number;
  /** Undefined while unknown. */
  readonly total: number | undefined;
}

/** The result of a copy; `problems` and `behind` name what the target lacks, one sentence each. */
export interface CopyReport {
  /** Whether the target now has everything. */
  readonly ok: boolean;
  readonly dry_run: boolean;
  readonly sessions: Counts;
  readonly agents: Counts;
  readonly blobs: { readonly total: number; readonly copied: number; readonly equal: number };
  /** `none`: the source has none; `kept`: the target's different one stays. */
  readonly configuration: "none" | "copied" | "equal" | "kept";
  readonly problems: readonly string[];
  readonly behind: readonly string[];
}

type Counts = Omit<LogsCopied, "problems" | "behind">;

/** Copies a realm; existing data is compared, and differences are left alone. */
export async function copyKept(
  given: { readonly from: KeptPlace; readonly to: KeptPlace; readonly clock: Clock },
  options: CopyOptions = {},
): Promise<CopyReport> {
  const { clock } = given;
  const translated = (place: KeptPlace): KeptPlace => ({ ...place, sessions: translateFailures(place.sessions) });
  const [from, to] = [translated(given.from), translated(given.to)];
  const { dryRun: isDry = false, signal = NEVER, progress = () => {} } = options;
  await requireTwoPlaces(from, to, clock);
  // Blobs before the sessions that name them.
  const blobs = await copyBlobs(from, to, {
    isDry,
    signal,
    progress: (done) => progress({ what: "blobs", done, total: undefined }),
  });
  const copyOf = <B, R extends LogRow>(noun: "session" | "agent", source: Store<B, R>, target: Store<B, R>) =>
    copyLogs({
      ...{ isDry, clock, signal, noun },
      from: { name: from.name, store: source },
      to: { name: to.name, store: target },
      progress: (done, total) => progress({ what: `${noun}s`, done, total }),
    });
  const sessions = await copyOf("session", from.sessions, to.sessions);
  const agents = (await from.agents.isThere())
    ? await copyOf("agent", translateFailures(await from.agents.open()), translateFailures(await to.agents.open()))
    : NO_LOGS;
  const configuration = await copyConfiguration(from, to, { isDry, isForced: options.forceConfig === true });
  const problems = [...blobs.problems, ...sessions.problems, ...agents.problems, ...configuration.problems];
  const behind = [...sessions.behind, ...agents.behind];
  return {
    ok: problems.length === 0 && behind.length === 0,
    dry_run: isDry,
    sessions: countsOf(sessions),
    agents: countsOf(agents),
    blobs: { total: blobs.total, copied: blobs.copied, equal: blobs.equal },
    configuration: configuration.became,
    problems,
    behind,
  };
}

const NEVER = new AbortController().signal;
const NO_LOGS: LogsCopied = { total: 0, copied: 0, continued: 0, equal: 0, entries: 0, problems: [], behind: [] };

function countsOf({ problems: _problems, behind: _behind, ...counts }: LogsCopied): Counts {
  return counts;
}

/** Detects one place under two names: a lock held in one and seen in the other. */
async function requireTwoPlaces(from: KeptPlace, to: KeptPlace, clock: Clock): Promise<void> {
  const id = clock.newId();
  const hold = await to.sessions.locks.hold(id);
  try {
    if (!(await from.sessions.locks.isHeld(id))) return;
  } finally {
    await hold.release();
  }
  throw invalid(`${from.name} and ${to.name} are the same place; name another to copy to`);
}

interface BlobsCopied {
  readonly total: number;
  readonly copied: number;
  readonly equal: number;
  readonly problems: readonly string[];
}

const IDS_A_PAGE = 500;
const BLOBS_AT_ONCE = 4;

/** A blob's id is the hash of its content, which is checked. */
async function copyBlobs(
  from: KeptPlace,
  to: KeptPlace,
  { isDry, signal, progress }: { isDry: boolean; signal: AbortSignal; progress: (done: number) => void },
): Promise<BlobsCopied> {
  const counts = { total: 0, copied: 0, equal: 0 };
  const problems: string[] = [];
  const visit = async (id: string): Promise<void> => {
    counts.total += 1;
    progress(counts.total);
    try {
      const [blob, there] = [await getBlob(from, id), await getBlob(to, id)];
      if (blob === undefined)
        counts.total -= 1; // Deleted after it was listed.
      else if (there === undefined) {
        if (!isDry) await putBlob(to, id, blob);
        counts.copied += 1;
      } else if (there.mediaType === blob.mediaType) counts.equal += 1;
      else {
        const types = `${there.mediaType} at ${to.name} and ${blob.mediaType} at ${from.name}`;
        problems.push(`${id} is ${types}; it was left as it is`);
      }
    } catch (error) {
      if (!(error instanceof Faulty)) throw error;
      problems.push(error.message);
    }
  };
  const page = (after: string): Promise<readonly string[]> => from.sessions.blobs.ids(after, IDS_A_PAGE);
  for (let ids = await page(""); ids.length > 0; ids = await page(ids.at(-1) ?? "")) {
    await forEachOf(ids, BLOBS_AT_ONCE, signal, visit);
  }
  return { ...counts, problems };
}

type Blob = NonNullable<Awaited<ReturnType<BlobStore["get"]>>>;

function getBlob({ name, sessions: { blobs } }: KeptPlace, id: string): Promise<Blob | undefined> {
  return orFaulty(
    `${id} cannot be read at ${name}`,
    () => blobs.get(id),
    () => blobs.ids("", 1),
  );
}

async function putBlob({ name, sessions: { blobs } }: KeptPlace, id: string, blob: Blob): Promise<void> {
  const kept = await blobs.put(blob);
  const back = await blobs.get(kept);
  if (kept === id && back?.mediaType === blob.mediaType && Buffer.compare(back.data, blob.data) === 0) return;
  throw new RuntimeError("SESSION_STORE_ERROR", `what ${name} gives back of ${id} is not what was copied`);
}

async function copyConfiguration(
  from: KeptPlace,
  to: KeptPlace,
  { isDry, isForced }: { readonly isDry: boolean; readonly isForced: boolean },
): Promise<{ readonly became: CopyReport["configuration"]; readonly problems: readonly string[] }> {
  const given = readLayer(from.config);
  if ("fault" in given) return { became: "kept", problems: [given.fault] };
  const there = readLayer(to.config);
  if (Object.keys(given.layer).length === 0) return { became: "none", problems: [] };
  if ("layer" in there && isSame(given.layer, there.layer)) return { became: "equal", problems: [] };
  const isAnother = "fault" in there || Object.keys(there.layer).length > 0;
  if (isAnother && !isForced) {
    const what = "fault" in there ? there.fault : `${to.config.name} differs from ${from.config.name}`;
    return { became: "kept", problems: [`${what}; it was left as it is, and --force-config replaces it`] };
  }
  if (!isDry) {
    await to.config.change(() => given.layer);
    if (!isSame(given.layer, to.config.read().layer))
      throw new RuntimeError("SESSION_STORE_ERROR", `${to.config.name} does not give back what was copied to it`);
  }
  return { became: "copied", problems: [] };
}

/** An unreadable file affects only the configuration. */
function readLayer(config: ConfigStore): Pick<KeptLayer, "layer"> | { readonly fault: string } {
  try {
    return config.read();
  } catch (error) {
    return { fault: messageOf(error) };
  }
}

/** As JSON: places may differ in key order and parser. */
function isSame(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)));
}
