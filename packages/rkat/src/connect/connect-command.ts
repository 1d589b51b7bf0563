import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { lstat, mkdir, readFile, rm, rmdir } from "node:fs/promises";
import { platform } from "node:os";
import { dirname, isAbsolute, join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { asRuntimeError, invalid } from "@rkat/core/contract/error";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { isErrno } from "@rkat/node/config/realm";
import { Option } from "commander";
import { type Call, type CommandRow, command } from "../command-row.ts";
import { alone, writeWhole } from "../commands/output-file.ts";
import { jsonFlag } from "../flags.ts";
import { type Io, linesOf, type Paint, writeJson } from "../io.ts";
import { CLIENTS, type ClientFile, type ClientName, HOOK_WORD } from "./clients.ts";

const common = {
  flags: () => [
    new Option("--scope <scope>", "change the files of the user, or those of this project")
      .choices(["user", "project"])
      .default("user", "user"),
    new Option("-y, --yes", "do not ask"),
    new Option("--dry-run", "show the changes; write nothing"),
    jsonFlag(),
  ],
  notes: [["Clients", Object.keys(CLIENTS).join(", ")]],
} as const;

/** `rkat connect` and `rkat disconnect`: memory for the agents that people already use. */
export const connectRows: readonly CommandRow[] = [
  command("connect CLIENT", {
    ...common,
    text: "Give an agent this memory: write its MCP server, hooks and skill into the agent's configuration, after showing the changes.",
    examples: [
      ["rkat connect claude-code", "for all projects of the user"],
      ["rkat connect cursor --scope project --dry-run", "what would be written into files that this project shares"],
    ],
    run: (call: Call<Flags>) => change(call, planConnect, "Connected"),
  }),
  command("disconnect CLIENT", {
    ...common,
    text: "Remove this memory from an agent's configuration; files that were not edited since are as they were before.",
    examples: [["rkat disconnect claude-code", "what rkat connect wrote is removed; imported sessions stay"]],
    run: (call: Call<Flags>) => change(call, planDisconnect, "Disconnected"),
  }),
  command(HOOK_WORD, {
    text: "Import the session that a hook of an agent names on stdin.",
    isHidden: true,
    run: async ({ io, invocation }) => invocation.exitWith(await importHooked(io, await invocation.parts.self())),
  }),
];

interface Flags {
  readonly scope: "user" | "project";
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** A file as it is and as it is to be; undefined where there is none. */
interface Change {
  readonly file: ClientFile;
  readonly shown: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly mode: number;
  /** Whether a back-up is written before the change, or removed after it. */
  readonly backup?: "write" | "remove" | undefined;
}

type Plan = (file: ClientFile, shown: string) => Promise<Omit<Change, "file" | "shown" | "mode"> & { mode?: number }>;

async function change({ invocation, io, paint, flags, arg }: Call<Flags>, plan: Plan, done: string): Promise<void> {
  const name = arg("client") ?? "";
  if (!Object.hasOwn(CLIENTS, name)) {
    throw invalid(`there is no client ${withoutControls(name)}; write one of: ${Object.keys(CLIENTS).join(", ")}`);
  }
  const { scope } = flags;
  const where = { scope, projectRoot: invocation.place().projectRoot, isMac: platform() === "darwin" };
  // A key of the table, which was checked above.
  const files = CLIENTS[name as ClientName]({ ...where, io, self: await invocation.parts.self() });
  const planned = files.map(async (file) => {
    const shown = withoutControls(file.path.replace(`${io.home}/`, "~/"));
    return { file, shown, mode: scope === "project" ? 0o644 : 0o600, ...(await plan(file, shown)) };
  });
  const changes = (await Promise.all(planned)).filter(({ before, after }) => before !== after);
  if (flags.json !== true) for (const one of changes) io.stdout.write(`${describe(one, paint).join("\n")}\n\n`);
  const written = changes.length > 0 && flags.dryRun !== true && (flags.yes === true || (await isWanted(io)));
  if (written) await alone(join(io.home, ".rkat", "connect"), () => apply(changes));
  const rows = changes.map(({ file: { path }, before, after, backup }) => ({
    path,
    change: before === undefined ? "create" : after === undefined ? "delete" : "edit",
    ...(backup === "write" ? { backup: backupOf(path) } : {}),
  }));
  if (flags.json) return writeJson(io, { client: name, scope, written, files: rows });
  const note = name === "codex" && done === "Connected" ? " It runs new hooks once you trust them, with /hooks." : "";
  const end = written ? `${done} ${name}. Restart it to load the change.${note}` : "Nothing was written.";
  io.stdout.write(changes.length === 0 ? `Nothing to change for ${name}.\n` : `${end}\n`);
}

async function isWanted(io: Io): Promise<boolean> {
  if (io.stdin.kind !== "terminal")
    throw invalid("nothing was written: add --yes to write these changes without asking");
  return (await import("../chat/ask-person.ts")).isAgreed(io, "Write these changes?");
}

/** The lines between the first and the last that differ. */
function describe({ shown, before = "", after, backup }: Change, { bold, green, red, dim }: Paint): readonly string[] {
  const [old, now] = [before.split("\n"), after?.split("\n") ?? []];
  const head = old.findIndex((line, at) => line !== now[at]);
  const from = head < 0 ? old.length : head;
  let tail = 0;
  while (tail < Math.min(old.length, now.length) - from && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const part = (lines: readonly string[]) => lines.slice(from, lines.length - tail).map(withoutControls);
  const removed = before === "" ? [] : part(old).map((line) => red(`- ${line}`));
  const kept = backup === "write" ? dim(`  (back-up: ${backupOf(shown)})`) : "";
  return [`${bold(shown)}${kept}`, ...removed, ...part(now).map((line) => green(`+ ${line}`))];
}

const planConnect: Plan = async (file, shown) => {
  const { text: before, ...rest } = await readRegular(file.root, file.path, shown);
  const { connected, disconnected } = await import("./edit-config.ts");
  const after = connected(file, before, shown);
  // Of a file that is connected already, the back-up is that of before.
  const isFirst = before !== undefined && disconnected(file, before, shown) === before;
  return { ...rest, before, after, backup: isFirst ? "write" : undefined };
};

const planDisconnect: Plan = async (file, shown) => {
  const { text: before, ...rest } = await readRegular(file.root, file.path, shown);
  if (before === undefined) return { before, after: undefined };
  const { text: kept } = await readRegular(file.root, backupOf(file.path), backupOf(shown));
  const { connected, disconnected } = await import("./edit-config.ts");
  if (isUnedited()) return { ...rest, before, after: kept, backup: "remove" };
  return { ...rest, before, after: disconnected(file, before, shown) };

  function isUnedited(): boolean {
    try {
      return connected(file, kept, shown) === before;
    } catch {
      return false; // The back-up was edited.
    }
  }
};

function backupOf(path: string): string {
  return `${path}.rkat-backup`;
}

const FILE_BYTES_MAX = 16 * 1_024 * 1_024;

/** Reads a file that is no link, nor lies behind one below the root: a link may lead out of what the user means to change. */
async function readRegular(root: string, path: string, shown: string): Promise<{ text?: string; mode?: number }> {
  const parts = relative(root, path).split(sep);
  try {
    for (const depth of parts.keys()) {
      const stat = await lstat(join(root, ...parts.slice(0, depth + 1)));
      const isLast = depth === parts.length - 1;
      if (stat.isSymbolicLink())
        throw invalid(`${shown} is a link or lies behind one; edit the file it leads to by hand`);
      if (isLast ? !stat.isFile() : !stat.isDirectory())
        throw invalid(`${shown} is not a regular file; move it away first`);
      if (isLast && stat.size > FILE_BYTES_MAX) throw invalid(`${shown} is larger than 16 MiB; edit it by hand`);
      if (!isLast) continue;
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(path));
      return { text, mode: stat.mode & 0o777 };
    }
  } catch (thrown) {
    if (!isErrno(thrown) || thrown.code !== "ENOENT") {
      const error = asRuntimeError(thrown);
      throw error.code === "INVALID_PARAMS"
        ? error
        : invalid(`${shown} cannot be read as UTF-8 text; check its permissions`, thrown);
    }
  }
  return {};
}

/** Writes all of the changes or none of them. */
async function apply(changes: readonly Change[]): Promise<void> {
  const written: Change[] = [];
  try {
    for (const one of changes) {
      const { text } = await readRegular(one.file.root, one.file.path, one.shown);
      if (text !== one.before) throw invalid(`${one.shown} was changed meanwhile; run the command again`);
      if (one.backup === "write")
        await put({ ...one, shown: backupOf(one.shown) }, backupOf(one.file.path), one.before);
      written.push(one);
      await put(one, one.file.path, one.after);
    }
  } catch (thrown) {
    for (const one of written.toReversed()) await put(one, one.file.path, one.before).catch(() => {}); // The first failure is thrown.
    throw thrown;
  }
  for (const one of changes) if (one.backup === "remove") await rm(backupOf(one.file.path), { force: true });
}

/** Writes a file whole, or removes it with the folders that are empty then. */
async function put({ file: { root }, shown, mode }: Change, path: string, text: string | undefined): Promise<void> {
  const folder = dirname(path);
  if (text === undefined) {
    await rm(path, { force: true });
    for (let at = folder; at.length > root.length; at = dirname(at)) if (await rmdir(at).catch(() => "full")) return;
    return;
  }
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw invalid(`${shown} cannot be written; check that its folder is yours`, cause);
  });
  await writeWhole(path, { shown, isForced: true }, async (handle) => {
    await handle.chmod(mode);
    await handle.writeFile(text);
    return text.length;
  });
}

const IMPORT_MS_MAX = 55_000;

/**
 * Imports the session that a hook names, in a process of its own. It never ends with 2: with that code a client would
 * refuse the compaction that the hook precedes.
 */
async function importHooked(io: Io, [program = "rkat", ...words]: readonly string[]): Promise<number> {
  try {
    const { value: text } = await linesOf(io.stdin, "what a hook is told").next();
    // Checked field by field below.
    const { transcript_path, cwd } = JSON.parse(text ?? "") as { transcript_path?: unknown; cwd?: unknown };
    const project = io.env.CLAUDE_PROJECT_DIR ?? cwd;
    if (typeof transcript_path !== "string" || !isAbsolute(transcript_path))
      throw invalid("transcript_path: no absolute path");
    if (typeof project !== "string" || !isAbsolute(project)) throw invalid("cwd: no absolute path");
    // A session in which nothing was said has none.
    if (!existsSync(transcript_path)) return 0;
    const how = { cwd: project, env: { ...io.env }, timeout: IMPORT_MS_MAX, signal: io.interrupt };
    await promisify(execFile)(program, [...words, "session", "import", transcript_path], how);
    return 0;
  } catch (thrown) {
    const said = thrown instanceof Error && "stderr" in thrown ? String(thrown.stderr).trim() : "";
    const why = withoutControls(said || asRuntimeError(thrown).message).replace(/^Error: /, "");
    io.stderr.write(`rkat: the session was not imported: ${why}\n`);
    return 1;
  }
}
