import type { JsonObject } from "../../contract/session.ts";
import { createPlacing, pathsOf } from "./paths.ts";
import type { Part } from "./pattern.ts";
import { readShellLine } from "./shell.ts";
import type { ShellLine } from "./shell-command.ts";

export interface PartsSource {
  readonly tool: string;
  readonly args: JsonObject;
  readonly root: string;
}

/** Shells whose command lines are read here; what another one makes of a line is not known. */
const READ_SHELLS = /(?:^|\/)(?:bash|sh|dash)$/;

/** What of a call must be allowed: its commands and the files they write, its files, or the call as a whole. */
export function partsOf(call: PartsSource, shellProgram?: string): readonly Part[] {
  const { tool, args, root } = call;
  if (tool === "shell") return shellParts(args, root, shellProgram);
  const paths = pathsOf(tool, args);
  if (paths.length === 0) return [{ kind: "call" }];
  const place = createPlacing(root, root);
  return paths.map((path) => ({
    kind: "path",
    tool,
    path: path === undefined ? undefined : place(path),
    within: [],
  }));
}

function shellParts({ command, working_dir }: JsonObject, root: string, shellProgram = "bash"): readonly Part[] {
  const unread = (why: string): readonly Part[] => [{ kind: "unknown", why, within: [] }];
  if (typeof command !== "string") return unread("it has no command line");
  if (!READ_SHELLS.test(shellProgram)) return unread(`command lines of ${shellProgram} are not read`);
  const folder = typeof working_dir === "string" ? `${root}/${working_dir}` : root;
  const parts = partsOfLine(readShellLine(command), [], createPlacing(folder, root));
  return parts.length === 0 ? unread("it runs nothing") : parts;
}

type Within = Extract<Part, { kind: "unknown" }>["within"];
type Place = (path: string) => Extract<Part, { kind: "path" }>["path"];

function partsOfLine(line: ShellLine, within: Within, place: Place): readonly Part[] {
  const { commands, writes, unknown } = line;
  return [
    ...commands.flatMap((command): readonly Part[] => {
      const { runs } = command;
      const inner =
        runs === undefined ? [] : partsOfLine(runs.line, [...within, { command, namedTo: runs.namedTo }], place);
      return [{ kind: "command", command, within }, ...inner];
    }),
    // A file of the shell is judged as one that is patched: what a rule says of a file holds whoever changes it.
    ...writes.map(
      (path): Part => ({
        kind: "path",
        tool: "apply_patch",
        path: path === undefined ? undefined : place(path),
        within,
      }),
    ),
    ...(unknown === undefined ? [] : [{ kind: "unknown", why: unknown, within } as const]),
  ];
}
