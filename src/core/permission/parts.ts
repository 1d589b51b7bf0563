import type { JsonObject } from "../../contract/session.ts";
import { createPlacing, pathsOf, type ReadLink } from "./paths.ts";
import type { Part } from "./pattern.ts";
import { readShellLine } from "./shell.ts";
import type { ShellCommand, ShellLine } from "./shell-command.ts";
import { isToldByLine, namesIn, tellingTexts } from "./shell-leaves.ts";

export interface PartsSource {
  readonly tool: string;
  readonly args: JsonObject;
  readonly root: string;
  /** Without it no link is followed. */
  readonly readLink?: ReadLink | undefined;
}

/** Files of one call that are looked at; of the others it cannot be told which they are. */
const PATHS_MAX = 1_000;

/** Shells whose command lines are read here; what another one makes of a line is not known. */
const READ_SHELLS = /(?:^|\/)(?:bash|sh|dash)$/;

/** What of a call must be allowed: its commands and the files they write, its files, or the call as a whole. */
export function partsOf(call: PartsSource, shellProgram?: string): readonly Part[] {
  const { tool, args, root, readLink } = call;
  if (tool === "shell") return shellParts(call, shellProgram);
  const paths = pathsOf(tool, args);
  if (paths.length === 0) return [{ kind: "call" }];
  const place = createPlacing({ folder: root, root }, readLink);
  return paths.slice(0, PATHS_MAX + 1).map((path, at) => ({
    kind: "path",
    tool,
    path: path === undefined || at === PATHS_MAX ? undefined : place(path),
    within: [],
  }));
}

function shellParts({ args, root, readLink }: PartsSource, shellProgram = "bash"): readonly Part[] {
  const { command, working_dir } = args;
  const unread = (why: string): readonly Part[] => [{ kind: "unknown", why, within: [] }];
  if (typeof command !== "string") return unread("it has no command line");
  if (!READ_SHELLS.test(shellProgram)) return unread(`command lines of ${shellProgram} are not read`);
  const folder = typeof working_dir === "string" ? `${root}/${working_dir}` : root;
  const seeing = { place: createPlacing({ folder, root }, readLink), namesOf: createNaming(command) };
  const parts = partsOfLine(readShellLine(command), [], seeing);
  // A comment does what `:` does.
  return parts.length === 0 ? partsOfLine(readShellLine(":"), [], seeing) : parts;
}

type Within = Extract<Part, { kind: "unknown" }>["within"];

interface Seeing {
  readonly place: (path: string) => Extract<Part, { kind: "path" }>["path"];
  readonly namesOf: (command: ShellCommand) => Extract<Part, { kind: "command" }>["names"];
}

/** What may name a program that a command starts: its own words; where the line tells it, all of the line, once. */
function createNaming(line: string): Seeing["namesOf"] {
  let isLineRead = false;
  return (command) => {
    const isLine = !isLineRead && isToldByLine(command);
    isLineRead ||= isLine;
    return namesIn(tellingTexts(command, isLine ? [line] : []));
  };
}

function partsOfLine(line: ShellLine, within: Within, seeing: Seeing): readonly Part[] {
  const { commands, writes, unknown } = line;
  return [
    ...commands.flatMap((command): readonly Part[] => {
      const { runs } = command;
      const inner =
        runs === undefined ? [] : partsOfLine(runs.line, [...within, { command, namedTo: runs.namedTo }], seeing);
      return [{ kind: "command", command, names: seeing.namesOf(command), within }, ...inner];
    }),
    // A file of the shell is judged as one that is patched: what a rule says of a file holds whoever changes it.
    ...writes.map(
      (path): Part => ({
        kind: "path",
        tool: "apply_patch",
        path: path === undefined ? undefined : seeing.place(path),
        within,
      }),
    ),
    ...(unknown === undefined ? [] : [{ kind: "unknown", why: unknown, within } as const]),
  ];
}
