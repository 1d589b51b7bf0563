import { createReadStream } from "node:fs";
import { open, readdir, readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { asRuntimeError, ERRORS, invalid, RuntimeError } from "@rkat/core/contract/error";
import { defined, isRecord, jsonIn } from "@rkat/core/contract/json";
import type { Runtime } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import type { Conversation } from "@rkat/core/transfer/formats/conversation";
import { foreignLines } from "@rkat/core/transfer/formats/foreign-lines";
import { FORMAT_NAMES, FORMATS, type Format, type FormatName, formatOf } from "@rkat/core/transfer/formats/formats";
import { type Folder, gatherOpencode } from "@rkat/core/transfer/formats/opencode";
import { importedSessionId } from "@rkat/core/transfer/import-history";
import { importFile } from "@rkat/core/transfer/session-lines";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { bytesText, counted, type Io, writeJson } from "../io.ts";
import { withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { withBar } from "../progress.ts";
import { shortId } from "../session-selector.ts";

export const importRow = command("session import FILE…", {
  text: "Import exported sessions, or sessions of other agents; a file that is imported again adds only what is new in it.",
  flags: () => [
    new Option("--format <format>", "the format of the files; without it, it is detected").choices([
      ...["jsonl", ...FORMAT_NAMES],
    ]),
    new Option("-m, --model <name>", "the model that continues sessions of other programs"),
    new Option("--dry-run", "read the files and say what an import would add; change nothing"),
    jsonFlag(),
  ],
  examples: [
    ["rkat session import heron.jsonl", "the same session, under another id where its own is taken"],
    ["rkat session import ~/.claude/projects/-home-ada-pond/*.jsonl", "sessions of Claude Code, with their sub-agents"],
    [
      "rkat session import ~/.codex/sessions/2026/11/18/*.jsonl --dry-run",
      "what there is to import, and what is left out",
    ],
    ["rkat session import chat.json -m offline", "messages of OpenAI's or ShareGPT's form"],
  ],
  notes: [
    [
      "Formats",
      Object.values(FORMATS)
        .map(({ title }) => title)
        .join(", "),
    ],
    ["Cut off", "an import that was stopped continues when the same file is imported again"],
  ],
  run: ({ invocation, self, flags }: Call<ImportFlags>) => importFiles(invocation, self.args, flags),
});

interface ImportFlags {
  readonly format?: FormatName | "jsonl";
  readonly model?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** A file, and what it is. */
interface Given {
  readonly path: string;
  readonly shown: string;
  readonly format: FormatName | "jsonl";
}

export interface Imported {
  readonly file: string;
  readonly format: string;
  readonly session_id: string;
  readonly source_session_id?: string;
  readonly entries?: number;
  readonly source_id?: string;
  readonly messages?: number;
  readonly calls?: number;
  readonly added?: number;
  readonly replaced?: number;
  readonly compactions?: number;
  readonly left_out?: readonly string[];
  readonly skipped?: string;
}

interface Failed {
  readonly file: string;
  readonly error: RuntimeError;
}

async function importFiles(invocation: Invocation, files: readonly string[], flags: ImportFlags): Promise<void> {
  const { io } = invocation;
  const given: Given[] = [];
  const failed: Failed[] = [];
  /** One bad file among several does not stop the others. */
  const each = async <T>(shown: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (thrown) {
      if (files.length === 1 || io.interrupt.aborted) throw thrown;
      const error = asRuntimeError(thrown);
      failed.push({ file: shown, error });
      io.stderr.write(`! ${error.message}\n`);
      return undefined;
    }
  };
  // A refused file creates no folder.
  for (const shown of files) {
    const one = await each(shown, () => look(resolve(io.cwd, shown), shown, flags.format));
    if (one !== undefined) given.push(one);
  }
  const imported: Imported[] = [];
  const run = async (runtime: Runtime | undefined): Promise<void> => {
    for (const one of given) {
      const made = (await each(one.shown, () => importOne(io, runtime, one, flags))) ?? [];
      imported.push(...made);
      if (flags.json !== true) for (const each of made) report(io, each, flags);
    }
  };
  if (flags.dryRun) await run(undefined);
  else if (given.length > 0) await withRuntime(invocation, ({ runtime }) => run(runtime));
  if (flags.json) {
    writeJson(io, { imported, failed: failed.map(({ file, error }) => ({ file, error: error.message })) });
  }
  const [first] = failed;
  if (first !== undefined) invocation.exitWith(ERRORS[first.error.code].exit);
}

async function importOne(
  io: Io,
  runtime: Runtime | undefined,
  given: Given,
  { model }: ImportFlags,
): Promise<readonly Imported[]> {
  if (given.format === "jsonl") {
    if (runtime !== undefined) return [await importWhole(io, runtime, given)];
    throw invalid(`--dry-run: ${given.shown} is an exported session, which is checked whole by its import`);
  }
  const conversations = await readConversations(given.path, given.shown, given.format);
  if (conversations.every(({ history }) => history.length === 0)) throw invalid(`${given.shown}: it has no messages`);
  const imported: Imported[] = [];
  for (const conversation of conversations.filter(({ history }) => history.length > 0)) {
    const about = { file: given.shown, format: given.format, ...factsOf(given.format, conversation) };
    if (runtime === undefined) imported.push(about);
    else {
      const options = { source: given.format, model, signal: io.interrupt };
      imported.push({ ...about, ...(await importConversation(runtime, conversation, options)) });
    }
  }
  return imported;
}

function factsOf(format: FormatName, { source_id, history, compactions, leftOut }: Conversation) {
  const calls = history.flatMap((message) =>
    message.role === "block_assistant" ? message.blocks.filter((block) => block.block_type === "tool_use") : [],
  );
  return {
    session_id: importedSessionId(format, source_id),
    source_id,
    messages: history.length,
    calls: calls.length,
    compactions: compactions.length,
    left_out: leftOut,
  };
}

function report({ stdout, stderr }: Io, imported: Imported, { dryRun }: ImportFlags): void {
  const { file, session_id, left_out = [], skipped } = imported;
  if (left_out.length > 0) stderr.write(`! ${file}: left out: ${left_out.join(", ")}\n`);
  if (skipped !== undefined) stderr.write(`! ${file}: nothing was added: ${skipped}\n`);
  const next = dryRun ? "" : `. Resume with: rkat resume ${shortId(session_id)} PROMPT`;
  stdout.write(`${file}: ${dryRun ? "would be " : ""}${session_id}${sizeOf(imported)}${next}\n`);
}

function sizeOf({
  session_id,
  source_session_id,
  entries = 0,
  messages = 0,
  added,
  compactions = 0,
}: Imported): string {
  if (source_session_id !== undefined) {
    return `${source_session_id === session_id ? "" : `, beside ${source_session_id}`}, ${counted(entries, "entry")}`;
  }
  const isNew = added === undefined || added === messages ? "" : ` (${added} new)`;
  const compacted = compactions === 0 ? "" : `, ${counted(compactions, "compaction")}`;
  return `, ${counted(messages, "message")}${isNew}${compacted}`;
}

const HEAD_BYTES = 64 * 1_024;
/** The largest file of another program that is one value. */
const VALUE_BYTES_MAX = 256 * 1_024 * 1_024;

async function look(path: string, shown: string, format: ImportFlags["format"]): Promise<Given> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw invalid(`${shown}: there is no such file`);
  if (!found.isFile()) throw invalid(`${shown}: it is not a file; name the files in it`);
  if (format !== undefined) return { path, shown, format };
  const head = await headOf(path);
  const [first = ""] = head.split("\n", 1);
  if (/"format"\s*:\s*"rkat-session"/.test(first)) return { path, shown, format: "jsonl" };
  const detected = formatOf(head, basename(path));
  if (detected === undefined) throw invalid(`${shown}: its format is unknown; name it with --format`);
  return { path, shown, format: detected };
}

export async function headOf(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
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

/** The conversations of a file of another program, with those of sub-agents that it keeps in files of their own. */
export async function readConversations(
  path: string,
  shown: string,
  name: FormatName,
  { alone = false } = {},
): Promise<readonly Conversation[]> {
  const format: Format = FORMATS[name];
  const stem = basename(path).replace(/\.\w+$/, "");
  if (format.readLines === undefined) return readValues(path, shown, format);
  const found = [...(await format.readLines(foreignLines(createReadStream(path)), { stem }))];
  const agents = join(dirname(path), stem, "subagents");
  const names = name === "claude-code" && !alone ? await readdir(agents).catch(() => []) : [];
  for (const file of names.filter((one) => one.endsWith(".jsonl")).toSorted()) {
    const lines = foreignLines(createReadStream(join(agents, file)));
    const children = await format.readLines(lines, { stem: basename(file, ".jsonl") });
    found.push(...children.filter(({ parent_id }) => parent_id !== undefined));
  }
  return found;
}

async function readValues(path: string, shown: string, { readValue }: Format): Promise<readonly Conversation[]> {
  const text = await textOf(path, shown);
  const read = (value: unknown, place: string): readonly Conversation[] => {
    const conversation = readValue?.(value, place);
    return conversation === undefined ? [] : [conversation];
  };
  const whole = jsonIn(text);
  if (whole === undefined) {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.flatMap((line, at) => {
      const value = jsonIn(line);
      if (value === undefined) throw invalid(`${shown}: line ${at + 1}: it is not JSON`);
      return read(value, `${shown}: line ${at + 1}`);
    });
  }
  if (/^ses_.*\.json$/.test(basename(path)) && isRecord(whole) && !("messages" in whole)) {
    const storage = resolve(dirname(path), "..", "..");
    return read(await gatherOpencode(whole, await folderAt(storage), shown), shown);
  }
  const isSeveral = Array.isArray(whole) && whole.every(holdsConversation) && whole.length > 0;
  if (isSeveral) return whole.flatMap((one: unknown, at) => read(one, `${shown}: [${at}]`));
  return read(whole, shown);
}

/** Files below a folder; a link that leads elsewhere is not followed. */
async function folderAt(root: string): Promise<Folder> {
  const real = await realpath(root);
  const inside = async (path: string): Promise<string> => {
    const found = await realpath(join(real, path));
    if (found.startsWith(`${real}/`)) return found;
    throw invalid(`${path}: it is a link to another folder`);
  };
  return {
    list: async (path) => {
      const folder = await inside(path).catch(() => undefined);
      const names = folder === undefined ? [] : await readdir(folder);
      return names.filter((one) => one.endsWith(".json"));
    },
    read: async (path) => jsonIn(await readFile(await inside(path), "utf8")),
  };
}

async function textOf(path: string, shown: string): Promise<string> {
  const { size } = await stat(path);
  if (size > VALUE_BYTES_MAX) {
    throw new RuntimeError("PAYLOAD_TOO_LARGE", `${shown}: it is larger than ${bytesText(VALUE_BYTES_MAX)}; split it`);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
  } catch (cause) {
    throw invalid(`${shown}: it is not UTF-8 text`, cause);
  }
}

function holdsConversation(value: unknown): boolean {
  return isRecord(value) && ("conversations" in value || "messages" in value);
}

const PAGE_MESSAGES_MAX = 2_000;
const PAGE_CHARS_MAX = 8 * 1_024 * 1_024;

interface Into {
  readonly source: string;
  readonly model?: string | undefined;
  readonly signal: AbortSignal;
}

/** Imports a conversation, or what is new of it, in calls of a bounded size. */
export async function importConversation(
  { dispatch }: Pick<Runtime, "dispatch">,
  { source_id, parent_id, labels, system, history, compactions }: Conversation,
  { source, model, signal }: Into,
) {
  const sum = { added: 0, replaced: 0, compactions: 0 };
  const about = {
    ...{ source, source_id, labels },
    ...defined({ parent_id, system_prompt: system, model }),
  };
  for (let after = 0; ; ) {
    const page = pageFrom(history, after);
    const upTo = after + page.length;
    const marks = compactions.filter(({ at }) => at > after && at <= upTo);
    const input = { ...about, after, history: page, compactions: marks };
    const { session_id, messages, skipped, ...done } = await dispatch("importHistory", input, { signal });
    sum.added += done.added;
    sum.replaced += done.replaced;
    sum.compactions += done.compactions;
    const isOver = upTo === history.length || skipped !== undefined;
    if (isOver) return { session_id, messages, ...sum, ...(skipped === undefined ? {} : { skipped }) };
    after = upTo;
  }
}

function pageFrom(history: Conversation["history"], after: number): Conversation["history"] {
  let upTo = after;
  for (let chars = 0; upTo < history.length && upTo - after < PAGE_MESSAGES_MAX; upTo += 1) {
    chars += JSON.stringify(history[upTo]).length;
    if (chars > PAGE_CHARS_MAX && upTo > after) break;
  }
  return history.slice(after, upTo);
}
