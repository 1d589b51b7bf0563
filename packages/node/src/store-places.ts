import { existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { type AgentRow, foldAgent } from "@rkat/core/agent-memory/tiers";
import { defaultConfig } from "@rkat/core/config/settings";
import type { AgentEntryBody } from "@rkat/core/contract/agent";
import type { Entry } from "@rkat/core/contract/entry";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { DatabaseVerification, Store } from "@rkat/core/ports/store";
import { requireNode } from "@rkat/core/runtime/runtime-options";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { foldSchedule, type ScheduleStore } from "@rkat/core/schedules/schedule-row";
import { foldRow } from "@rkat/core/state/session-row";
import { createConfigInMemory, createStoreInMemory } from "@rkat/core/stores/in-memory";
import { type CopyOptions, type CopyReport, copyKept, type KeptPlace } from "@rkat/core/transfer/store-copy";
import type { BackupReport } from "./backup/backup.ts";
import type { BackupVerification } from "./backup/backup-reader.ts";
import type { KnownBackup } from "./backup/known-backups.ts";
import type { RestoreReport } from "./backup/restore.ts";
import type { ArchivedFile } from "./backup/tar.ts";
import { requireName } from "./config/realm.ts";
import { ADDRESS, isState, namesIn, requireState, requireUrl } from "./config/store-address.ts";
import {
  AGENTS,
  isRunning,
  openConfigFile,
  openEmbeddedStore,
  refuseLinksIn,
  schedulesIn,
  verifyStore,
  withPostgres,
} from "./open-runtime.ts";
import { type Encryption, openSeal, refuseSealedDatabase } from "./sealed-realm.ts";

/** Where a realm is kept: a folder or an address. */
export interface StoreAddress {
  /** The path of a state folder, or a `postgres://` URL. */
  readonly place: string;
  /** Which realm of the database; `default` without it. A folder is one realm. */
  readonly realm?: string | undefined;
}

/** How a copy is made, and who hears of what it meets. */
export interface CopyStoreOptions extends CopyOptions {
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly warn?: ((sentence: string) => void) | undefined;
  /** Where the keys are of places that are sealed; a new place with one is sealed by it. */
  readonly fromEncryption?: Encryption | undefined;
  readonly toEncryption?: Encryption | undefined;
}

/** The realm of a database that is meant where none is named. */
const REALM = "default";

/**
 * Copies what is kept at one place to another, folders and databases alike: logs, agents, blobs and configuration. Run
 * again it goes on where it was stopped; memory is derived, and made anew where it is first searched.
 */
export async function copyStore(
  from: StoreAddress,
  to: StoreAddress,
  options: CopyStoreOptions = {},
): Promise<CopyReport> {
  requireNode(process.versions.node);
  const { env = process.env, warn = () => {}, fromEncryption = {}, toEncryption = {}, ...copying } = options;
  for (const { place } of [from, to]) if (!ADDRESS.test(place)) requireName(place);
  refuseNested(from.place, to.place);
  const source = await openPlace(from, { role: "from", isDry: false, env, warn, encryption: fromEncryption });
  try {
    const isDry = options.dryRun === true;
    const target = await openPlace(to, { role: "to", isDry, env, warn, encryption: toEncryption });
    try {
      return await copyKept({ from: source, to: target, clock: createSystemClock() }, copying);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** Checks everything a realm keeps in a database; nothing is changed. */
export async function verifyDatabase({ place, realm = REALM }: StoreAddress): Promise<DatabaseVerification> {
  const { openDatabase } = await withPostgres(() => import("@rkat/postgres/open"));
  const { verifyDatabase: verify } = await import("@rkat/postgres/verify");
  const database = await openDatabase({ url: requireUrl(place), realm });
  try {
    return await verify(database, { session: foldRow, agent: foldAgent, schedule: foldSchedule });
  } finally {
    await database.close();
  }
}

/** How a back-up is made, checked or restored, and who hears of it. */
export interface BackupPlaceOptions extends Pick<CopyStoreOptions, "env"> {
  readonly signal?: AbortSignal | undefined;
  /** Receives the bytes done and the total, which is undefined until it is known. */
  readonly progress?: ((done: number, total: number | undefined) => void) | undefined;
  /** Where the key is of the back-up that is restored. */
  readonly encryption?: Encryption | undefined;
}

const NEVER = new AbortController().signal;

/** Backs a state folder up to a folder, or to one file `NAME.tar`, while processes write to it. */
export async function backUpStore(
  folder: string,
  place: string,
  { signal = NEVER, progress = () => {} }: BackupPlaceOptions = {},
): Promise<BackupReport> {
  requireBackupPlace(place);
  requireState(folder);
  refuseNested(folder, place);
  const { backUpFolder } = await import("./backup/backup.ts");
  return backUpFolder(folder, resolve(process.cwd(), place), { now: Date.now, signal, progress });
}

const PACKED = /\.(?:tar\.\w+|tgz|zip|gz|zst|xz)$/i;

function requireBackupPlace(place: string): void {
  if (ADDRESS.test(place)) throw invalid("a back-up is a folder or a file NAME.tar, and not an address");
  if (PACKED.test(place)) throw invalid(`${place}: a back-up is not packed; name NAME.tar, and pack it afterwards`);
  requireName(place);
  if (!place.endsWith(TAR) && statSync(place, { throwIfNoEntry: false })?.isFile())
    throw invalid(`${place} is a file; name a folder, or a file NAME.tar`);
}

const TAR = ".tar";

/** Reads everything of a back-up and checks it; nothing is changed. */
export async function verifyBackup(
  place: string,
  { signal = NEVER, progress = () => {} }: BackupPlaceOptions = {},
): Promise<BackupVerification> {
  requireName(place);
  const { verifyBackup: verify } = await import("./backup/backup-reader.ts");
  const folds = { session: foldRow, agent: foldAgent, schedule: foldSchedule };
  return verify(resolve(process.cwd(), place), { folds, signal, progress: (done) => progress(done, undefined) });
}

/** Brings a back-up to a state folder that is new or empty, and checks it. */
export async function restoreBackup(
  place: string,
  to: string,
  { signal = NEVER, progress = () => {}, encryption = {}, env = process.env }: BackupPlaceOptions = {},
): Promise<RestoreReport<Awaited<ReturnType<typeof verifyStore>>>> {
  const { RESTORING, restoreFolder } = await import("./backup/restore.ts");
  for (const named of [place, to, `${to}${RESTORING}`]) requireName(named);
  refuseNested(place, to);
  const places = [place, to].map((path) => resolve(process.cwd(), path));
  return restoreFolder(places[0] ?? "", places[1] ?? "", {
    signal,
    progress,
    admit: (state) => openSeal(state, encryption, env),
    verify: (state) => verifyStore(state, { encryption, env }),
  });
}

/** The back-ups that were made of a state folder, each looked at where it is. */
export async function listBackups(folder: string): Promise<readonly KnownBackup[]> {
  return (await import("./backup/known-backups.ts")).knownBackups(folder);
}

export async function writeArchive(fd: number, files: readonly ArchivedFile[]): Promise<number> {
  const { createTarWriter } = await import("./backup/tar.ts");
  const tar = createTarWriter(fd, Date.now());
  for (const file of files) await tar.add(file);
  return tar.finish();
}

const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Every entry of a session that is kept at a place. */
export async function readKeptLog(
  address: StoreAddress,
  sessionId: string,
  encryption: Encryption = {},
): Promise<readonly Entry[]> {
  const opening = { role: "from", isDry: true, env: process.env, warn: () => {}, encryption } as const;
  const opened = await openPlace(address, opening);
  try {
    return await opened.sessions.log.read(sessionId, 1, ENTRIES_MAX);
  } finally {
    await opened.close();
  }
}

interface OpenedPlace extends KeptPlace {
  close(): Promise<void>;
}

interface Opening {
  readonly role: "from" | "to";
  readonly isDry: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly warn: (sentence: string) => void;
  readonly encryption: Encryption;
}

function openPlace(address: StoreAddress, opening: Opening): Promise<OpenedPlace> {
  if (ADDRESS.test(address.place)) return openDatabasePlace(address, opening);
  return openFolder(resolve(process.cwd(), address.place), opening);
}

async function openDatabasePlace(
  { place, realm = REALM }: StoreAddress,
  { warn, encryption }: Opening,
): Promise<OpenedPlace> {
  refuseSealedDatabase(encryption);
  const url = requireUrl(place);
  const { openDatabase } = await withPostgres(() => import("@rkat/postgres/open"));
  const { placeOf } = await import("@rkat/postgres/client");
  const database = await openDatabase({ url, realm, warn });
  const sessions = database.store("session", foldRow);
  const agents = database.store("agent", foldAgent);
  const schedules = database.store("schedule", foldSchedule);
  return {
    name: `realm ${realm} of ${placeOf(url)}`,
    sessions,
    agents: {
      isThere: async () => (await agents.sessions.page({ max: 1 })).length > 0,
      open: async () => agents,
    },
    schedules: { isThere: () => true, open: async () => schedules },
    config: await database.config(),
    close: async () => {
      await schedules.close();
      await sessions.close();
      await agents.close();
      await database.close();
    },
  };
}

async function openFolder(folder: string, { role, isDry, env, warn, encryption }: Opening): Promise<OpenedPlace> {
  if (role === "from") requireState(folder);
  else requireRoom(folder);
  const isMissing = !existsSync(folder);
  if (isMissing && isDry) return emptyPlace(folder);
  makeFolder(folder);
  refuseLinksIn(folder);
  const seal = await openSeal(folder, encryption, env, role === "from" ? warn : () => {});
  if (role === "to" && seal === undefined && Object.keys(encryption).length > 0)
    throw invalid(`${folder} is not encrypted, and a key for it is named; name a new folder, or no key`);
  const sessions = await openEmbeddedStore(folder, { warn, seal });
  const agentsFolder = join(folder, AGENTS);
  let agents: Store<AgentEntryBody, AgentRow> | undefined;
  const schedulesHome = schedulesIn(folder, { warn, seal });
  let schedules: ScheduleStore | undefined;
  return {
    name: folder,
    sessions,
    agents: {
      isThere: async () => existsSync(agentsFolder),
      open: async () => {
        if (isDry && !existsSync(agentsFolder)) return createStoreInMemory({ foldRow: foldAgent });
        const { openStore } = await import("./log/open.ts");
        const host = { pid: process.pid, isRunning };
        agents ??= openStore({ folder: agentsFolder, foldRow: foldAgent, host, warn, seal });
        return agents;
      },
    },
    schedules: {
      isThere: schedulesHome.isThere,
      open: async () => {
        if (isDry && !schedulesHome.isThere()) return createStoreInMemory({ foldRow: foldSchedule });
        schedules ??= await schedulesHome.open();
        return schedules;
      },
    },
    config: await openConfigFile({ stateFolder: folder, env, warn }, defaultConfig()),
    close: async () => {
      await schedules?.close();
      await agents?.close();
      await sessions.close();
    },
  };
}

function emptyPlace(name: string): OpenedPlace {
  const agents = createStoreInMemory({ foldRow: foldAgent });
  return {
    name,
    sessions: createInMemoryStore(),
    agents: { isThere: async () => false, open: async () => agents },
    schedules: { isThere: () => false, open: async () => createStoreInMemory({ foldRow: foldSchedule }) },
    config: createConfigInMemory(),
    close: async () => {},
  };
}

function requireRoom(folder: string): void {
  const names = namesIn(folder);
  if (names.length === 0 || isState(folder)) return;
  throw invalid(`${folder} holds other things; name a folder that is new, empty, or keeps a realm already`);
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new RuntimeError("SESSION_STORE_ERROR", `cannot make the folder ${folder}: ${messageOf(cause)}`, { cause });
  }
}

/** A folder of a state folder is part of it, and what is copied there would be written into what is read. */
function refuseNested(from: string, to: string): void {
  if (ADDRESS.test(from) || ADDRESS.test(to)) return;
  const [source, target] = [realPath(from), realPath(to)];
  for (const [outer, inner] of [
    [source, target],
    [target, source],
  ] as const) {
    const way = relative(outer, inner);
    if (way !== "" && !way.startsWith("..")) throw invalid(`${inner} lies in ${outer}; name a folder beside it`);
  }
}

/** Of what is not there yet, that of the folder it will be in. */
function realPath(path: string): string {
  const whole = resolve(process.cwd(), path);
  if (existsSync(whole) || dirname(whole) === whole) return realpathSync(whole);
  return join(realPath(dirname(whole)), relative(dirname(whole), whole));
}
