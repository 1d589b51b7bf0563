import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import type { Config, LoadedConfig, loadConfig } from "../../config/load-config.ts";
import type { Entry } from "../../contract/entry.ts";
import type { AgentEvent } from "../../contract/event.ts";
import type { HookEntry } from "../../contract/hook.ts";
import type { JsonTable } from "../../contract/input.ts";
import type { JsonSchema } from "../../contract/requests.ts";
import type { Policy, Simulation } from "../../contract/simulation.ts";
import type { ModelClient, ModelFailure, ModelRequest } from "../../ports/model.ts";
import type { Store } from "../../ports/store.ts";
import type { SubAgent } from "../../ports/sub-agent.ts";
import type { Runtime, RuntimeOptions } from "../../runtime.ts";
import type { inspectDatabase, openDatabaseTokens } from "../../runtime-in-database.ts";
import type { inspectMcpServers, OpenOptions } from "../../runtime-on-disk.ts";
import type { CompactionOptions } from "../../service/session-settings.ts";
import type { SimulationOptions } from "../../service/simulation.ts";
import type { CopyReport } from "../../service/store-copy.ts";
import type {
  backUpStore,
  CopyStoreOptions,
  listBackups,
  restoreBackup,
  StoreAddress,
  verifyBackup,
  writeArchive,
} from "../../store-places.ts";
import { backendNote, resolveRealm } from "../wire/realm.ts";
import type { Io } from "./io.ts";

/** One call of the command line. */
export interface Invocation {
  readonly io: Io;
  readonly parts: Parts;
  /** Where the command works; throws when the flags do not say it clearly. */
  place(): Place;
  exitWith(code: number): void;
  /** Says on stderr what was dealt with otherwise than one might expect; the same sentence only once. */
  warnOnce(sentence: string): void;
}

/** What the door composes for the command line; each part is loaded when it is first asked for. */
export interface Parts {
  readonly loadConfig: typeof loadConfig;
  /** Every key of the configuration's file, with what is said of it. */
  configFileSchema(): Promise<JsonSchema>;
  createRuntime(options: RuntimeOptions): Promise<Runtime>;
  openRuntime(options: OpenOptions): Promise<Runtime>;
  createInMemoryStore(): Promise<Store>;
  /** Checks every checksum of the logs in a state folder; it changes nothing. */
  verifyStore(
    folder: string,
    options: { readonly encryption?: Config["encryption"]; readonly env: Io["env"] },
  ): Promise<StoreReport>;
  /** Keys of realms: made, looked at, changed. */
  encryption(): Promise<SealedRealms>;
  /** Asks a database how it is; it changes nothing. */
  readonly inspectDatabase: typeof inspectDatabase;
  readonly openDatabaseTokens: typeof openDatabaseTokens;
  /** Checks what a realm keeps in a database; it changes nothing. */
  verifyDatabase(address: StoreAddress): Promise<Omit<StoreReport, "segments">>;
  /** Copies what is kept at one place to another. */
  copyStore(from: StoreAddress, to: StoreAddress, options: CopyStoreOptions): Promise<CopyReport>;
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
  /** Serves the console until it is interrupted, and opens it where somebody can see it; returns the exit code. */
  serveConsole(args: readonly string[]): Promise<number>;
  readonly inspectMcpServers: typeof inspectMcpServers;
  /** Calls a hook once, as a turn would. */
  tryHook(
    entry: HookEntry,
    payload: JsonTable,
    at: { readonly root: string; readonly env: Io["env"]; readonly config: Config; readonly signal: AbortSignal },
  ): Promise<HookTrial>;
  /** Runs a command line that a person typed, in the project's folder; never rejects. */
  runOwnCommand(command: OwnCommand): Promise<CommandEnd>;
  /** Reads and writes the configuration's own format; a text that is none of it throws INVALID_PARAMS with the name. */
  toml(): Promise<{ parse(text: string, name: string): JsonTable; format(table: JsonTable): string }>;
  /** Replays recorded logs under other policies. */
  loadLaboratory(): Promise<Laboratory>;
  /** The scenarios that every surface must tell alike. */
  loadConformance(): Promise<Conformance>;
  inspectModels(config: Config): Promise<ModelOutlook>;
  /** Asks the servers that one may have on this machine which models they serve. */
  findLocalServers(signal: AbortSignal): Promise<readonly LocalServer[]>;
  /** Whom sessions can hand tasks to, by what was read here. */
  subAgentsOf(loaded: Pick<LoadedConfig, "config" | "subAgents">): Promise<readonly SubAgent[]>;
  createScriptedModel(script: (request: ModelRequest, index: number) => ScriptedAnswer): Promise<ModelClient>;
}

/** What a turn would make of a hook. */
interface HookTrial {
  readonly events: readonly AgentEvent[];
  readonly denied?: string;
  readonly args?: object;
  readonly result?: object;
}

/** A command line that a person typed, and who hears its output as it comes. */
interface OwnCommand {
  readonly command: string;
  readonly root: string;
  readonly env: Io["env"];
  readonly signal: AbortSignal;
  hear(bytes: Uint8Array, from: "stdout" | "stderr"): void;
}

type CommandEnd =
  | { readonly kind: "exited"; readonly exitCode: number }
  | { readonly kind: "signalled"; readonly signal: string }
  | { readonly kind: "not_started"; readonly reason: string }
  | { readonly kind: "cancelled" | "timed_out" | "flooded" };

/** What can be done about the key of a realm. */
interface SealedRealms {
  newRealmKey(): string;
  inspectSeal(folder: string): Promise<SealReport | undefined>;
  keepsPlain(folder: string): boolean;
  enableEncryption(folder: string, encryption: Config["encryption"], env: Io["env"]): Promise<boolean>;
  rotateRealmKey(
    folder: string,
    change: { readonly from: Config["encryption"]; readonly to: Config["encryption"]; readonly env: Io["env"] },
  ): Promise<boolean>;
}

interface SealReport {
  readonly keyId: string;
  readonly keys: number;
  readonly isPlainBefore: boolean;
  readonly problems: readonly string[];
}

/** Where policies are tried on recorded logs. */
export interface Laboratory {
  /** Throws INVALID_PARAMS, naming the file, the key and the fix. */
  loadPolicy(
    text: string,
    where: { readonly path: string; readonly shown: string; readonly named: string },
  ): Promise<LaboratoryPolicy>;
  /** Every entry of a session that is kept at a place. */
  readKeptLog(address: StoreAddress, sessionId: string, encryption: Config["encryption"]): Promise<readonly Entry[]>;
  runSimulation(options: LaboratoryOptions): Promise<Simulation>;
}

/** A policy with what of it is code. */
export interface LaboratoryPolicy extends Policy {
  readonly options?: CompactionOptions | undefined;
}

/** What is replayed, and with whose prices and models. */
interface LaboratoryOptions extends Pick<SimulationOptions, "logs" | "summariesBy" | "model" | "signal" | "progress"> {
  readonly policies: readonly LaboratoryPolicy[];
  /** Says which models there are and what they charge. */
  readonly config: Config;
  readonly env: Io["env"];
}

/** Scenarios, and the telling of them to surfaces and servers. */
interface Conformance {
  readonly scenarios: readonly { readonly name: string; readonly title: string }[];
  /** The configuration that a server at an address must have been started with. */
  configuration(modelPort: number): string;
  run(options: ConformanceOptions): AsyncIterable<ConformanceReport>;
}

/** Which scenarios are told, and to whom; without a target, to this installation's own surfaces. */
export interface ConformanceOptions {
  readonly target?:
    | { readonly kind: "rpc" | "mcp"; readonly words: readonly string[] }
    | { readonly kind: "rest-url"; readonly url: string; readonly token: string | undefined }
    | { readonly kind: "mcp-url"; readonly url: string; readonly token: string | undefined };
  readonly only: readonly string[];
  readonly modelPort: number;
  readonly signal: AbortSignal;
}

/** What came of one scenario on one surface. */
export interface ConformanceReport {
  readonly surface: string;
  readonly scenario: string;
  readonly verdict:
    | { readonly kind: "ok" }
    | { readonly kind: "failed"; readonly difference: string }
    | { readonly kind: "not applicable"; readonly reason: string };
}

/** What a store holds, and what of it is damaged. */
interface StoreReport {
  readonly segments: number;
  readonly records: number;
  readonly sessions: number;
  readonly agents: number;
  readonly bytes: number;
  readonly blobs?: number;
  readonly problems: readonly string[];
}

/** Which models could answer as things are. It never holds a key. */
export interface ModelOutlook {
  readonly providers: readonly {
    readonly provider: string;
    readonly keyVariable: string;
    readonly hasKey: boolean;
    readonly baseUrl: string;
    readonly defaultModel: string;
  }[];
  /** Finds the model that is used when nobody names one; throws, in one sentence, when there is none. */
  chooseDefault(): Promise<{ readonly provider: string; readonly modelId: string }>;
}

/** A server of models that answered. */
export interface LocalServer {
  /** What a configuration calls it: `ollama` is known without one. */
  readonly name: string;
  readonly title: string;
  readonly baseUrl: string;
  readonly models: readonly { readonly name: string; readonly bytes?: number | undefined }[];
}

/** One answer of a scripted model. */
interface ScriptedAnswer {
  readonly text?: string | readonly string[];
  readonly calls?: readonly { readonly name: string; readonly args?: Record<string, unknown> }[];
  readonly ends?: { readonly failure: ModelFailure };
}

/** Where a command works: the project's folder, its realm, and the folder that keeps it. */
export interface Place {
  /** The folder the configuration is looked for in and tools work in. */
  readonly projectRoot: string;
  /** The folder that holds the user's own `.rkat/config.toml`. */
  readonly userRoot: string;
  /** Whoever called the command vouches for what the project's files want. */
  readonly isTrusted: boolean;
  readonly realm: string;
  /** Whether a flag chose the realm. */
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
    new Option("-r, --realm <name>", "work in this realm; without it, the folder has one of its own"),
    new Option("--isolated", "work in a fresh realm"),
    new Option("--state-root <folder>", "keep realms here instead of in .rkat/realms"),
    new Option("--context-root <folder>", "work on this folder instead of the current one"),
    new Option("--user-config-root <folder>", "look here for .rkat/config.toml, instead of at home"),
    new Option("--trust", "obey the project's files though nobody trusted them, this once"),
  ];
  // Other runtimes of this contract have them; what starts those must be able to start this.
  const accepted = [new Option("--instance <name>"), new Option("--realm-backend <name>")];
  for (const option of shown) program.addOption(option.helpGroup("Where sessions are kept; every command takes these"));
  for (const option of accepted) program.addOption(option.hideHelp());
}

/** Settles the place once; flags that contradict each other are refused when it is first asked for. */
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
