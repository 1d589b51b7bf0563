import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { Remember } from "@rkat/core/contract/agent";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { invalidInput } from "@rkat/core/contract/input";
import type { Runtime } from "@rkat/core/create-runtime";
import { agentPages } from "@rkat/core/transfer/session-lines";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { counted, type Io, writeJson } from "../io.ts";
import { type Opened, withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { createProgress } from "../progress.ts";
import { findSession, SELECTOR_NOTE } from "../session-selector.ts";
import { compactionSettled } from "./agent-changes.ts";

interface ImportFlags {
  readonly agent?: string;
  readonly session?: string;
  readonly json?: boolean;
}

/** `rkat memory import`: Markdown notes become memories. */
export const memoryImportRow = command("memory import FOLDER", {
  text: "Import the Markdown files of a folder as memories of an agent or notices of a session; run again, it imports what is new or changed.",
  usage: "DIR --agent NAME|--session SESSION [options]",
  flags: () => [
    new Option("--agent <name>", "as memories of this agent"),
    new Option("--session <session>", "as notices that the model of this session is shown from its next call on"),
    jsonFlag(),
  ],
  examples: [
    ["rkat memory import notes/ --agent ada", "each with its path in the memory's metadata"],
    ["rkat memory import notes/ --session last", "as notices of a session"],
  ],
  notes: [SELECTOR_NOTE],
  run: ({ invocation, flags, arg }: Call<ImportFlags>) => importNotes(invocation, arg("folder") ?? "", flags),
});

/** A file that was written, by its path in the folder. */
interface Note {
  readonly path: string;
  readonly content: string;
  readonly sha256: string;
}

const NOTES_MAX = 100_000;
const NOTE_BYTES_MAX = 4_000_000;

async function importNotes(
  invocation: Invocation,
  shown: string,
  { agent, session, json }: ImportFlags,
): Promise<void> {
  const { io } = invocation;
  if ((agent === undefined) === (session === undefined)) {
    throw invalid("say whose they become: --agent NAME, or --session SESSION");
  }
  // A refused file creates no folder.
  const notes = await readNotes(resolve(io.cwd, shown), shown);
  if (agent !== undefined) for (const note of notes) memoryOf(agent, note);
  await withRuntime(invocation, async (opened) => {
    const counts =
      agent === undefined
        ? await inject(io, opened, { notes, word: session ?? "" })
        : await remember(io, opened, { notes, agent });
    if (json) return writeJson(io, counts);
    io.stdout.write(`Took in ${counted(counts.added, "note")}; there already: ${counts.known}.\n`);
  });
}

/** Every Markdown file below a folder, in the order of their paths; links and hidden folders are left alone. */
async function readNotes(folder: string, shown: string): Promise<readonly Note[]> {
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory() !== true) throw invalid(`${shown}: there is no such folder`);
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = names
    .filter((name) => name.isFile() && /\.(?:md|markdown)$/i.test(name.name))
    .map((name) => relative(folder, join(name.parentPath, name.name)))
    .filter((path) => !path.split(/[\\/]/).some((part) => part.startsWith(".")))
    .sort();
  if (paths.length > NOTES_MAX) throw invalid(`${shown}: it holds more than ${NOTES_MAX} notes; take fewer at once`);
  const notes: Note[] = [];
  for (const path of paths) {
    const note = await readNote(folder, path, join(shown, path));
    if (note.content.trim() !== "") notes.push(note);
  }
  if (notes.length === 0) throw invalid(`${shown}: there is no Markdown file in it that says something`);
  return notes;
}

async function readNote(folder: string, path: string, shown: string): Promise<Note> {
  const { size } = await stat(join(folder, path));
  if (size > NOTE_BYTES_MAX) throw invalid(`${shown}: it is too long for a memory; split it`);
  const bytes = await readFile(join(folder, path));
  try {
    const content = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { path: path.replaceAll("\\", "/"), content, sha256: createHash("sha256").update(bytes).digest("hex") };
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `${shown}: it is not UTF-8 text`, { cause });
  }
}

function memoryOf(agent: string, { path, content, sha256 }: Note) {
  const read = Remember.safeParse({ agent, content: content.trim(), metadata: { path, sha256 } });
  if (read.success) return read.data;
  throw invalid(`${path}: ${invalidInput(read.error).message}`);
}

interface Counts {
  readonly added: number;
  readonly known: number;
}

/** What an agent was given before is found by the path and the hash in its metadata. */
async function remember(
  io: Io,
  opened: Opened,
  { notes, agent }: { readonly notes: readonly Note[]; readonly agent: string },
): Promise<Counts> {
  const { runtime } = opened;
  const known = await knownNotes(runtime, agent, io.interrupt);
  const fresh = notes.filter((note) => !known.has(keyOf(note)));
  const progress = createProgress(io, "notes");
  try {
    for (const [at, note] of fresh.entries()) {
      await runtime.dispatch("remember", memoryOf(agent, note), { signal: io.interrupt });
      progress.show(at + 1);
    }
  } finally {
    progress.clear();
  }
  await compactionSettled(opened, agent, io.interrupt);
  return { added: fresh.length, known: notes.length - fresh.length };
}

function keyOf({ path, sha256 }: { readonly path: unknown; readonly sha256: unknown }): string {
  return `${String(sha256)} ${String(path)}`;
}

async function knownNotes({ dispatch }: Runtime, agent: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  for await (const page of agentPages({ dispatch, agent, signal })) {
    for (const { body } of page.entries) {
      const { metadata } = body;
      if (typeof metadata !== "object" || metadata === null) continue;
      if ("path" in metadata && "sha256" in metadata) known.add(keyOf(metadata));
    }
  }
  return known;
}

/** A session ignores a notice whose key it has already. */
async function inject(
  io: Io,
  opened: Opened,
  { notes, word }: { readonly notes: readonly Note[]; readonly word: string },
): Promise<Counts> {
  const session_id = await findSession(opened, word);
  let known = 0;
  for (const { path, content, sha256 } of notes) {
    const text = `${path}\n\n${content.trim()}`;
    const idempotency_key = `note:${createHash("sha256").update(`${sha256} ${path}`).digest("hex")}`;
    const input = { session_id, text, source: "note", idempotency_key };
    const { status } = await opened.runtime.dispatch("injectContext", input, { signal: io.interrupt });
    if (status === "duplicate") known += 1;
  }
  return { added: notes.length - known, known };
}
