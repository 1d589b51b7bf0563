import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Runtime } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { type ForeignTranscript, readChat, readPi, readShared } from "@rkat/core/transfer/foreign-transcripts";
import { importFile } from "@rkat/core/transfer/session-lines";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { bytesText, counted, type Io, writeJson } from "../io.ts";
import { withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { withBar } from "../progress.ts";
import { shortId } from "../session-selector.ts";

/** `rkat session import`. */
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

/** The result of importing a file. */
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
    throw new RuntimeError("INVALID_PARAMS", `${shown}: it is not UTF-8 text`, { cause });
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
