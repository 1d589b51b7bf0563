import { randomUUID } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { type Mention, mentionsInSession, mentionsOfAgent } from "../../../service/personal-data.ts";
import { fenced } from "../../../service/transcript-formats.ts";
import { type Pair, pairs } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { bytesText, counted, type Io, oneLine, writeJson } from "../io.ts";
import { type Opened, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { createBar } from "../progress.ts";
import { type ArchivedFile, writeTar } from "../tar-file.ts";
import { everySession, piecesOf } from "./export-session.ts";
import { makeOutputFolder, unwritable, writeFileWhole } from "./output-file.ts";
import { refuseExisting } from "./session-file.ts";

interface ExportFlags {
  readonly label: readonly Pair[];
  readonly subject?: string;
  readonly output?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Declares how everything that is kept of somebody is handed out. */
export function addMemoryExport(parent: Command, invocation: Invocation): void {
  const away = parent
    .command("export")
    .summary("hand out everything that is kept of somebody, in one archive")
    .description("Writes everything of the sessions with a label, or every message and memory that contains a text.")
    .usage("--label K=V|--subject TEXT -o DIR|FILE.tar [options]")
    .addOption(pairs("--label <key=value>", "all of the sessions with these labels; may be repeated"))
    .option("--subject <text>", "every message and memory that contains this text, capitals or not")
    .addOption(new Option("-o, --output <path>", "the folder, or the archive where it ends with .tar"))
    .option("-f, --force", "overwrite what is there")
    .option("--json", "say what was written as JSON")
    .action((flags: ExportFlags) => withSessions(invocation, (opened) => exportData(invocation.io, opened, flags)));
  describeHelp(away, {
    examples: [
      ["rkat memory export --label user=ada -o ada.tar", "all of her sessions, archived ones, too"],
      ["rkat memory export --subject ada@example.org -o ada/", "whatever mentions her, in any session or agent"],
    ],
    notes: [["What to read first", "index.md says what there is, in words; the rest is for programs"]],
  });
}

async function exportData(io: Io, opened: Opened, flags: ExportFlags): Promise<void> {
  const { label, subject, output } = flags;
  if (label.length > 0 === (subject !== undefined))
    throw invalid("say whose data it is with --label, or with --subject");
  if (subject?.trim() === "") throw invalid("--subject: write the text to look for");
  if (output === undefined) throw invalid("-o: name the folder or the .tar to write");
  const made =
    subject === undefined
      ? ofLabels(io, opened, Object.fromEntries(label))
      : ofSubject(io, opened, { subject, signal: io.interrupt });
  const bytes = await (output.endsWith(".tar") ? writeArchive : writeFolder)(io, await made, {
    output,
    isForced: flags.force === true,
  });
  const { files, sentence } = await made;
  if (flags.json)
    return writeJson(io, { output: resolve(io.cwd, output), files: files.length, bytes, found: sentence });
  io.stderr.write(`Wrote ${output}: ${sentence}, ${bytesText(bytes)}. Begin with index.md.\n`);
}

/** What is handed out. */
interface Made {
  readonly files: readonly ArchivedFile[];
  /** What it is, in words. */
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
    { name: `sessions/${session_id}.md`, pieces: piecesOf(io, runtime, { session_id, format: "markdown" }) },
    { name: `sessions/${session_id}.jsonl`, pieces: piecesOf(io, runtime, { session_id, format: "jsonl" }) },
  ]);
  return { files: [{ name: "index.md", pieces: [`${index.join("\n")}\n`] }, ...files], sentence };
}

const TITLE_CHARS_MAX = 100;

async function ofSubject(
  io: Io,
  { runtime }: Opened,
  { subject, signal }: { readonly subject: string; readonly signal: AbortSignal },
): Promise<Made> {
  const { dispatch } = runtime;
  const looking = { dispatch, signal, subject };
  const sessions = await everySession(runtime, { archived: true });
  const { agents } = await dispatch("listAgents", {});
  const bar = createBar(io);
  const found: Mention[] = [];
  try {
    for (const [at, { session_id }] of sessions.entries()) {
      bar.show("sessions", at, sessions.length);
      for await (const mention of mentionsInSession(looking, session_id)) found.push(mention);
    }
    for (const { agent } of agents) for await (const mention of mentionsOfAgent(looking, agent)) found.push(mention);
  } finally {
    bar.clear();
  }
  const places = new Set(found.map(placeOf));
  const sentence = `${counted(found.length, "text")} in ${counted(places.size, "place")}`;
  const index = [
    ...headOf(`every text that contains ${JSON.stringify(subject)}`, sentence),
    `${counted(sessions.length, "session")} and ${counted(agents.length, "agent")} were looked through, archived ones, too. The same`,
    "is in mentions.jsonl, one a line.",
    ...found.flatMap((mention) => {
      const { seq, time, role, text, blob_id } = mention;
      const kept = blob_id === undefined ? "" : ` · ${blob_id}`;
      return ["", `## ${placeOf(mention)} · seq ${seq} · ${time} · ${role}${kept}`, "", fenced(text)];
    }),
  ];
  const lines = found.map((mention) => `${JSON.stringify(mention)}\n`);
  return {
    files: [
      { name: "index.md", pieces: [`${index.join("\n")}\n`] },
      { name: "mentions.jsonl", pieces: lines },
    ],
    sentence,
  };
}

function placeOf({ session_id, agent }: Mention): string {
  return session_id === undefined ? `agent ${agent}` : `session ${session_id}`;
}

function headOf(what: string, sentence: string): readonly string[] {
  return ["# What is kept", "", `Asked for on ${new Date().toISOString()}: ${what}. Found: ${sentence}.`, ""];
}

interface Target {
  readonly output: string;
  readonly isForced: boolean;
}

async function writeFolder(io: Io, { files }: Made, { output, isForced }: Target): Promise<number> {
  const folder = await makeOutputFolder(io, output);
  await makeOutputFolder(io, join(output, "sessions"));
  let bytes = 0;
  for (const { name, pieces } of files) {
    bytes += await writeFileWhole(join(folder, name), pieces, { shown: join(output, name), isForced });
  }
  return bytes;
}

/** It has its name only once it is whole. */
async function writeArchive(io: Io, { files }: Made, { output, isForced }: Target): Promise<number> {
  const path = resolve(io.cwd, output);
  await refuseExisting(path, { shown: output, isForced });
  const written = `${path}.${randomUUID()}`;
  const file = await open(written, "wx", 0o600).catch((cause: unknown) => {
    throw unwritable(output, cause);
  });
  try {
    const bytes = await writeTar(file, files, Date.now());
    await file.sync();
    await file.close();
    await rename(written, path);
    return bytes;
  } catch (thrown) {
    await file.close().catch(() => {}); // It may be closed; what failed is thrown below.
    await rm(written, { force: true });
    throw thrown instanceof RuntimeError ? thrown : unwritable(output, thrown);
  }
}

function invalid(message: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message);
}
