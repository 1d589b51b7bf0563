import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Message } from "@rkat/core/contract/message";
import type { SessionSummary } from "@rkat/core/contract/session-info";
import type { Runtime } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { type ForeignTranscript, readChat, readPi, readShared } from "@rkat/core/transfer/foreign-transcripts";
import { importFile, sessionLines } from "@rkat/core/transfer/session-lines";
import { asChatMessages, asMarkdown, asSharedTurns, withBlobs } from "@rkat/core/transfer/transcript-formats";
import { Option } from "commander";
import { type Call, command, onOpened } from "../command-row.ts";
import { fieldOptions, fieldsOf, jsonFlag } from "../flags.ts";
import { bytesText, counted, type Io, writeJson } from "../io.ts";
import { type Opened, withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { withBar } from "../progress.ts";
import { makeSessionPage } from "../session-page.ts";
import { findSession, shortId } from "../session-selector.ts";
import { makeOutputFolder, outputPath, writeFileWhole } from "./output-file.ts";

/** What a session is written as, with the ending of its file. */
const ENDINGS = { jsonl: "jsonl", markdown: "md", html: "html", openai: "openai.json", sharegpt: "sharegpt.json" };
type Format = keyof typeof ENDINGS;

interface ExportFlags {
  readonly all?: boolean;
  readonly archived?: boolean;
  readonly format: Format;
  readonly output?: string;
  readonly force?: boolean;
  readonly json?: boolean;
  readonly after?: number;
  readonly limit?: number;
}

export const exportRow = command("session export [SESSION]", {
  text: "Write a session, or all of them, to stdout or files; as jsonl it is complete, and imported it is the same session.",
  usage: "SESSION|--all [options]",
  flags: () => [
    new Option("--all", "every session, one file each in the folder of -o"),
    new Option("--archived", "with --all: archived sessions, too"),
    new Option("--format <format>", "jsonl: all of it · the others: the conversation")
      .choices(Object.keys(ENDINGS))
      .default("jsonl"),
    new Option("-o, --output <path>", "write to this file or folder instead of stdout"),
    new Option("-f, --force", "overwrite existing files"),
    ...fieldOptions("exportSession"),
    new Option("--json", "instead, one page of the log as session/export answers it"),
  ],
  examples: [
    ["rkat session export last -o heron.jsonl", "all of it, with images and long outputs"],
    ["rkat session export last --format markdown", "to read it"],
    ["rkat session export --all --archived -o sessions/", "one file each"],
    ["rkat session export last --format openai | jq length", "messages as chat completions take them"],
  ],
  notes: [["After an import", "rkat session import FILE imports it, in another folder or beside it"]],
  run: onOpened<ExportFlags>(({ invocation, opened, flags, arg }) =>
    exportSessions(invocation, opened, { ...flags, word: arg("session") }),
  ),
});

async function exportSessions(
  { io }: Invocation,
  opened: Opened,
  { word, ...flags }: ExportFlags & { readonly word: string | undefined },
): Promise<void> {
  const { all = false, archived = false, output } = flags;
  if (all === (word !== undefined)) throw invalid("name one session to export, or say --all");
  if (archived && !all) throw invalid("--archived: it is about --all; a session that is named may be archived");
  const isPaged = flags.after !== undefined || flags.limit !== undefined;
  if (word !== undefined) {
    const session_id = await findSession(opened, word);
    if (flags.json) {
      const input = { session_id, ...fieldsOf("exportSession", flags) };
      return writeJson(io, await opened.runtime.dispatch("exportSession", input, { signal: io.interrupt }));
    }
    if (isPaged) throw invalid("--after and --limit are about a page of the log; add --json");
    return exportOne(io, opened, { session_id, ...flags });
  }
  if (flags.json || isPaged) throw invalid("--json, --after and --limit are about one session; name it");
  if (output === undefined) throw invalid("-o: name the folder to write the sessions to");
  const folder = await makeOutputFolder(io, output);
  const sessions = await everySession(opened.runtime, { archived });
  const isForced = flags.force === true;
  let bytes = 0;
  await withBar(io, async (bar) => {
    for (const [at, { session_id }] of sessions.entries()) {
      bar.show("sessions", at, sessions.length);
      const name = `${session_id}.${ENDINGS[flags.format]}`;
      const pieces = piecesOf(io, opened.runtime, { session_id, ...flags });
      bytes += await writeFileWhole(join(folder, name), pieces, { shown: join(output, name), isForced });
    }
  });
  io.stderr.write(`Wrote ${counted(sessions.length, "session")} to ${output}: ${bytesText(bytes)}.\n`);
}

async function exportOne(
  io: Io,
  { runtime }: Opened,
  { session_id, format, output, force = false }: ExportFlags & { readonly session_id: string },
): Promise<void> {
  const pieces = piecesOf(io, runtime, { session_id, format });
  if (output === undefined) {
    if (force) throw invalid("--force: it is about the file of -o; name one");
    // A file gets the exact text; control characters must not reach a terminal.
    const isShown = io.stdout.isTerminal;
    for await (const piece of pieces) {
      io.stdout.write(isShown && typeof piece === "string" ? withoutControls(piece) : piece);
    }
    return;
  }
  const path = await outputPath(io, output, `${session_id}.${ENDINGS[format]}`);
  const bytes = await writeFileWhole(path, pieces, { shown: output, isForced: force });
  io.stderr.write(`Wrote ${output}: ${bytesText(bytes)}. Anyone who gets the file can read the whole session.\n`);
}

export async function everySession(
  { dispatch }: Pick<Runtime, "dispatch">,
  asked: { readonly archived: boolean; readonly labels?: Readonly<Record<string, string>> },
): Promise<readonly SessionSummary[]> {
  const found = new Map<string, SessionSummary>();
  let cursor: string | undefined;
  do {
    const at = cursor === undefined ? {} : { cursor };
    const page = await dispatch("listSessions", { ...asked, limit: LIST_PAGE, ...at });
    for (const session of page.sessions) found.set(session.session_id, session);
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return [...found.values()];
}

const LIST_PAGE = 500;

interface Wanted {
  readonly session_id: string;
  readonly format: Format;
}

export async function* piecesOf(
  io: Io,
  runtime: Runtime,
  { session_id, format }: Wanted,
): AsyncGenerator<string | Uint8Array> {
  const { dispatch } = runtime;
  const signal = io.interrupt;
  switch (format) {
    case "jsonl":
      yield* sessionLines({ dispatch, session_id, signal });
      return;
    case "html":
      yield (await makeSessionPage(io, runtime, session_id)).page;
      return;
    case "markdown": {
      const { messages } = await dispatch("readHistory", { session_id }, { signal });
      yield asMarkdown(await dispatch("readSession", { session_id }, { signal }), messages);
      return;
    }
    case "openai":
      yield `${JSON.stringify(asChatMessages(await messagesOf(runtime, session_id, signal)), undefined, 1)}\n`;
      return;
    case "sharegpt": {
      const { messages } = await dispatch("readHistory", { session_id }, { signal });
      yield `${JSON.stringify({ id: session_id, conversations: asSharedTurns(messages) }, undefined, 1)}\n`;
      return;
    }
  }
}

/** The messages, with their blobs inserted. */
async function messagesOf(runtime: Runtime, session_id: string, signal: AbortSignal): Promise<readonly Message[]> {
  const { dispatch } = runtime;
  const { messages } = await dispatch("readHistory", { session_id }, { signal });
  const read = async (blob_id: string): Promise<string | undefined> => {
    try {
      return (await dispatch("readBlob", { blob_id }, { signal })).data;
    } catch (thrown) {
      // A blob that is gone is named instead.
      if (thrown instanceof RuntimeError && thrown.code === "INVALID_PARAMS") return undefined;
      throw thrown;
    }
  };
  const filled: Message[] = [];
  for (const message of messages) {
    filled.push(message.role === "user" ? { ...message, content: await withBlobs(message.content, read) } : message);
  }
  return filled;
}

export const importRow = command("session import FILE…", {
  text: "Import exported sessions, or conversations of other programs; each file is checked to its end before any of it is stored.",
  flags: () => [
    new Option("--format <format>", "the format of the files; without it, it is detected").choices([
      ...["jsonl", "openai", "sharegpt", "pi"],
    ]),
    new Option("-m, --model <name>", "the model that continues conversations of other programs"),
    jsonFlag(),
  ],
  examples: [
    ["rkat session import heron.jsonl", "the same session, under another id where its own is taken"],
    ["rkat session import sessions/*.jsonl", "what --all wrote"],
    ["rkat session import chat.json -m offline", "messages of OpenAI's or ShareGPT's form"],
  ],
  notes: [["Cut off", "an import that was stopped continues when the same file is imported again"]],
  run: ({ invocation, self, flags }: Call<ImportFlags>) => importFiles(invocation, self.args, flags),
});

interface ImportFlags {
  readonly format?: Foreign | "jsonl";
  readonly model?: string;
  readonly json?: boolean;
}

type Foreign = "openai" | "sharegpt" | "pi";

/** A file, and what it is. */
interface Given {
  readonly path: string;
  readonly shown: string;
  readonly format: Foreign | "jsonl";
}

interface Imported {
  readonly file: string;
  readonly format: string;
  readonly session_id: string;
  readonly source_session_id?: string;
  readonly entries?: number;
  readonly messages?: number;
}

async function importFiles(invocation: Invocation, files: readonly string[], flags: ImportFlags): Promise<void> {
  const { io } = invocation;
  const given: Given[] = [];
  // A refused file creates no folder.
  for (const shown of files) given.push(await look(resolve(io.cwd, shown), shown, flags.format));
  await withRuntime(invocation, async ({ runtime }) => {
    const imported: Imported[] = [];
    for (const one of given) {
      const made =
        one.format === "jsonl" ? [await importWhole(io, runtime, one)] : await importForeign(io, runtime, one, flags);
      imported.push(...made);
      if (flags.json !== true) for (const each of made) io.stdout.write(`${sentenceOf(each)}\n`);
    }
    if (flags.json) writeJson(io, { imported });
  });
}

function sentenceOf({ file, session_id, source_session_id, entries = 0, messages = 0 }: Imported): string {
  const what = source_session_id === undefined ? counted(messages, "message") : counted(entries, "entry");
  const other =
    source_session_id === undefined || source_session_id === session_id ? "" : `, beside ${source_session_id}`;
  return `${file}: ${session_id}${other}, ${what}. Resume with: rkat resume ${shortId(session_id)} PROMPT`;
}

const HEAD_BYTES = 64 * 1_024;
/** The largest file of another program; a conversation has at most 10,000 messages. */
const FOREIGN_BYTES_MAX = 256 * 1_024 * 1_024;

async function look(path: string, shown: string, format: ImportFlags["format"]): Promise<Given> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw invalid(`${shown}: there is no such file`);
  if (!found.isFile()) throw invalid(`${shown}: it is not a file; name the files in it`);
  if (format !== undefined) return { path, shown, format };
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return { path, shown, format: formatOf(buffer.toString("utf8", 0, bytesRead), shown) };
  } finally {
    await file.close();
  }
}

/** What a file is, by how it begins. */
function formatOf(head: string, shown: string): Given["format"] {
  const [first = ""] = head.split("\n", 1);
  if (/"format"\s*:\s*"rkat-session"/.test(first)) return "jsonl";
  if (/"type"\s*:\s*"session"/.test(first)) return "pi";
  if (/"(?:conversations|from)"\s*:/.test(head)) return "sharegpt";
  if (/"(?:messages|role)"\s*:/.test(head)) return "openai";
  throw invalid(`${shown}: its format is unknown; name it with --format`);
}

async function importWhole(io: Io, { dispatch }: Runtime, { path, shown }: Given): Promise<Imported> {
  const { id, session_id, entries } = await withBar(io, (bar) =>
    importFile({
      dispatch,
      name: shown,
      signal: io.interrupt,
      clock: createSystemClock(),
      open: () => createReadStream(path, { signal: io.interrupt }),
      progress: (done, total) => bar.show("entries", done, total),
    }),
  );
  return { file: shown, format: "jsonl", session_id: id, source_session_id: session_id, entries };
}

async function importForeign(
  io: Io,
  { dispatch }: Runtime,
  { path, shown, format }: Given,
  { model }: ImportFlags,
): Promise<readonly Imported[]> {
  const text = await textOf(path, shown);
  const imported: Imported[] = [];
  for (const { system, history, leftOut } of transcriptsIn(text, shown, format)) {
    if (history.length === 0) throw invalid(`${shown}: it has no messages`);
    const settings = {
      ...(system === undefined ? {} : { system_prompt: system }),
      ...(model === undefined ? {} : { model }),
    };
    const input = { initial_turn: "deferred", history, ...settings };
    const { session_id } = await dispatch("createSession", input, { signal: io.interrupt });
    if (leftOut.length > 0) io.stderr.write(`! ${shown}: left out: ${leftOut.join(", ")}\n`);
    imported.push({ file: shown, format, session_id, messages: history.length });
  }
  return imported;
}

async function textOf(path: string, shown: string): Promise<string> {
  const { size } = await stat(path);
  if (size > FOREIGN_BYTES_MAX) {
    throw new RuntimeError(
      "PAYLOAD_TOO_LARGE",
      `${shown}: it is larger than ${bytesText(FOREIGN_BYTES_MAX)}; split it`,
    );
  }
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(path)) chunks.push(chunk as Buffer); // A file's stream gives buffers.
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (cause) {
    throw invalid(`${shown}: it is not UTF-8 text`, cause);
  }
}

/** The conversations of a file: one in JSON, or one a line; all are read before the first is kept. */
function transcriptsIn(text: string, shown: string, format: Given["format"]): readonly ForeignTranscript[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (format === "pi") return [readPi(lines, shown)];
  const read = format === "openai" ? readChat : readShared;
  const whole = parsed(text);
  if (whole === undefined) {
    return lines.map((line, at) => {
      const value = parsed(line);
      if (value === undefined) throw invalid(`${shown}: line ${at + 1}: it is not JSON`);
      return read(value, `${shown}: line ${at + 1}`);
    });
  }
  const isSeveral = Array.isArray(whole) && whole.every(holdsConversation) && whole.length > 0;
  if (isSeveral) return whole.map((one: unknown, at) => read(one, `${shown}: [${at}]`));
  return [read(whole, shown)];
}

function holdsConversation(value: unknown): boolean {
  return typeof value === "object" && value !== null && ("conversations" in value || "messages" in value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
