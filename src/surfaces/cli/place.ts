import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { backendNote, resolveRealm } from "../wire/realm.ts";
import type { Io } from "./io.ts";

/** Where a command works: the project's folder, its realm, and the folder that keeps it. */
export interface Place {
  /** The folder the configuration is looked for in and tools work in. */
  readonly projectRoot: string;
  /** The folder that holds the user's own `.rkat/config.toml`. */
  readonly userRoot: string;
  /** Whoever called the command vouches for what the project's files want. */
  readonly isTrusted: boolean;
  readonly realm: string;
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
