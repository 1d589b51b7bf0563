import { hash, randomUUID } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { isSet } from "@rkat/core/config/config-layers";
import {
  requestOfAgent,
  requestOfLink,
  requestsOfServers,
  requestsOfSettings,
  type TrustRequest,
} from "@rkat/core/config/trust-requests";
import { RuntimeError } from "@rkat/core/contract/error";
import type { JsonTable } from "@rkat/core/contract/json";
import type { SubAgent } from "@rkat/core/ports/sub-agent";
import type { McpServerConfig } from "@rkat/core/ports/tool";
import type { FoundFile } from "./config-file.ts";

/** A project's file with requests that only the user can allow. */
export interface BroughtFile extends FoundFile {
  readonly requests: readonly TrustRequest[];
  /** Whether the user trusted exactly this text, an earlier one, or none; or the record is damaged. */
  readonly state: "trusted" | "changed" | "untrusted" | "damaged";
  /** Whether its requests are granted: it is trusted, or trusted for this run. */
  readonly isObeyed: boolean;
  /** Of a link, which is followed or refused, but cannot be left out. */
  readonly isLink?: true;
}

/** The trusted part of a file; `brought` is absent where it requests nothing or is the user's own. */
interface Admitted<T> {
  readonly admitted: T;
  readonly brought?: BroughtFile;
}

/** Which parts of a project's files are used, and the user's decisions about them. */
export interface Trust {
  settings(file: FoundFile, table: JsonTable, others?: readonly JsonTable[]): Admitted<JsonTable>;
  servers(file: FoundFile, servers: readonly McpServerConfig[]): Admitted<readonly McpServerConfig[]>;
  /** The sub-agents of a folder, which is taken for one file with the texts of all. */
  agents(folder: FoundFile, agents: readonly SubAgent[]): Admitted<readonly SubAgent[]>;
  /** A file with one request: a skill, whose text stands for all of its files, or AGENTS.md. */
  file(file: FoundFile, request: TrustRequest): BroughtFile | undefined;
  /** The project's link on the path to its state folder. */
  link(project: string, stateFolder: string): BroughtFile | undefined;
  /** Throws INVALID_PARAMS when the state folder lies behind such a link that is not trusted. */
  requireState(project: string, stateFolder: string): void;
  /** Stores that the user trusts this text of the file; throws INVALID_PARAMS where that fails. */
  remember(file: FoundFile): void;
  forget(path: string): void;
}

export interface TrustPlaces {
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether the project is trusted for this run. */
  readonly isTrusted?: boolean | undefined;
}

/**
 * Trust is stored in `~/.rkat/trust/`, one record per file: never in the project, which could ship it,
 * and without a common file that two processes could write at once.
 */
export function openTrust(places: TrustPlaces): Trust {
  const { home, env } = places;
  const folder = join(home, ".rkat", "trust");
  const isVouched = places.isTrusted === true || isTrustedBy(env.RKAT_TRUST);
  const judge = (file: FoundFile, requests: readonly TrustRequest[]): BroughtFile | undefined => {
    if (requests.length === 0 || isUsersOwn(file.path, places)) return undefined;
    const state = stateOf(file, folder);
    return { ...file, requests, state, isObeyed: isVouched || state === "trusted" };
  };
  const link = (project: string, stateFolder: string): BroughtFile | undefined => {
    const path = linkBetween(project, stateFolder);
    if (path === undefined) return undefined;
    const text = readlinkSync(path);
    const brought = judge({ path, text }, [requestOfLink(path, text)]);
    return brought && { ...brought, isLink: true };
  };
  return {
    settings: (file, given, others = []) => {
      const { requests, table, without } = requestsOfSettings(given, { env, others });
      const brought = judge(file, requests);
      return brought === undefined ? { admitted: table } : { admitted: brought.isObeyed ? table : without, brought };
    },
    servers: (file, servers) => {
      const brought = judge(file, requestsOfServers(servers));
      return brought === undefined ? { admitted: servers } : { admitted: brought.isObeyed ? servers : [], brought };
    },
    agents: (folder, agents) => {
      const brought = judge(folder, agents.map(requestOfAgent));
      return brought === undefined ? { admitted: agents } : { admitted: brought.isObeyed ? agents : [], brought };
    },
    file: (file, request) => judge(file, [request]),
    link,
    requireState: (project, stateFolder) => {
      const found = link(project, stateFolder);
      if (found === undefined || found.isObeyed) return;
      const advice = "rkat trust or --trust allows it, --state-root FOLDER keeps sessions elsewhere";
      throw new RuntimeError("INVALID_PARAMS", `${found.path} leads to ${found.text}, which is not trusted; ${advice}`);
    },
    remember: (file) => {
      const record = { ...placeOf(file.path), sha256: digest(file.text) };
      try {
        write(recordPath(file.path, folder), `${JSON.stringify(record)}\n`);
      } catch (cause) {
        const why = cause instanceof Error && "code" in cause ? cause.code : "it failed";
        const message = `${folder} cannot be written (${why}), so trust cannot be remembered; --trust or RKAT_TRUST=1 does for one command`;
        throw new RuntimeError("INVALID_PARAMS", message, { cause });
      }
    },
    forget: (path) => rmSync(recordPath(path, folder), { force: true }),
  };
}

/** One sentence on what is left out and how to trust it; undefined when everything is trusted. */
export function leftOutText(brought: readonly BroughtFile[]): string | undefined {
  const files = brought.filter(({ isObeyed, isLink }) => !isObeyed && isLink !== true);
  if (files.length === 0) return undefined;
  const parts = [...Map.groupBy(files, leftOutFrom).values()].map((group) => {
    const [{ state } = { state: "untrusted" as const }] = group;
    const path = group.map(describePlace)[0];
    const names = group.flatMap(({ requests }) => requests.map(({ name }) => name));
    const more = names.length - NAMED_MAX;
    const listed = names.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
    return `${listed} of ${path}${REMARKS[state]}`;
  });
  const advice = "rkat trust shows and trusts it, --trust or RKAT_TRUST=1 does for one command";
  return `left out until you trust this folder: ${parts.join("; ")} (${advice})`;
}

/** Skills of one folder are reported together. */
function describePlace({ path, requests: [first] }: BroughtFile): string {
  return first?.skill === undefined ? path : dirname(dirname(path));
}

function leftOutFrom(file: BroughtFile): string {
  return `${file.state} ${describePlace(file)}`;
}

const NAMED_MAX = 8;
const REMARKS = {
  trusted: "",
  untrusted: "",
  changed: ", which has changed since it was trusted",
  damaged: ", whose record in ~/.rkat/trust is damaged",
};

function isTrustedBy(variable: string | undefined): boolean {
  if (!isSet(variable) || /^(?:0|false)$/i.test(variable.trim())) return false;
  if (/^(?:1|true)$/i.test(variable.trim())) return true;
  throw new RuntimeError("INVALID_PARAMS", `RKAT_TRUST is ${JSON.stringify(variable)}; write 1, or leave it out`);
}

/** The project a file belongs to, and the file's name there. */
function placeOf(path: string): { readonly folder: string; readonly file: string } {
  const inside = dirname(path);
  const isHidden = basename(inside) === ".rkat";
  const folder = isHidden ? dirname(inside) : inside;
  return { folder: realPath(folder), file: isHidden ? join(".rkat", basename(path)) : basename(path) };
}

/** Files in the user's home, or in the folder of the user's realms, do not belong to a project. */
function isUsersOwn(path: string, { home, env }: TrustPlaces): boolean {
  const { folder } = placeOf(path);
  const data = env.XDG_DATA_HOME;
  const dataHome = data !== undefined && isAbsolute(data) ? data : join(home, ".local", "share");
  const own = [join(home, ".rkat"), join(dataHome, "rkat")].map((folder) => join(folder, "realms"));
  return folder === realPath(home) || own.some((root) => `${folder}${sep}`.startsWith(`${realPath(root)}${sep}`));
}

/** The first link below the project's folder on the way to one inside it; a folder elsewhere was chosen by the user. */
function linkBetween(project: string, folder: string): string | undefined {
  const way = relative(project, folder);
  if (way === "" || way.startsWith("..") || isAbsolute(way)) return undefined;
  let at = project;
  for (const name of way.split(sep)) {
    at = join(at, name);
    if (isLink(at)) return at;
  }
  return undefined;
}

/** False also where the path cannot be read: its user reports that. */
function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    return false;
  }
}

/** A path that does not exist is compared as it was written. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** By folder and name, not by the text alone: the same text may start other programs in another folder. */
function recordPath(path: string, folder: string): string {
  // Sub-agents keep the record of their former folder, so that files that were moved stay trusted.
  const place = placeOf(path.replace(/(?<=\.rkat[/\\])sub-agents$/, "agents"));
  return join(folder, `${hash("sha256", `${place.folder}\0${place.file}`)}.json`);
}

function stateOf({ path, text }: FoundFile, folder: string): BroughtFile["state"] {
  try {
    const record: unknown = JSON.parse(readFileSync(recordPath(path, folder), "utf8"));
    if (typeof record !== "object" || record === null || !("sha256" in record)) return "damaged";
    return record.sha256 === digest(text) ? "trusted" : "changed";
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? String(thrown.code) : "";
    return ["ENOENT", "ENOTDIR"].includes(code) ? "untrusted" : "damaged";
  }
}

function digest(text: string): string {
  return hash("sha256", text);
}

/** Atomic, also when two processes write. */
function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const beside = `${path}.${randomUUID()}.new`;
  writeFileSync(beside, text, { mode: 0o600, flag: "wx" });
  renameSync(beside, path);
}
