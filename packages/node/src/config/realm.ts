import { createHash } from "node:crypto";
import { constants, lstatSync, statSync } from "node:fs";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, parse, resolve } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { type ConfiguredRealm, REALM_ID } from "@rkat/core/contract/config";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { ADDRESS, requireState, requireUrl } from "./store-address.ts";

/** Which realm was asked for, and from where. Absent flags stay undefined. */
export interface RealmRequest {
  readonly realm?: string | undefined;
  readonly isolated?: boolean | undefined;
  readonly stateRoot?: string | undefined;
  /** A state folder as a program made it, or the address of a database. */
  readonly store?: string | undefined;
  readonly contextRoot?: string | undefined;
  readonly cwd: string;
  readonly home: string;
  /** `XDG_DATA_HOME`: where servers keep their realms instead of `~/.local/share`. */
  readonly dataHome?: string | undefined;
  readonly newId: () => string;
  /** A command uses the realm of its project; a server its own, unless one is named. */
  readonly purpose: "cli" | "server";
}

export interface Realm {
  readonly realm: string;
  /** Whether a flag chose it. */
  readonly isChosen: boolean;
  readonly stateFolder: string;
  /** What `--store` says about a database: its address, or null for a folder. It wins over the configuration. */
  readonly storeUrl?: string | null;
}

/** Where the configuration keeps a realm. */
type StoreChoice = Partial<Pick<Config["store"], "url" | "realm">>;

/** The backend, as clients see it. */
export function backendOf({ url }: StoreChoice): string {
  return url === undefined ? "embedded" : "postgres";
}

const REALM_IN_DATABASE = "default";

/** The realm's name: in a database not that of a folder, which is another one on each machine. */
export function realmNameIn(place: Pick<Realm, "realm" | "isChosen">, store: StoreChoice): string {
  const realm = store.url === undefined || place.isChosen ? place.realm : (store.realm ?? REALM_IN_DATABASE);
  requireRealmId(realm);
  return realm;
}

/** The realm in answers about the configuration; paths only on request. */
export function configuredRealm(
  place: Pick<Realm, "realm" | "isChosen" | "stateFolder">,
  store: StoreChoice,
  reported: { readonly instance?: string | undefined; readonly paths: boolean },
): ConfiguredRealm {
  return {
    realm_id: realmNameIn(place, store),
    ...(reported.instance === undefined ? {} : { instance_id: reported.instance }),
    backend: backendOf(store),
    // A database has no files.
    ...(reported.paths && store.url === undefined ? { resolved_paths: pathsOf(place.stateFolder) } : {}),
  };
}

function pathsOf(root: string): Readonly<Record<string, string>> {
  return {
    root,
    manifest_path: join(root, "config_state.json"),
    config_path: join(root, "config.toml"),
    sessions_jsonl_dir: join(root, ".rkat", "sessions"),
  };
}

/** Settles the realm and its folder; throws INVALID_PARAMS for flags that contradict each other. Nothing is made. */
export function resolveRealm(request: RealmRequest): Realm {
  const { cwd } = request;
  if (request.realm !== undefined && request.isolated === true) {
    throw invalid("--realm names a realm and --isolated asks for a fresh one; use one of them");
  }
  if (request.store !== undefined) {
    const other = request.stateRoot === undefined ? request.isolated && "--isolated" : "--state-root";
    if (other) throw invalid(`--store names what is opened, and ${other} another place; use one of them`);
    if (!ADDRESS.test(request.store)) return realmIn(resolve(cwd, request.store), request.realm);
    const { store, ...others } = request;
    const inDatabase = resolveRealm({ ...others, realm: request.realm ?? REALM_IN_DATABASE });
    return { ...inDatabase, storeUrl: requireUrl(store) };
  }
  const contextRoot = resolve(cwd, request.contextRoot ?? "");
  const stateRoot = request.stateRoot === undefined ? defaultStateRoot(request) : resolve(cwd, request.stateRoot);
  const realm = request.realm ?? defaultRealm(request, contextRoot);
  requireRealmId(realm);
  const isChosen = request.realm !== undefined || request.isolated === true;
  const stateFolder = join(stateRoot, realm);
  // The code that reads or creates the folder reports a file in its place.
  requireName(stateFolder, { mayBeBelowFile: true });
  return { realm, isChosen, stateFolder };
}

/** The realm of a state folder, which has the folder's name. */
function realmIn(stateFolder: string, realm: string | undefined): Realm {
  if (realm !== undefined) throw invalid(`--store ${stateFolder}: a folder is one realm; leave --realm out`);
  requireName(stateFolder);
  const found = statSync(stateFolder, { throwIfNoEntry: false });
  if (found === undefined) throw invalid(`there is no folder ${stateFolder}; name the stateFolder of a program`);
  if (!found.isDirectory()) throw invalid(`${stateFolder} is a file; name the stateFolder of a program`);
  requireState(stateFolder);
  const name = basename(stateFolder);
  const isName = REALM_ID.test(name) && !UUID.test(name);
  return { realm: isName ? name : `ws-${slugOf(stateFolder)}`, isChosen: true, stateFolder, storeUrl: null };
}

/** The problem of a name that the system refuses. */
const NAME_FAULTS: Readonly<Record<string, string>> = {
  ENAMETOOLONG: "its name is too long",
  ENOTDIR: "a part of its path is a file, not a folder",
  ELOOP: "its links lead in a circle",
  ERR_INVALID_ARG_VALUE: "a name cannot hold a NUL byte",
};
const SHOWN_CHARS_MAX = 120;

/** Throws INVALID_PARAMS for an impossible path, before anything is read or created. */
export function requireName(path: string, { mayBeBelowFile = false } = {}): void {
  try {
    lstatSync(path);
  } catch (thrown) {
    const code = isErrno(thrown) ? (thrown.code ?? "") : "";
    if (NAME_FAULTS[code] === undefined || (mayBeBelowFile && code === "ENOTDIR")) return;
    const shown = path.length > SHOWN_CHARS_MAX ? `${path.slice(0, SHOWN_CHARS_MAX)}…` : path;
    throw invalid(`${shown}: ${NAME_FAULTS[code]}; name another place`);
  }
}

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Throws INVALID_PARAMS unless the text can name a realm. */
export function requireRealmId(text: string): void {
  if (!REALM_ID.test(text)) {
    const rule = "1 to 64 letters, digits, _ and -, the first a letter or digit";
    throw invalid(`${JSON.stringify(text)} cannot name a realm: use ${rule}`);
  }
  // `<realm>:<uuid>` and a bare session id would look alike.
  if (UUID.test(text)) throw invalid(`${text} cannot name a realm: it looks like a session id`);
}

const BACKENDS = ["jsonl", "sqlite"];

/** The note on `--realm-backend`; none when it was not given. */
export function backendNote(backend: string | undefined): string | undefined {
  if (backend === undefined) return undefined;
  if (!BACKENDS.includes(backend)) throw invalid(`--realm-backend ${backend}: expected ${BACKENDS.join(" or ")}`);
  return `--realm-backend ${backend} is accepted and changes nothing: our own backend is used`;
}

function defaultRealm({ purpose, isolated, newId }: RealmRequest, contextRoot: string): string {
  if (purpose === "server" || isolated === true) return `realm-${newId()}`;
  return `ws-${slugOf(contextRoot)}-${createHash("sha256").update(contextRoot).digest("hex").slice(0, HASH_DIGITS)}`;
}

const HASH_DIGITS = 10;
const SLUG_CHARS_MAX = 32;

function slugOf(folder: string): string {
  const letters = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-");
  return letters.replace(/^-/, "").slice(0, SLUG_CHARS_MAX).replace(/-$/, "") || "root";
}

function defaultStateRoot({ purpose, cwd, home, contextRoot, dataHome }: RealmRequest): string {
  if (purpose === "cli") return join(resolve(cwd, contextRoot ?? ""), ".rkat", "realms");
  // The XDG rules ignore a relative path and take an empty variable as unset.
  const data = dataHome !== undefined && isAbsolute(dataHome) ? dataHome : join(home, ".local", "share");
  return join(data, "rkat", "realms");
}

export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (thrown) {
    if (isErrno(thrown) && ["ENOENT", "ENOTDIR"].includes(thrown.code ?? "")) return undefined;
    throw thrown;
  }
}

/** Whether a thrown value is a failed system call, which carries a code such as `EACCES`. */
export function isErrno(thrown: unknown): thrown is NodeJS.ErrnoException {
  return thrown instanceof Error && "code" in thrown;
}

/** Whether a runtime of the configuration writes to its state folder: sessions, or the memory of what was said. */
export function keepsSomething({ features, store, memory }: Pick<Config, "features" | "store" | "memory">): boolean {
  if (!features.includes("session-store") || store.url === undefined) {
    return features.includes("session-store") || features.includes("memory-store");
  }
  return store.files === true || (features.includes("memory-store") && memory.index !== "database");
}

/** Makes the folder that keeps a realm; throws SESSION_STORE_ERROR, with advice, when that cannot be. */
export async function makeStateFolder(stateFolder: string): Promise<void> {
  const stateRoot = dirname(stateFolder);
  try {
    // Private, and excluded from version control.
    const made = await mkdir(stateRoot, { recursive: true, mode: 0o700 });
    if (made !== undefined) await ignoreInGit(stateRoot);
    await mkdir(stateFolder, { recursive: true, mode: 0o700 });
    await access(stateFolder, constants.W_OK);
  } catch (cause) {
    const why = isErrno(cause) ? cause.code : "it failed";
    const advice = "keep them elsewhere with --state-root FOLDER, or not at all with RKAT_FEATURES=none";
    const message = `sessions cannot be kept in ${stateFolder} (${why}); ${advice}`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}

async function ignoreInGit(folder: string): Promise<void> {
  try {
    await writeFile(join(folder, ".gitignore"), "*\n", { flag: "wx" });
  } catch (thrown) {
    if (!isErrno(thrown) || thrown.code !== "EEXIST") throw thrown;
  }
}

/**
 * A server works on the project it is started in, as a command does: what it remembers is there again at the next
 * start. Clients without a project start it in the root of the file system, where nothing can be kept; there it has a
 * realm of the user's own.
 */
export async function realmOfFolder(
  cwd: string,
  flags: Pick<RealmRequest, "realm" | "isolated" | "stateRoot" | "store" | "contextRoot">,
): Promise<Pick<RealmRequest, "purpose" | "realm">> {
  const isGiven = [flags.isolated, flags.stateRoot, flags.store, flags.contextRoot].some((flag) => flag !== undefined);
  if (isGiven || (await canKeep(cwd))) return { realm: flags.realm, purpose: "cli" as const };
  return { realm: flags.realm ?? "default", purpose: "server" as const };
}

async function canKeep(folder: string): Promise<boolean> {
  if (parse(folder).root === folder) return false;
  return access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
}
