import { join } from "node:path";
import { hasCode, invalid } from "@rkat/core/contract/error";
import type { Message } from "@rkat/core/contract/message";
import type { SessionSummary } from "@rkat/core/contract/session-info";
import type { Runtime } from "@rkat/core/create-runtime";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { sessionLines } from "@rkat/core/transfer/session-lines";
import { asChatMessages, asMarkdown, asSharedTurns, withBlobs } from "@rkat/core/transfer/transcript-formats";
import { Option } from "commander";
import { command, onOpened } from "../command-row.ts";
import { makeOutputFolder, outputPath, writeFileWhole } from "../commands/output-file.ts";
import { fieldOptions, fieldsOf } from "../flags.ts";
import { bytesText, counted, type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { withBar } from "../progress.ts";
import { makeSessionPage } from "../session-page.ts";
import { findSession } from "../session-selector.ts";

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
      if (hasCode(thrown, "INVALID_PARAMS")) return undefined;
      throw thrown;
    }
  };
  const filled: Message[] = [];
  for (const message of messages) {
    filled.push(message.role === "user" ? { ...message, content: await withBlobs(message.content, read) } : message);
  }
  return filled;
}
