import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import type { createConformance } from "@rkat/conformance/conformance";
import type { Config } from "@rkat/core/config/config-schema";
import type { Runtime } from "@rkat/core/create-runtime";
import type { LocalServer } from "@rkat/core/providers/local-servers";
import type { createScriptedModel } from "@rkat/core/providers/scripted";
import type { runOwnCommand } from "@rkat/core/tools/shell";
import { backendNote, resolveRealm } from "@rkat/node/config/realm";
import type { OpenOptions, verifyStore } from "@rkat/node/open-runtime";
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

/** What only the entry point can do, and what tests replace; commands import everything else on first use. */
export interface Parts {
  openRuntime(options: OpenOptions): Promise<Runtime>;
  /** Checks every checksum of the logs in a state folder; it changes nothing. */
  readonly verifyStore: typeof verifyStore;
  /** Serves until the client or a signal ends it, and resolves with the exit code. */
  serve(kind: ServerKind, args: readonly string[]): Promise<number>;
  /** Runs a command line that a person typed, in the project's folder; never rejects. */
  runOwnCommand(command: Omit<Parameters<typeof runOwnCommand>[0], "clock">): ReturnType<typeof runOwnCommand>;
  /** The words that start this program, for configurations of others. */
  self(): Promise<readonly string[]>;
  /** The scenarios that must give the same result on every surface. */
  loadConformance(): Promise<ReturnType<typeof createConformance>>;
  inspectModels(config: Config): Promise<ModelOutlook>;
  /** Asks model servers on this machine which models they serve. */
  findLocalServers(signal: AbortSignal): Promise<readonly LocalServer[]>;
  createScriptedModel(
    script: Parameters<typeof createScriptedModel>[0],
  ): Promise<ReturnType<typeof createScriptedModel>>;
}

export type ServerKind = "rpc" | "mcp" | "acp" | "rest" | "console";

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
  /** Where AGENTS.md is looked for; --no-agents-md says nowhere. */
  readonly agentsMd: "all" | "none";
  readonly realm: string;
  readonly isChosen: boolean;
  readonly stateFolder: string;
  /** What --store says about a database; undefined where it was not given. */
  readonly storeUrl?: string | null;
  /** The flag that names the same place in a further command; empty where none is needed. */
  readonly storeFlag: string;
}

interface PlaceFlags {
  readonly realm?: string;
  readonly isolated?: boolean;
  readonly realmBackend?: string;
  readonly stateRoot?: string;
  readonly store?: string;
  readonly contextRoot?: string;
  readonly userConfigRoot?: string;
  readonly trust?: boolean;
  readonly agentsMd?: boolean;
}

export function addPlaceFlags(program: Command): void {
  const shown = [
    new Option("-r, --realm <name>", "work in this realm; by default, each folder has its own"),
    new Option("--isolated", "work in a fresh realm"),
    new Option(
      "--store <place>",
      "open this state folder of a program, or this database: postgres://USER@HOST/DATABASE",
    ),
    new Option("--state-root <folder>", "keep realms here instead of in .rkat/realms"),
    new Option("--context-root <folder>", "work on this folder instead of the current one"),
    new Option("--user-config-root <folder>", "look here for .rkat/config.toml, instead of at home"),
    new Option("--trust", "trust this project for this run only"),
    new Option("--no-agents-md", "do not read AGENTS.md or CLAUDE.md"),
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

/** The same command as if it were called in another folder, without flags for the place. */
export function invocationIn(invocation: Invocation, folder: string): Invocation {
  const { userRoot: userConfigRoot } = invocation.place();
  const io = { ...invocation.io, cwd: folder };
  const place = settlePlace(io, { userConfigRoot });
  return { ...invocation, io, place: () => place };
}

/** An address with a password is not repeated. */
function storeFlagOf(place: string | undefined): string {
  if (place === undefined) return "";
  return /^[\w./~-]+$/.test(place) ? ` --store ${place}` : " --store …";
}

function settlePlace(io: Io, flags: PlaceFlags): Place {
  const { cwd, home } = io;
  const note = backendNote(flags.realmBackend);
  if (note !== undefined) io.stderr.write(`${note}\n`);
  return {
    projectRoot: resolve(cwd, flags.contextRoot ?? ""),
    userRoot: flags.userConfigRoot === undefined ? home : resolve(cwd, flags.userConfigRoot),
    isTrusted: flags.trust === true,
    agentsMd: flags.agentsMd === false ? "none" : "all",
    storeFlag: storeFlagOf(flags.store),
    ...resolveRealm({ ...flags, cwd, home, newId: randomUUID, purpose: "cli" }),
  };
}
