import { join, resolve } from "node:path";
import { invalid } from "@rkat/core/contract/error";
import type { ForgetResult, Going } from "@rkat/core/contract/forget";
import { fenced, type Mention, mentionsInSession, mentionsOfAgent } from "@rkat/core/transfer/transcript-formats";
import { Option } from "commander";
import { command, onOpened } from "../command-row.ts";
import { type Pair, pairs, repeated } from "../flags.ts";
import { bytesText, counted, type Io, oneLine, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation, Parts } from "../parts.ts";
import { withBar } from "../progress.ts";
import { everySession, piecesOf } from "./export-session.ts";
import { makeOutputFolder, writeFileWhole, writeWhole } from "./output-file.ts";

interface ExportFlags {
  readonly label: readonly Pair[];
  readonly subject: readonly string[];
  readonly output?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** `rkat memory export`: everything that is stored about a person. */
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

async function exportData({ io, parts }: Invocation, opened: Opened, flags: ExportFlags): Promise<void> {
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
    bytes = await writeWhole(path, { shown: output, isForced }, ({ fd }) => parts.writeArchive(fd, files));
  else {
    await makeOutputFolder(io, join(output, "sessions"));
    for (const { name, chunks } of files)
      bytes += await writeFileWhole(join(path, name), chunks, { shown: join(output, name), isForced });
  }
  if (flags.json) return writeJson(io, { output: path, files: files.length, bytes, found: sentence });
  io.stderr.write(`Wrote ${output}: ${sentence}, ${bytesText(bytes)}. Begin with index.md.\n`);
}

/** The exported files. */
interface Made {
  readonly files: Parameters<Parts["writeArchive"]>[1];
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
