import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, realpath, rename, stat, writeFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, parse, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { asRuntimeError, invalid } from "@rkat/core/contract/error";
import type { Runtime } from "@rkat/core/create-runtime";
import type { Conversation } from "@rkat/core/transfer/formats/conversation";
import { FORMAT_NAMES, FORMATS, type Format, type FormatName, formatOf } from "@rkat/core/transfer/formats/formats";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { counted, oneLine } from "../io.ts";
import { withRuntime } from "../open-runtime.ts";
import { type Invocation, invocationIn, type Place } from "../parts.ts";
import { shortId } from "../session-selector.ts";
import { headOf, importConversation, readConversations } from "./session-import.ts";

export const watchRow = command("watch FOLDER…", {
  text: "Import sessions of other agents as they are written: each into the realm of the project that it was made in.",
  flags: () => [new Option("--once", "import what is new, and end"), jsonFlag()],
  examples: [
    ["rkat watch ~/.claude/projects", "sessions of Claude Code, until Ctrl-C"],
    ["rkat watch ~/.codex/sessions --once", "what is new in them now"],
    ["rkat memory history heron --all-projects", "then, from any folder"],
  ],
  notes: [
    ["Only these folders", "are read, and links in them are not followed; nothing is ever written to them"],
    ["Formats", FORMAT_NAMES.filter((name) => isFollowed(FORMATS[name])).join(", ")],
  ],
  run: ({ invocation, self, flags }: Call<WatchFlags>) => watch(invocation, self.args, flags),
});

interface WatchFlags {
  readonly once?: boolean;
  readonly json?: boolean;
}

function isFollowed(format: Format): boolean {
  return format.follows !== undefined;
}

const LOOK_MS = 2_000;
/** Looking takes at most this share of the time, and so does each file that grows. */
const SHARE = 20;
const FILES_MAX = 200_000;

/** What is known of a file: its state at the last import, and when it is due again. */
interface Known {
  readonly state: string;
  readonly dueMs: number;
}

interface Watching {
  readonly invocation: Invocation;
  readonly flags: WatchFlags;
  readonly known: Map<string, Known>;
  /** Projects into which nothing can be imported, with a sentence that was printed. */
  readonly refused: Set<string>;
}

async function watch(invocation: Invocation, folders: readonly string[], flags: WatchFlags): Promise<void> {
  const { io } = invocation;
  requireOwnRealms(invocation.place());
  const roots: string[] = [];
  for (const shown of folders) {
    const path = resolve(io.cwd, shown);
    const found = await stat(path).catch(() => undefined);
    if (!found?.isDirectory()) throw invalid(`${shown}: there is no such folder`);
    roots.push(await realpath(path));
  }
  const watching: Watching = { invocation, flags, known: new Map(), refused: new Set() };
  if (!flags.once) io.stderr.write(`Watching ${roots.join(", ")}; Ctrl-C ends it.\n`);
  while (!io.interrupt.aborted) {
    const startedMs = Date.now();
    for (const root of roots) await importNew(watching, root);
    if (flags.once) return;
    const pauseMs = Math.max(LOOK_MS, (Date.now() - startedMs) * SHARE);
    await sleep(pauseMs, undefined, { signal: io.interrupt }).catch(() => {});
  }
}

/** A realm that flags choose would mix projects. */
function requireOwnRealms({ isChosen, stateFolder, projectRoot }: Place): void {
  if (!isChosen && dirname(stateFolder) === join(projectRoot, ".rkat", "realms")) return;
  throw invalid(
    "each session goes to the realm of its project; leave --realm, --isolated, --store and --state-root out",
  );
}

/** Imports the files below a folder that are new or have changed; files of one project share a runtime. */
async function importNew(watching: Watching, root: string): Promise<void> {
  const { invocation, known } = watching;
  const { io } = invocation;
  const waiting = await changedFiles(watching, root);
  while (waiting.length > 0 && !io.interrupt.aborted) {
    const read = await readNext(watching, root, waiting);
    if (read === undefined) return;
    await inProject(watching, read.project, async (runtime) => {
      let next: Read | undefined = read;
      while (next !== undefined && next.project === read.project) {
        const startedMs = Date.now();
        await importRead(watching, runtime, next);
        known.set(next.file.path, { state: next.file.state, dueMs: Date.now() + (Date.now() - startedMs) * SHARE });
        if (io.interrupt.aborted) return;
        next = await readNext(watching, root, waiting);
        if (next !== undefined && next.project !== read.project) waiting.unshift(next.file);
      }
    });
  }
}

interface Changed {
  readonly path: string;
  readonly state: string;
  readonly format: FormatName;
}

interface Read {
  readonly file: Changed;
  readonly project: string;
  readonly conversations: readonly Conversation[];
}

async function changedFiles({ known }: Watching, root: string): Promise<Changed[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
  const changed: Changed[] = [];
  for (const entry of entries.slice(0, FILES_MAX)) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const shown = relative(root, path);
    if (!FORMAT_NAMES.some((name) => followsOf(name)?.test(shown))) continue;
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    const before = known.get(path);
    const state = `${found.size} ${found.mtimeMs}`;
    if (before?.state === state || (before?.dueMs ?? 0) > Date.now()) continue;
    const head = await headOf(path).catch(() => "");
    const format = formatOf(head, entry.name);
    if (format !== undefined && followsOf(format)?.test(shown)) changed.push({ path, state, format });
    else known.set(path, { state, dueMs: 0 });
  }
  return changed.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function followsOf(name: FormatName): RegExp | undefined {
  const format: Format = FORMATS[name];
  return format.follows;
}

/** The next file that can be read and names its project; others are reported once for each change. */
async function readNext(watching: Watching, root: string, waiting: Changed[]): Promise<Read | undefined> {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const shown = relative(root, file.path);
    try {
      const conversations = await readConversations(file.path, shown, file.format, { alone: true });
      const said = conversations.filter(({ history }) => history.length > 0);
      const project = said.length === 0 ? undefined : await projectOf(said.map(({ cwd }) => cwd));
      if (project !== undefined && !watching.refused.has(project)) return { file, project, conversations: said };
      if (project === undefined && said.length > 0) warn(watching, `${shown}: the folder it was made in is not there`);
    } catch (thrown) {
      warn(watching, asRuntimeError(thrown).message);
    }
    watching.known.set(file.path, { state: file.state, dueMs: 0 });
  }
  return undefined;
}

function warn({ invocation }: Watching, sentence: string): void {
  invocation.io.stderr.write(`! ${oneLine(sentence, SENTENCE_CHARS_MAX)}\n`);
}

const SENTENCE_CHARS_MAX = 1_000;

/** The project that the conversations of a file were made in, if it is still there. */
async function projectOf(folders: readonly (string | undefined)[]): Promise<string | undefined> {
  const named = folders.find((folder) => folder !== undefined);
  if (named === undefined || !isAbsolute(named) || named.includes("\0")) return undefined;
  const found = await realpath(named).catch(() => undefined);
  if (found === undefined || parse(found).root === found) return undefined;
  const facts = await stat(found).catch(() => undefined);
  return facts?.isDirectory() ? found : undefined;
}

async function inProject(watching: Watching, project: string, use: (runtime: Runtime) => Promise<void>): Promise<void> {
  const { invocation, refused } = watching;
  const there = invocationIn(invocation, project);
  try {
    await rememberProject(invocation.place().userRoot, project);
    await withRuntime(there, ({ runtime }) => use(runtime));
  } catch (thrown) {
    if (invocation.io.interrupt.aborted) return;
    refused.add(project);
    warn(watching, `${project}: ${asRuntimeError(thrown).message}`);
  }
}

async function importRead(watching: Watching, runtime: Runtime, { file, conversations, project }: Read): Promise<void> {
  const { invocation, flags } = watching;
  const { io } = invocation;
  for (const conversation of conversations) {
    try {
      const options = { source: file.format, signal: io.interrupt };
      const done = await importConversation(runtime, conversation, options);
      const isNews = done.added + done.compactions > 0;
      if (!isNews && done.skipped === undefined) continue;
      if (flags.json) {
        io.stdout.write(`${JSON.stringify({ file: file.path, project, ...done, left_out: conversation.leftOut })}\n`);
      } else if (isNews) {
        const size = counted(done.added, "new message");
        io.stdout.write(`${basename(project)}: ${shortId(done.session_id)}, ${size} (${file.format})\n`);
        const isFirst = done.added === done.messages;
        if (isFirst && conversation.leftOut.length > 0) {
          warn(watching, `${file.path}: left out: ${conversation.leftOut.join(", ")}`);
        }
      }
    } catch (thrown) {
      if (io.interrupt.aborted) return;
      warn(watching, `${file.path}: ${asRuntimeError(thrown).message}`);
    }
  }
}

const PROJECTS_MAX = 1_000;

function projectsFile(userRoot: string): string {
  return join(userRoot, ".rkat", "projects");
}

/** The folders of projects into which sessions were imported by watching. */
export async function knownProjects({ userRoot }: Pick<Place, "userRoot">): Promise<readonly string[]> {
  const text = await readFile(projectsFile(userRoot), "utf8").catch(() => "");
  return text
    .split("\n")
    .filter((line) => isAbsolute(line))
    .slice(0, PROJECTS_MAX);
}

async function rememberProject(userRoot: string, project: string): Promise<void> {
  const projects = await knownProjects({ userRoot });
  if (projects.includes(project) || project.includes("\n")) return;
  const path = projectsFile(userRoot);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const whole = `${path}.${randomUUID()}`;
  await writeFile(whole, `${[...projects, project].join("\n")}\n`, { mode: 0o600 });
  await rename(whole, path);
}
