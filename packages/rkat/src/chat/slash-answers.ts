import { spawn } from "node:child_process";
import { invalid, type RuntimeError } from "@rkat/core/contract/error";
import {
  type AssistantBlock,
  blockText,
  type Content,
  type Message,
  type ToolResult,
} from "@rkat/core/contract/message";
import type { JsonObject } from "@rkat/core/contract/session";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { patchLines, patchOf, unfolded } from "../commands/turn-view.ts";
import { bytesText, counted, createPaint, type Io, oneLine, type Paint } from "../io.ts";
import { piecesOf } from "../transfer/session-transfer.ts";
import { type Chat, currentOf, printNote, type SlashCommand } from "./conversation.ts";

export const ANSWER_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  expand: {
    takes: "[N]",
    meaning:
      "show the last turn's reasoning, tool calls and results in full; with N, one call, counted from the newest",
    run: async (chat, rest) => {
      const id = currentOf(chat);
      if (rest !== "" && !/^[1-9]\d{0,5}$/.test(rest)) {
        throw invalid(`/expand ${rest}: write the number of a call; the newest is 1`);
      }
      await (rest === "" ? expandTurn(chat, id) : expandCall(chat, id, Number(rest)));
    },
  },
  copy: {
    takes: "[code|all]",
    meaning: "copy the last answer, its last code block, or the whole conversation",
    candidates: async () => [
      { text: "code", note: "the last code block of the last answer" },
      { text: "all", note: "the whole conversation, as Markdown" },
    ],
    run: async (chat, rest) => {
      const text = await textToCopy(chat, rest);
      const how = await copyText(chat.invocation.io, text);
      return printNote(chat, `Copied ${counted(text.length, "character")} ${how}.`);
    },
  },
};

/** A part of an answer that is shortened while it is streamed. */
type Step =
  | { readonly kind: "thought"; readonly text: string }
  | { readonly kind: "call"; readonly name: string; readonly args: unknown; readonly result: ToolResult | undefined };

const PAGE = 64;
const RESULT_LINES_MAX = 200;

async function expandTurn(chat: Chat, session_id: string): Promise<void> {
  const isTurn = (messages: readonly Message[]): boolean => messages.some(isPrompt);
  const messages = await newest(chat, session_id, isTurn);
  const steps = stepsOf(messages.slice(messages.findLastIndex(isPrompt) + 1));
  if (steps.length === 0) {
    printNote(chat, "The last turn had no reasoning and no tool calls; /history shows the conversation.");
    return;
  }
  let number = steps.filter(({ kind }) => kind === "call").length;
  for (const step of steps) {
    showStep(chat, step, { number, linesMax: RESULT_LINES_MAX });
    if (step.kind === "call") number -= 1;
  }
}

async function expandCall(chat: Chat, session_id: string, number: number): Promise<void> {
  const callsOf = (messages: readonly Message[]) => stepsOf(messages).filter(({ kind }) => kind === "call");
  const calls = callsOf(await newest(chat, session_id, (messages) => callsOf(messages).length >= number));
  const call = calls.at(-number);
  if (call === undefined) {
    const made = calls.length === 1 ? "call was" : "calls were";
    const there = `only ${calls.length} ${made} made, and the newest is 1`;
    throw invalid(`/expand ${number}: ${there}`);
  }
  showStep(chat, call, { number, linesMax: Number.POSITIVE_INFINITY });
}

function isPrompt(message: Message): boolean {
  return message.role === "user" && message.compaction_id === undefined;
}

/** The newest messages, as many as are enough. */
async function newest(
  { opened }: Chat,
  session_id: string,
  isEnough: (messages: readonly Message[]) => boolean,
): Promise<readonly Message[]> {
  const { message_count } = await opened.runtime.dispatch("readSession", { session_id });
  for (let size = PAGE; ; size *= 4) {
    const offset = Math.max(0, message_count - size);
    const { messages } = await opened.runtime.dispatch("readHistory", { session_id, offset });
    if (offset === 0 || isEnough(messages)) return messages;
  }
}

function stepsOf(messages: readonly Message[]): readonly Step[] {
  const results = new Map(
    messages.flatMap((message) =>
      message.role === "tool_results" ? message.results.map((result) => [result.tool_use_id, result] as const) : [],
    ),
  );
  return messages.flatMap((message) =>
    message.role === "block_assistant" ? message.blocks.flatMap((block) => stepOf(block, results)) : [],
  );
}

function stepOf(block: AssistantBlock, results: ReadonlyMap<string, ToolResult>): readonly Step[] {
  switch (block.block_type) {
    case "reasoning":
      return block.data.text === "" ? [] : [{ kind: "thought", text: block.data.text }];
    case "tool_use": {
      const { id, name, args } = block.data;
      return [{ kind: "call", name, args, result: results.get(id) }];
    }
    case "server_tool_content": {
      const { name, content } = block.data;
      return [{ kind: "call", name, args: content, result: undefined }];
    }
    case "text":
    case "image":
      return [];
  }
}

const NAME_CHARS_MAX = 200;

function showStep(
  { invocation }: Chat,
  step: Step,
  { number, linesMax }: { readonly number: number; readonly linesMax: number },
): void {
  const { stdout, env } = invocation.io;
  const paint = createPaint(stdout, env);
  const write = (lines: readonly string[]): void => stdout.write(`${lines.map((line) => `${line}\n`).join("")}`);
  if (step.kind === "thought") {
    write([paint.bold("thought"), ...linesOf(step.text).map((line) => `   ${paint.dim(line)}`), ""]);
    return;
  }
  const { name, args, result } = step;
  write([paint.bold(`${number}  ${oneLine(name, NAME_CHARS_MAX)}`), ...argumentLines(args, paint)]);
  if (result !== undefined) {
    const lines = linesOf(unfolded(textOf(result.content)));
    const mark = result.is_error ? paint.red("✗ failed") : paint.dim("← answered");
    write([`   ${mark}`, ...lines.slice(0, linesMax).map((line) => `   ${line}`)]);
    const more = lines.length - linesMax;
    if (more > 0) write([paint.dim(`   … ${counted(more, "more line")}; /expand ${number} shows all of it`)]);
  }
  write([""]);
}

function linesOf(text: string): readonly string[] {
  return withoutControls(text).trimEnd().split("\n");
}

function textOf(content: Content): string {
  return typeof content === "string" ? content : content.map(blockText).join("\n");
}

/** A command or a patch as it is written, and anything else as JSON. */
function argumentLines(args: unknown, paint: Paint): readonly string[] {
  const given: JsonObject = typeof args === "object" && args !== null ? { ...args } : {};
  const patch = patchOf(given);
  const text = given.command ?? given.input;
  const lines = typeof text === "string" ? linesOf(text) : linesOf(JSON.stringify(args, undefined, 2) ?? "");
  return (patch === undefined ? lines : patchLines(patch, paint)).map((line) => `   ${line}`);
}

async function textToCopy(chat: Chat, rest: string): Promise<string> {
  const { invocation, opened } = chat;
  const session_id = currentOf(chat);
  if (rest === "all") {
    const pieces: string[] = [];
    for await (const piece of piecesOf(invocation.io, opened.runtime, { session_id, format: "markdown" }))
      pieces.push(String(piece));
    return pieces.join("");
  }
  if (rest !== "" && rest !== "code") throw invalid(`/copy ${rest}: write /copy, /copy code or /copy all`);
  const { last_assistant_text: text = "" } = await opened.runtime.dispatch("readSession", { session_id });
  if (text === "") throw invalid("there is no answer yet");
  if (rest === "") return text;
  const code = lastCode(text);
  if (code === undefined) throw invalid("the last answer has no code block; /copy copies the whole answer");
  return code;
}

/** What stands in the last fence of a text; one that is not closed reaches to the end. */
function lastCode(text: string): string | undefined {
  let code: string[] | undefined;
  let fence: string | undefined;
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence === undefined) {
      if (mark === undefined) continue;
      fence = mark;
      code = [];
    } else if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
    else code?.push(line);
  }
  return code?.join("\n");
}

type Words = readonly [program: string, ...args: string[]];

/** The programs that copy their input to the clipboard of this machine. */
function programsFor({ env }: Io): readonly Words[] {
  const isSet = (name: string): boolean => (env[name] ?? "") !== "";
  // Over SSH, this machine's clipboard is not the user's.
  if (isSet("SSH_CONNECTION") || isSet("SSH_TTY")) return [];
  return [
    ["pbcopy"],
    ...(isSet("WAYLAND_DISPLAY") ? [["wl-copy"] as const] : []),
    ...(isSet("DISPLAY") ? [["xclip", "-selection", "clipboard"] as const, ["xsel", "-ib"] as const] : []),
    ["clip.exe"],
  ];
}

const PROGRAM_MS_MAX = 2_000;
/** Terminals accept at most 100,000 characters, including the control sequence. */
const TERMINAL_BYTES_MAX = 74_994;

/** Copies a text to the clipboard; returns how, in a few words. Throws INVALID_PARAMS, with an alternative, where it cannot. */
async function copyText(io: Io, text: string): Promise<string> {
  for (const words of programsFor(io)) {
    if (await feed(words, io, text)) return `by ${words[0]}`;
  }
  const terminal = [io.stdout, io.stderr].find(({ isTerminal }) => isTerminal);
  if (terminal === undefined) throw noClipboard("there is neither a program for it nor a terminal");
  const data = Buffer.from(text);
  if (data.length > TERMINAL_BYTES_MAX)
    throw noClipboard(`a terminal takes ${bytesText(TERMINAL_BYTES_MAX)}, and this is ${bytesText(data.length)}`);
  terminal.write(`\u001b]52;c;${data.toString("base64")}\u0007`);
  return "by the terminal, where it allows that (OSC 52)";
}

function noClipboard(why: string): RuntimeError {
  return invalid(`nothing was copied: ${why}; /export FILE writes the session to a file`);
}

/** Pipes the text to a program; false where it is missing, fails, or takes too long. */
function feed([program, ...args]: Words, { env, interrupt }: Io, text: string): Promise<boolean> {
  return new Promise((resolve) => {
    // In its own process group: the program that holds the clipboard outlives this chat and its Ctrl-C.
    const signal = AbortSignal.any([interrupt, AbortSignal.timeout(PROGRAM_MS_MAX)]);
    const stdio = ["pipe", "ignore", "ignore"] as const;
    const child = spawn(program, args, { env: { ...env }, stdio: [...stdio], detached: true, signal });
    child.on("error", () => resolve(false));
    child.on("exit", (code) => resolve(code === 0));
    child.stdin?.on("error", () => {});
    // Windows reads what is not said to be UTF-16 in the encoding of the machine.
    child.stdin?.end(program === "clip.exe" ? Buffer.from(`\ufeff${text}`, "utf16le") : text);
  });
}
