import { mkdir, open, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { asRuntimeError, RuntimeError } from "../../../contract/error.ts";
import { isErrno, readIfThere } from "../../wire/state-folder.ts";
import { loadHere, readConfiguration } from "../configuration.ts";
import type { Invocation } from "../parts.ts";
import { type NewServer, withoutServer, withServer } from "./server-table.ts";

/** Adds a server to the project's `.rkat/mcp.toml`. */
export async function addServer(invocation: Invocation, server: NewServer): Promise<void> {
  const { path } = await projectFile(invocation);
  await alone(path, async () => {
    const file = await projectFile(invocation);
    const text = withServer(file.text, server);
    await serversOf(invocation, { ...file, text });
    await writeTrusted(invocation, file, text);
    invocation.io.stdout.write(`Added ${server.name} to ${file.shown}. rkat mcp list tries it.\n`);
  });
}

/** Removes a server from the project's `.rkat/mcp.toml`; the rest of the file stays as it is. */
export async function removeServer(invocation: Invocation, name: string): Promise<void> {
  const { path } = await projectFile(invocation);
  await alone(path, () => removeAlone(invocation, name));
}

async function removeAlone(invocation: Invocation, name: string): Promise<void> {
  const file = await projectFile(invocation);
  const servers = await serversOf(invocation, file);
  const index = servers.findIndex((server) => server.name === name);
  if (index < 0) {
    const known = servers.map((server) => server.name).join(", ") || "none";
    throw new RuntimeError("INVALID_PARAMS", `${file.shown} has no server ${name}; there are: ${known}`);
  }
  const text = withoutServer(file.text, index);
  const left = await serversOf(invocation, { ...file, text });
  // Some ways to write the same table cannot be taken apart line by line.
  if (JSON.stringify(left) !== JSON.stringify(servers.toSpliced(index, 1)))
    throw new RuntimeError("INVALID_PARAMS", `${file.shown} was not changed: remove ${name} from it by hand`);
  await writeTrusted(invocation, file, text);
  invocation.io.stdout.write(`Removed ${name} from ${file.shown}.\n`);
}

/** What we write is trusted, unless it stands in a file that somebody else brought; then it is told. */
async function writeTrusted(invocation: Invocation, file: ServersFile, text: string): Promise<void> {
  const { brought, trust } = await loadHere(invocation);
  const before = brought.find(({ path }) => path === file.path);
  const isOurs = before === undefined || (before.state === "trusted" && before.text === file.text);
  if (isOurs) trust.remember({ path: file.path, text });
  await write(file.path, text);
  await readConfiguration(invocation);
}

interface ServersFile {
  readonly path: string;
  /** The path as a person in this folder would write it. */
  readonly shown: string;
  readonly text: string;
}

/** The file of the project that is read here, or the one that would be; the user's own is left alone. */
async function projectFile(invocation: Invocation): Promise<ServersFile> {
  const { projectRoot, userRoot } = invocation.place();
  const name = join(".rkat", "mcp.toml");
  const { sources } = await loadHere(invocation);
  const read = sources.find((path) => path.endsWith(name) && path !== join(userRoot, name));
  const path = read ?? join(projectRoot, name);
  return { path, shown: relative(invocation.io.cwd, path), text: (await readIfThere(path)) ?? "" };
}

/** The servers of one file alone, read as every command would read them. */
async function serversOf({ io, parts }: Invocation, { path, shown, text }: ServersFile) {
  const folder = dirname(dirname(path));
  const readFile = async (asked: string) => (asked === path ? text : undefined);
  try {
    return (await parts.loadConfig({ cwd: folder, home: io.home, env: {}, readFile, isTrusted: true })).mcpServers;
  } catch (thrown) {
    const { message } = asRuntimeError(thrown);
    throw new RuntimeError("INVALID_PARAMS", `${shown} was not changed: ${message}`, { cause: thrown });
  }
}

/** Works on a file while nobody else does: two commands at once must not undo each other. */
async function alone(path: string, work: () => Promise<void>): Promise<void> {
  const lock = `${path}.lock`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    for (let tries = 1; !(await isTaken(lock)); tries += 1) {
      if (tries > LOCK_TRIES_MAX) {
        throw new RuntimeError(
          "INVALID_PARAMS",
          `${path} is being changed by another command; if none is, remove ${lock}`,
        );
      }
      await wait(LOCK_WAIT_MS);
    }
  } catch (cause) {
    throw cause instanceof RuntimeError ? cause : unwritable(path, cause);
  }
  try {
    await work();
  } finally {
    await rm(lock, { force: true });
  }
}

const LOCK_TRIES_MAX = 100;
const LOCK_WAIT_MS = 50;

async function isTaken(lock: string): Promise<boolean> {
  try {
    await (await open(lock, "wx", 0o600)).close();
    return true;
  } catch (thrown) {
    if (isErrno(thrown) && thrown.code === "EEXIST") return false;
    throw thrown;
  }
}

async function write(path: string, text: string): Promise<void> {
  try {
    // Through a link to the file it stands for, and as closed to others as it was: headers may hold what gives access.
    const target = await realpath(path).catch(() => path);
    const { mode } = await stat(target).catch(() => ({ mode: 0o600 }));
    const beside = `${target}.new`;
    await writeFile(beside, text, { mode: mode & 0o777 });
    await rename(beside, target);
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

function unwritable(path: string, cause: unknown): RuntimeError {
  const why = isErrno(cause) ? cause.code : "it failed";
  return new RuntimeError("INVALID_PARAMS", `${path} cannot be written: ${why}; check the folder's permissions`, {
    cause,
  });
}
