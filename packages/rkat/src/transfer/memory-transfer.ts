import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { Remember } from "@rkat/core/contract/agent";
import { invalid } from "@rkat/core/contract/error";
import type { ForgetResult, Going } from "@rkat/core/contract/forget";
import { invalidInput } from "@rkat/core/contract/input";
import type { Runtime } from "@rkat/core/create-runtime";
import { agentPages } from "@rkat/core/transfer/session-lines";
import { fenced, type Mention, mentionsInSession, mentionsOfAgent } from "@rkat/core/transfer/transcript-formats";
import type { writeArchive } from "@rkat/node/store-places";
import { Option } from "commander";
import { type Call, command, onOpened } from "../command-row.ts";
import { compactionSettled } from "../commands/agent.ts";
import { makeOutputFolder, writeFileWhole, writeWhole } from "../commands/output-file.ts";
import { jsonFlag, type Pair, pairs, repeated } from "../flags.ts";
import { bytesText, counted, type Io, oneLine, writeJson } from "../io.ts";
import { type Opened, withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { createProgress, withBar } from "../progress.ts";
import { findSession, SELECTOR_NOTE } from "../session-selector.ts";
import { everySession, piecesOf } from "./session-transfer.ts";

interface ExportFlags {
  readonly label: readonly Pair[];
  readonly subject: readonly string[];
  readonly output?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export const memoryExportRow = command("memory export", {
  text: "Export everything that is stored about a person: all of the sessions with a label, or every message and memory that contains a text.",
  usage: "--label K=V|--subject TEXT -o DIR|FILE.tar [options]",
  flags: () => [
    pairs("--label <key=value>", "all of the sessions with these labels; may be repeated"),
    repeated("--subject <text>", "every message and memory that says this, capitals or not; may be repeated"),
    new Option("-o, --output <path>", "the folder, or the archive where it ends with .tar"),
    new Option("-f, --force", "overwrite existing files"),
    new Option("--json", "print what was written as JSON"),
  ],
  examples: [
    ["rkat memory export --label user=ada -o ada.tar", "all of her sessions, archived ones, too"],
    ["rkat memory export --subject ada@example.org -o ada/", "everything that mentions her, in any session or agent"],
    ["rkat memory export --subject Lovelace --subject '0170 12345' -o ada.tar", "by several names at once"],
  ],
  notes: [["What to read first", "index.md describes the contents in words; the rest is for programs"]],
  run: onOpened<ExportFlags>(({ invocation, opened, flags }) => exportData(invocation, opened, flags)),
});

async function exportData({ io }: Invocation, opened: Opened, flags: ExportFlags): Promise<void> {
  const { label, subject, output, force: isForced = false } = flags;
  if (label.length > 0 === subject.length > 0) throw invalid("say whose data it is with --label, or with --subject");
  if (subject.some((text) => text.trim() === "")) throw invalid("--subject: write the text to look for");
  if (output === undefined) throw invalid("-o: name the folder or the .tar to write");
  const path = resolve(io.cwd, output);
  const { files, sentence } = await (subject.length === 0
    ? ofLabels(io, opened, Object.fromEntries(label))
    : ofSubjects(io, opened, subject));
  let bytes = 0;
  if (output.endsWith(".tar"))
    bytes = await writeWhole(path, { shown: output, isForced }, async ({ fd }) =>
      (await import("@rkat/node/store-places")).writeArchive(fd, files),
    );
  else {
    await makeOutputFolder(io, join(output, "sessions"));
    for (const { name, chunks } of files)
      bytes += await writeFileWhole(join(path, name), chunks, { shown: join(output, name), isForced });
  }
  if (flags.json) return writeJson(io, { output: path, files: files.length, bytes, found: sentence });
  io.stderr.write(`Wrote ${output}: ${sentence}, ${bytesText(bytes)}. Begin with index.md.\n`);
}

interface Made {
  readonly files: Parameters<typeof writeArchive>[1];
  readonly sentence: string;
}

async function ofLabels(io: Io, { runtime }: Opened, labels: Readonly<Record<string, string>>): Promise<Made> {
  const sessions = await everySession(runtime, { archived: true, labels });
  const sentence = counted(sessions.length, "session");
  const asked = Object.entries(labels).map((pair) => pair.join("="));
  const rows = sessions.map(({ session_id, title, created_at, message_count, state }) => {
    const began = new Date(created_at * 1_000).toISOString();
    const what = `${began}, ${counted(message_count, "message")}, ${state}`;
    return `- **${oneLine(title, TITLE_CHARS_MAX).replace(/[[\]*<>`]/g, " ")}** (${what}): [to read](sessions/${session_id}.md), [all of it](sessions/${session_id}.jsonl)`;
  });
  const index = [
    ...headOf(`all sessions with the label ${asked.join(", ")}`, sentence),
    "Each session is there twice: as a page to read, and as a file that `rkat session import` takes, with what was",
    "compacted away, rewritten, and kept by reference. Agents' memories have no labels; look for those with `--subject`.",
    "",
    ...rows,
  ];
  const files = sessions.flatMap(({ session_id }) => [
    { name: `sessions/${session_id}.md`, chunks: piecesOf(io, runtime, { session_id, format: "markdown" }) },
    { name: `sessions/${session_id}.jsonl`, chunks: piecesOf(io, runtime, { session_id, format: "jsonl" }) },
  ]);
  return { files: [{ name: "index.md", chunks: [`${index.join("\n")}\n`] }, ...files], sentence };
}

const TITLE_CHARS_MAX = 100;

/** A text that was found, or an entry that says it in a file or in another spelling, and then all of it. */
interface Found extends Mention {
  readonly entry?: unknown;
}

async function ofSubjects(io: Io, { runtime }: Opened, subjects: readonly string[]): Promise<Made> {
  const { dispatch } = runtime;
  const sessions = await everySession(runtime, { archived: true });
  const { agents } = await dispatch("listAgents", {});
  const found = new Map<string, Found>();
  const unread: string[] = [];
  const keep = (mention: Found): unknown => found.set(JSON.stringify(mention), mention);
  await withBar(io, async (bar) => {
    for (const [at, subject] of subjects.entries()) {
      const looking = { dispatch, signal: io.interrupt, subject };
      for (const [done, { session_id }] of sessions.entries()) {
        bar.show("sessions", at * sessions.length + done, subjects.length * sessions.length);
        for await (const mention of mentionsInSession(looking, session_id)) keep(mention);
      }
      for (const { agent } of agents) for await (const mention of mentionsOfAgent(looking, agent)) keep(mention);
    }
    const seen = new Set([...found.values()].map((mention) => `${placeOf(mention)} ${mention.seq}`));
    for (const subject of subjects) {
      const { going: listed, more } = await goingWith(runtime, subject);
      if (more > 0)
        unread.push(
          `Files and other spellings of ${JSON.stringify(subject)} were not looked for in ${counted(more, "message")}.`,
        );
      for (const going of listed) {
        const key = `${placeOf(going)} ${going.seq}`;
        if (!seen.has(key)) keep(await wholeEntry(runtime, going));
        seen.add(key);
      }
    }
  });
  const mentions = [...found.values()];
  const places = new Set(mentions.map(placeOf));
  const looked = `${counted(sessions.length, "session")} and ${counted(agents.length, "agent")}`;
  const sentence = `${counted(mentions.length, "text")} in ${counted(places.size, "place")} of ${looked}`;
  const asked = subjects.map((subject) => JSON.stringify(subject)).join(" or ");
  const index = [
    ...headOf(`every text that contains ${asked}`, sentence),
    "Archived sessions were looked through, too. The same is in mentions.jsonl, one a line.",
    ...unread,
    ...mentions.flatMap((mention) => {
      const { seq, time, role, text, blob_id, entry } = mention;
      const kept = blob_id === undefined ? "" : ` · ${blob_id}`;
      const whole =
        entry === undefined
          ? []
          : ["", "A file of it says the text, or it is spelled otherwise: all of it is in mentions.jsonl."];
      return ["", `## ${placeOf(mention)} · seq ${seq} · ${time} · ${role}${kept}`, "", fenced(text), ...whole];
    }),
  ];
  const lines = mentions.map((mention) => `${JSON.stringify(mention)}\n`);
  return {
    files: [
      { name: "index.md", chunks: [`${index.join("\n")}\n`] },
      { name: "mentions.jsonl", chunks: lines },
    ],
    sentence,
  };
}

/** Shorter texts cannot be erased, so there is no preview for them. */
const FORGETTABLE_CHARS_MIN = 4;

/** The entries that an erasure of the text would remove: an export must not contain less. */
async function goingWith(
  { dispatch }: Opened["runtime"],
  subject: string,
): Promise<Pick<ForgetResult, "going" | "more">> {
  if (subject.trim().length < FORGETTABLE_CHARS_MIN) return { going: [], more: 0 };
  return dispatch("forget", { query_exact: subject, dry_run: true });
}

async function wholeEntry({ dispatch }: Opened["runtime"], going: Going): Promise<Found> {
  const { session_id, agent = "", seq, at, kind, excerpt = "" } = going;
  const page = { after: seq - 1, limit: 1 };
  const { entries } = await (session_id === undefined
    ? dispatch("exportAgent", { agent, ...page })
    : dispatch("exportSession", { session_id, ...page }));
  const place = session_id === undefined ? { agent } : { session_id };
  return { ...place, seq, time: at, role: kind, text: excerpt, entry: entries[0]?.body };
}

function placeOf({ session_id, agent }: Pick<Going, "session_id" | "agent">): string {
  return session_id === undefined ? `agent ${agent}` : `session ${session_id}`;
}

function headOf(what: string, sentence: string): readonly string[] {
  return ["# What is kept", "", `Asked for on ${new Date().toISOString()}: ${what}. Found: ${sentence}.`, ""];
}

interface ImportFlags {
  readonly agent?: string;
  readonly session?: string;
  readonly model?: string;
  readonly json?: boolean;
}

export const memoryImportRow = command("memory import FOLDER", {
  text: "Import the Markdown files of a folder as memories of an agent or notices of a session; run again, it imports what is new or changed.",
  usage: "DIR --agent NAME|--session SESSION [options]",
  flags: () => [
    new Option("--agent <name>", "as memories of this agent"),
    new Option("--session <session>", "as notices that the model of this session is shown from its next call on"),
    new Option("-m, --model <name>", "the model that summarizes the agent's memories, if no profile names one"),
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
  { agent, session, model, json }: ImportFlags,
): Promise<void> {
  const { io } = invocation;
  if ((agent === undefined) === (session === undefined)) {
    throw invalid("say whose they become: --agent NAME, or --session SESSION");
  }
  // A refused file creates no folder.
  const notes = await readNotes(resolve(io.cwd, shown), shown);
  if (agent !== undefined) for (const note of notes) memoryOf(agent, note);
  const env = model === undefined ? io.env : { ...io.env, RKAT_MODEL: model };
  await withRuntime({ ...invocation, io: { ...io, env } }, async (opened) => {
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
    throw invalid(`${shown}: it is not UTF-8 text`, cause);
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
