import { realpath } from "node:fs/promises";
import { isAbsolute, relative, resolve } from "node:path";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { McpServerConfig } from "@rkat/core/ports/tool";
import { realmOfFolder } from "@rkat/node/config/realm";
import { readFlags, type ServerFlags, serverFlags } from "../http/flags.ts";
import { createJournal, type LogForm } from "../http/journal.ts";
import { acpHelp, SERVER_FLAGS, usageText } from "../http/server-help.ts";
import {
  type ServerIo,
  type ServerKind,
  type ServerParts,
  type Serving,
  serveFolder,
  startServer,
} from "../http/start.ts";
import type { SessionServers } from "./servers.ts";
import type { Mode } from "./session-options.ts";
import type { Folder } from "./sessions.ts";

export interface AcpParts extends ServerParts {
  /** The real place of a path relative to a project; rejects what lies outside, by name or through a link. */
  resolveInProject(root: string, path: string): Promise<string>;
  keylessProviders(env: ServerIo["env"], config: Serving<ServerFlags>["config"]): Promise<readonly string[]>;
  /** Makes the tools of MCP servers that a client brings; nothing is started before they are prepared. */
  openServers(
    servers: readonly McpServerConfig[],
    place: { readonly root: string; readonly env: ServerIo["env"]; readonly warn: (sentence: string) => void },
  ): Promise<SessionServers>;
}

const COMMAND = "rkat-acp";
/** With the turns before it, less than clients wait before they kill. */
const CLOSE_MS_MAX = 2_000;
/** Folders that one editor may work in at once. */
const FOLDERS_MAX = 32;

/** Serves the Agent Client Protocol on stdin and stdout until they end, and returns the exit code. It does not throw. */
export function startAcp(io: ServerIo, parts: AcpParts): Promise<number> {
  return startServer(
    io,
    parts,
    kindFor(io, (serving) => serve(io, parts, serving)),
  );
}

function kindFor(
  { cwd }: Pick<ServerIo, "cwd">,
  serve: (serving: Serving<ServerFlags>) => Promise<void>,
): ServerKind<ServerFlags> {
  return {
    command: COMMAND,
    usage: usageText(COMMAND, acpHelp(COMMAND)),
    parseFlags: (args) => serverFlags(readFlags(args, SERVER_FLAGS)),
    realmFor: (flags) => realmOfFolder(cwd, flags),
    mayKeepInProject: true,
    showsPaths: () => false,
    http: () => undefined,
    closeMsMax: CLOSE_MS_MAX,
    serve,
  };
}

async function serve(io: ServerIo, parts: AcpParts, serving: Serving<ServerFlags>): Promise<void> {
  const { serveStdio } = await import("./serve-stdio.ts");
  const { clock } = serving;
  const folders = createFolders(io, parts, serving);
  try {
    const streams = { input: io.stdin, output: io.stdout, clock, signal: io.interrupt };
    await serveStdio({ ...streams, version: io.version, folderOf: folders.find, knownFolders: folders.known });
  } finally {
    await folders.close();
  }
}

/** The folders that sessions of a client work in; each has its own configuration, realm and runtime. */
interface Folders {
  find(cwd: string | undefined): Promise<Folder>;
  known(): Promise<readonly Folder[]>;
  close(): Promise<void>;
}

function createFolders(io: ServerIo, parts: AcpParts, own: Serving<ServerFlags>): Folders {
  const { clock, flags, log } = own;
  const closing = Promise.withResolvers<void>();
  const served = new Set<Promise<void>>();
  const asFolder = async (root: string, { runtime, config }: Serving<ServerFlags>): Promise<Folder> => ({
    root,
    runtime,
    most: mostOf(config),
    keyless: await parts.keylessProviders(io.env, config),
    placeOf: (path) => parts.resolveInProject(root, relative(root, resolve(root, path)) || "."),
    openServers: (servers) => parts.openServers(servers, { root, env: io.env, warn: log }),
  });
  const ownRoot = resolve(io.cwd, flags.contextRoot ?? "");
  const folders = new Map<string, Promise<Folder>>();
  const openFolder = (root: string): Promise<Folder> => {
    const opened = Promise.withResolvers<Folder>();
    const kind = kindFor({ cwd: root }, async (serving) => {
      opened.resolve(await asFolder(root, serving));
      await closing.promise;
    });
    const useLog = (form: LogForm) => createJournal({ stream: io.stderr, form, command: COMMAND, now: clock.now });
    const how = { kind, flags: { ...flags, contextRoot: undefined }, clock, useLog };
    const ended = serveFolder({ ...io, cwd: root }, parts, how).catch((thrown: unknown) => {
      // The problem may be fixed before the next session.
      folders.delete(root);
      opened.reject(thrown);
    });
    served.add(ended);
    return opened.promise;
  };
  return {
    find: async (cwd) => {
      const root = cwd === undefined ? ownRoot : await folderAt(cwd);
      const isOwn = root === ownRoot || root === (await realpath(ownRoot));
      const key = isOwn ? ownRoot : root;
      const known = folders.get(key);
      if (known !== undefined) return known;
      if (folders.size >= FOLDERS_MAX) {
        throw new RuntimeError("AGENT_ERROR", `cwd: this process works in ${FOLDERS_MAX} folders, its limit`);
      }
      const folder = isOwn ? asFolder(ownRoot, own) : openFolder(root);
      folders.set(key, folder);
      return folder;
    },
    known: async () => {
      const all = await Promise.allSettled(folders.values());
      return all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    },
    close: async () => {
      closing.resolve();
      await Promise.all(served);
    },
  };
}

async function folderAt(cwd: string): Promise<string> {
  if (!isAbsolute(cwd)) throw invalid(`cwd: ${cwd} is not absolute; write the whole path`);
  try {
    return await realpath(cwd);
  } catch (cause) {
    throw invalid(`cwd: there is no folder ${cwd}`, cause);
  }
}

/** The most that the tools of sessions may do by the configuration. */
function mostOf({ forbidden, ceiling }: Serving<ServerFlags>["config"]): Mode {
  if (ceiling.tools === "none") return "none";
  const isSafe = ceiling.tools === "safe" || forbidden.includes("shell") || forbidden.includes("builtins");
  return isSafe ? "safe" : "workspace";
}
