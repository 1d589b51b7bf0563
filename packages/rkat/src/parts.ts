import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import type { createConformance } from "@rkat/conformance/conformance";
import type { loadPolicy, runSimulation } from "@rkat/conformance/laboratory";
import type { tryHook } from "@rkat/core/composed-hooks";
import type { subAgentsOf } from "@rkat/core/composed-tools";
import type { Config } from "@rkat/core/config/config-schema";
import type { JsonTable } from "@rkat/core/contract/input";
import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import type { Runtime, RuntimeOptions } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import type { LocalServer } from "@rkat/core/providers/local-servers";
import type { createScriptedModel } from "@rkat/core/providers/scripted";
import type { runOwnCommand } from "@rkat/core/tools/shell";
import type { LoadedConfig, loadConfig } from "@rkat/node/config/load-config";
import { backendNote, resolveRealm } from "@rkat/node/config/realm";
import type { inspectMcpServers, OpenOptions, verifyStore } from "@rkat/node/open-runtime";
import type { enableEncryption, inspectSeal, keepsPlain, newRealmKey, rotateRealmKey } from "@rkat/node/sealed-realm";
import type {
  backUpStore,
  copyStore,
  listBackups,
  readKeptLog,
  restoreBackup,
  verifyBackup,
  verifyDatabase,
  writeArchive,
} from "@rkat/node/store-places";
import type { inspectDatabase, openDatabaseTokens } from "@rkat/postgres";
import { type Command, Option } from "commander";
import type { Io } from "./io.ts";

export interface Invocation {
  readonly io: Io;
  readonly parts: Parts;
  /** Where the command works; throws when the flags do not say it clearly. */
  place(): Place;
  exitWith(code: number): void;
  /** Prints a warning on stderr; the same sentence only once. */
  warnOnce(sentence: string): void;
}

/** The parts that the entry point composes for the command line; each is loaded on first use. */
export interface Parts {
  readonly loadConfig: typeof loadConfig;
  /** Every key of the configuration file, with its description. */
  configFileSchema(): Promise<JsonSchema>;
  createRuntime(options: RuntimeOptions): Promise<Runtime>;
  openRuntime(options: OpenOptions): Promise<Runtime>;
  createInMemoryStore(): Promise<Store>;
  /** Checks every checksum of the logs in a state folder; it changes nothing. */
  readonly verifyStore: typeof verifyStore;
  encryption(): Promise<{
    readonly newRealmKey: typeof newRealmKey;
    readonly inspectSeal: typeof inspectSeal;
    readonly keepsPlain: typeof keepsPlain;
    readonly enableEncryption: typeof enableEncryption;
    readonly rotateRealmKey: typeof rotateRealmKey;
  }>;
  /** Reads the state of a database; it changes nothing. */
  readonly inspectDatabase: typeof inspectDatabase;
  readonly openDatabaseTokens: typeof openDatabaseTokens;
  /** Checks the data of a realm in a database; it changes nothing. */
  readonly verifyDatabase: typeof verifyDatabase;
  /** Copies a realm from one place to another. */
  readonly copyStore: typeof copyStore;
  /** Backs a state folder up while it is written to. */
  readonly backUpStore: typeof backUpStore;
  /** Checks a back-up; it changes nothing. */
  readonly verifyBackup: typeof verifyBackup;
  readonly restoreBackup: typeof restoreBackup;
  readonly listBackups: typeof listBackups;
  /** Writes files to a tar; resolves with its length. */
  readonly writeArchive: typeof writeArchive;
  /** Serves JSON-RPC on stdin and stdout until they end; returns the exit code. */
  serveRpc(args: readonly string[]): Promise<number>;
  /** Serves MCP until its client or a signal ends it; returns the exit code. */
  serveMcp(args: readonly string[]): Promise<number>;
  /** Serves the Agent Client Protocol on stdin and stdout until they end; returns the exit code. */
  serveAcp(args: readonly string[]): Promise<number>;
  /** Serves HTTP until it is interrupted; returns the exit code. */
  serveRest(args: readonly string[]): Promise<number>;
  /** Serves the console until it is interrupted, and opens a browser where there is a display; returns the exit code. */
  serveConsole(args: readonly string[]): Promise<number>;
  readonly inspectMcpServers: typeof inspectMcpServers;
  readonly tryHook: typeof tryHook;
  /** Runs a command line that a person typed, in the project's folder; never rejects. */
  runOwnCommand(command: Omit<Parameters<typeof runOwnCommand>[0], "clock">): ReturnType<typeof runOwnCommand>;
  /** Reads and writes TOML; invalid TOML throws INVALID_PARAMS with the name. */
  toml(): Promise<{ parse(text: string, name: string): JsonTable; format(table: JsonTable): string }>;
  /** Replays recorded logs under other policies. */
  loadLaboratory(): Promise<Laboratory>;
  /** The scenarios that must give the same result on every surface. */
  loadConformance(): Promise<ReturnType<typeof createConformance>>;
  inspectModels(config: Config): Promise<ModelOutlook>;
  /** Asks model servers on this machine which models they serve. */
  findLocalServers(signal: AbortSignal): Promise<readonly LocalServer[]>;
  /** The sub-agents that sessions can delegate to, by the configuration that was read. */
  subAgentsOf(loaded: Pick<LoadedConfig, "config" | "subAgents">): Promise<ReturnType<typeof subAgentsOf>>;
  createScriptedModel(
    script: Parameters<typeof createScriptedModel>[0],
  ): Promise<ReturnType<typeof createScriptedModel>>;
}

/** Where policies are tried on recorded logs. */
export interface Laboratory {
  readonly loadPolicy: typeof loadPolicy;
  readonly readKeptLog: typeof readKeptLog;
  readonly runSimulation: typeof runSimulation;
}

/** The models that can be used now. It never holds a key. */
export interface ModelOutlook {
  readonly providers: readonly {
    readonly provider: string;
    readonly keyVariable: string;
    readonly hasKey: boolean;
    readonly baseUrl: string;
    readonly defaultModel: string;
  }[];
  /** Finds the default model; throws, in one sentence, when there is none. */
  chooseDefault(): Promise<{ readonly provider: string; readonly modelId: string }>;
}

/** Where a command works: the project's folder, its realm, and the folder that keeps it. */
export interface Place {
  /** The folder the configuration is looked for in and tools work in. */
  readonly projectRoot: string;
  /** The folder that holds the user's own `.rkat/config.toml`. */
  readonly userRoot: string;
  /** Whether --trust was given: the project's files are trusted for this run. */
  readonly isTrusted: boolean;
  readonly realm: string;
  readonly isChosen: boolean;
  readonly stateFolder: string;
}

interface PlaceFlags {
  readonly realm?: string;
  readonly isolated?: boolean;
  readonly realmBackend?: string;
  readonly stateRoot?: string;
  readonly contextRoot?: string;
  readonly userConfigRoot?: string;
  readonly trust?: boolean;
}

/** Declares the flags that every command takes. */
export function addPlaceFlags(program: Command): void {
  const shown = [
    new Option("-r, --realm <name>", "work in this realm; by default, each folder has its own"),
    new Option("--isolated", "work in a fresh realm"),
    new Option("--state-root <folder>", "keep realms here instead of in .rkat/realms"),
    new Option("--context-root <folder>", "work on this folder instead of the current one"),
    new Option("--user-config-root <folder>", "look here for .rkat/config.toml, instead of at home"),
    new Option("--trust", "trust this project for this run only"),
  ];
  // Accepted and ignored: programs that start other runtimes of this contract pass them.
  const accepted = [new Option("--instance <name>"), new Option("--realm-backend <name>")];
  for (const option of shown) program.addOption(option.helpGroup("Where sessions are kept; every command takes these"));
  for (const option of accepted) program.addOption(option.hideHelp());
}

/** Resolves the place on first use; contradicting flags are refused then. */
export function createPlace(io: Io, program: Command): () => Place {
  let place: Place | undefined;
  return () => {
    place ??= settlePlace(io, program.opts<PlaceFlags>());
    return place;
  };
}

function settlePlace(io: Io, flags: PlaceFlags): Place {
  const { cwd, home } = io;
  const note = backendNote(flags.realmBackend);
  if (note !== undefined) io.stderr.write(`${note}\n`);
  return {
    projectRoot: resolve(cwd, flags.contextRoot ?? ""),
    userRoot: flags.userConfigRoot === undefined ? home : resolve(cwd, flags.userConfigRoot),
    isTrusted: flags.trust === true,
    ...resolveRealm({ ...flags, cwd, home, newId: randomUUID, purpose: "cli" }),
  };
}
