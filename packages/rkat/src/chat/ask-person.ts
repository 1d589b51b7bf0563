import { createInterface } from "node:readline/promises";
import { unwrapSubAgentEvent } from "@rkat/core/contract/describe-event";
import { asRuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import { jsonIn } from "@rkat/core/contract/json";
import type { ServerQuestion } from "@rkat/core/contract/permission";
import type { JsonObject } from "@rkat/core/contract/session";
import type { Approval } from "@rkat/core/contract/session-operations";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { patchLines, patchOf } from "../commands/turn-view.ts";
import { counted, createPaint, type Io, oneLine, type Paint, type Terminal } from "../io.ts";
import type { Key } from "./keys.ts";

export function canAsk({ stdin, stderr }: Io): boolean {
  return stdin.kind === "terminal" && stderr.isTerminal;
}

export async function askLine({ stdin, interrupt }: Io, question: string, over?: AbortSignal): Promise<string> {
  const { input, output } = stdin.terminal();
  // Not as a terminal, so that the terminal edits the line and handles Ctrl-C, as for any command.
  const lines = createInterface({ input, output, terminal: false });
  try {
    const ended = new Promise<undefined>((resolve) => lines.once("close", () => resolve(undefined)));
    const signal = over === undefined ? interrupt : AbortSignal.any([interrupt, over]);
    const line = await Promise.race([lines.question(question, { signal }), ended]);
    // Enter was not pressed: the next output would continue the line of the question.
    if (line === undefined) output.write("\n");
    return line ?? "";
  } finally {
    lines.close();
  }
}

/** Takes keys until `press` resolves; Ctrl-C interrupts the command, as elsewhere. */
async function withKeys<T>(
  terminal: Terminal,
  signal: AbortSignal,
  press: (text: string, key: Key, resolve: (value: T) => void) => void,
  atEnd: T,
): Promise<T> {
  const { openKeys } = await import("./keys.ts");
  const done = Promise.withResolvers<T>();
  const keys = openKeys(terminal, {
    press: (text, key) => {
      if (key.ctrl && key.name === "c") terminal.interrupt?.();
      else press(text ?? "", key, done.resolve);
    },
    paste: (text) => press(text, {}, done.resolve),
    end: () => done.resolve(atEnd),
  });
  const abort = (): void => done.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await done.promise;
  } finally {
    signal.removeEventListener("abort", abort);
    keys.close();
    terminal.output.write("\n");
  }
}

/** Asks for one key; anything but an answer's is ignored. `r` asks for a line. */
export async function askKey(io: Io, question: Question, over?: AbortSignal): Promise<string> {
  if (question.choices.length === 0) return askLine(io, `${question.words} `, over);
  const terminal = io.stdin.terminal();
  const { output } = terminal;
  output.write(lineOf(question));
  const press = (text: string, key: Key, resolve: (word: string) => void): void => {
    const word = key.name === "return" || (key.ctrl && key.name === "d") ? "n" : text.toLowerCase();
    if (!question.choices.some((choice) => choice.word === word)) return;
    output.write(word);
    resolve(word);
  };
  const signal = over === undefined ? io.interrupt : AbortSignal.any([io.interrupt, over]);
  const word = await withKeys(terminal, signal, press, "n");
  return word === "r" ? reasonOf(await askLine(io, WHY_NOT, over)) : word;
}

/** Asks for a text that the terminal does not show. */
export function askSecret(io: Io, question: string): Promise<string> {
  const terminal = io.stdin.terminal();
  terminal.output.write(question);
  let typed = "";
  const press = (text: string, key: Key, resolve: (text: string) => void): void => {
    if (key.name === "return" || key.name === "enter") resolve(typed);
    else if (key.ctrl && key.name === "d") resolve("");
    else if (key.name === "backspace") typed = typed.slice(0, -1);
    else if (!key.ctrl && !key.meta) typed += withoutControls(text);
  };
  return withKeys(terminal, io.interrupt, press, "");
}

/** An answer that denies for this reason, whatever the reason's words are. */
export function reasonOf(line: string): string {
  return `r ${line}`;
}

export const WHY_NOT = "Why not? ";

interface AnswerChoice {
  readonly word: string;
  readonly meaning: string;
}

/** A question, and the keys that answer it, or none for a line; the key `r` asks for a line, the reason that the model gets. */
export interface Question {
  readonly words: string;
  readonly choices: readonly AnswerChoice[];
}

export function lineOf({ words, choices }: Question): string {
  return `${words} ${choices.map(({ word, meaning }) => `${word} ${meaning}`).join(" · ")}: `;
}

/** Anything but yes is no, and so is the end of the input. */
export async function isAgreed(io: Io, question: string): Promise<boolean> {
  return /^\s*y(?:es)?\s*$/i.test(await askLine(io, `${question} [y/N] `));
}

/** The denial that the model gets when no person can be asked; it names the flags that allow the call, if any do. */
export const UNATTENDED = ({ allowing }: { readonly allowing?: readonly string[] | undefined }): string => {
  if (allowing === undefined) {
    return "no person can be asked here, and --allow does not satisfy this rule; change the rule, or answer at a terminal";
  }
  const flags = allowing.map((rule) => `--allow '${rule.replaceAll("'", "'\\''")}'`).join(" ");
  return `no person can be asked here; allow it with ${flags}, or everything with --yes`;
};

/** Receives the events of a turn, and asks about the calls that wait for approval. */
export interface Asker {
  onEvent(event: AgentEvent): void;
}

/** Asks on stderr, one question at a time, and sends each answer to the runtime. */
export function createAsker(
  io: Io,
  dispatch: Dispatch,
  /** The signal aborts when another client has answered; undefined where the turn was stopped instead. */
  ask: (question: Question, over: AbortSignal) => Promise<string | undefined>,
): Asker {
  const { yellow, dim, bold } = createPaint(io.stderr, io.env);
  /** Open questions by id; sub-agents may ask several at once. */
  const open = new Map<string, Asked>();
  let asked = Promise.resolve();
  const drop = (id: string, words: string): void => {
    const question = open.get(id);
    if (question === undefined) return;
    open.delete(id);
    question.over.abort("answered");
    if (question.isShown) io.stderr.write(`\n${dim(`(${words})`)}\n`);
  };
  const put = async (question: Asked): Promise<void> => {
    const { session_id, approval_id, calls, agent, over } = question;
    if (over.signal.aborted) return;
    question.isShown = true;
    if (agent !== undefined) io.stderr.write(`${bold(`sub-agent ${oneLine(agent, NAME_CHARS_MAX)} asks:`)}\n`);
    // Each call is answered on its own; what an answer allows for longer is not asked again.
    const allowed = new Set<string>();
    for (const call of calls) {
      const isAllowed = call.always?.every((rule) => allowed.has(rule)) === true;
      if (!isAllowed) showCalls(io, [call]);
      const put = (one: Question) => ask(one, over.signal);
      const answer = call.question
        ? await askFields(call.question, put)
        : readWord(isAllowed ? "y" : await put(questionFor(call)));
      if (over.signal.aborted) return;
      if (answer === undefined) {
        open.delete(approval_id);
        return;
      }
      if (answer.remember !== undefined) for (const rule of call.always ?? []) allowed.add(rule);
      question.answering.add(call.id);
      await dispatch("answerApproval", { session_id, approval_id, calls: [call.id], ...answer });
    }
    open.delete(approval_id);
  };
  return {
    onEvent: (reported) => {
      const { event, agent } = unwrapSubAgentEvent(reported);
      const answered = event.type === "tool_approval_answered" ? open.get(event.approval_id)?.answering : undefined;
      if (event.type === "tool_approval_answered" && !event.calls.every((id) => answered?.has(id) === true)) {
        drop(
          event.approval_id,
          `${event.decision === "allow" ? "allowed" : "denied"} by ${oneLine(event.by ?? "another client", NAME_CHARS_MAX)}`,
        );
      }
      if (event.type === "sub_agent_completed") {
        const theirs = [...open.values()].filter(({ session_id }) => session_id === event.child_id);
        for (const { approval_id } of theirs)
          drop(approval_id, `sub-agent ${oneLine(event.agent, NAME_CHARS_MAX)} has ended`);
      }
      if (event.type !== "tool_approval_requested") return;
      const question = { ...event, agent, over: new AbortController(), answering: new Set<string>(), isShown: false };
      open.set(event.approval_id, question);
      asked = asked
        .then(() => put(question))
        .catch((thrown: unknown) => {
          if (io.interrupt.aborted || question.over.signal.aborted) return;
          io.stderr.write(`${yellow(withoutControls(asRuntimeError(thrown).message))}\n`);
        });
    },
  };
}

/** A question, the session it belongs to, and whether it is still open. */
interface Asked extends Omit<AgentEventOf<"tool_approval_requested">, "type"> {
  readonly agent: string | undefined;
  readonly over: AbortController;
  /** The calls that this terminal has answered. */
  readonly answering: Set<string>;
  isShown: boolean;
}

const NAME_CHARS_MAX = 100;

type Calls = Approval["calls"];

const ARGS_CHARS_MAX = 2_000;

/** Shows the call in full: a command is never cut, since its end may matter. */
export function showCalls(io: Io, calls: Calls, output = io.stderr): void {
  const paint = createPaint(output, io.env);
  const { bold, dim } = paint;
  for (const { name, args, why, always, question } of calls) {
    output.write(`${bold(withoutControls(name))} ${dim(`(${withoutControls(why)})`)}\n`);
    if (question !== undefined) {
      for (const line of withoutControls(question.message).split("\n")) output.write(`  > ${line}\n`);
      output.write(`${dim(`  answer: ${oneLine(JSON.stringify(question.schema.properties), ARGS_CHARS_MAX)}`)}\n`);
      continue;
    }
    for (const line of linesOf(args, paint)) output.write(`  ${line}\n`);
    if (always !== undefined) output.write(`${dim(`  always: ${withoutControls(always.join(", "))}`)}\n`);
  }
}

/** More lines may not fit on the screen. */
const LINES_SEEN_MAX = 15;

/** A text argument is shown as text, and every other argument is shown as well. */
function linesOf(args: JsonObject, paint: Paint): readonly string[] {
  const name = ["command", "patch", "input"].find((one) => typeof args[one] === "string");
  if (name === undefined) return [oneLine(JSON.stringify(args), ARGS_CHARS_MAX)];
  const { [name]: text, ...others } = args;
  const patch = name === "command" ? undefined : patchOf({ patch: text });
  const lines = patch === undefined ? withoutControls(String(text)).split("\n") : patchLines(patch, paint);
  const isLong = lines.length > LINES_SEEN_MAX;
  return [
    ...lines,
    ...(Object.keys(others).length === 0 ? [] : [oneLine(JSON.stringify(others), ARGS_CHARS_MAX)]),
    ...(isLong ? [paint.dim(`(${counted(lines.length, "line")} in all; the first are above)`)] : []),
  ];
}

/** The answer to a server's question, field by field; an empty line leaves a field out. */
async function askFields(
  { schema }: ServerQuestion,
  put: (question: Question) => Promise<string | undefined>,
): Promise<JsonObject | undefined> {
  const choices = [
    { word: "y", meaning: "answer it" },
    { word: "n", meaning: "decline" },
  ];
  const first = readWord(await put({ words: "Answer it?", choices }));
  if (first?.decision !== "allow") return first && { decision: "deny" };
  const content: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(Object(schema.properties))) {
    const { type = "text", enum: values = type } = Object(field);
    const line = await put({ words: oneLine(`${name} (${values}):`, NAME_CHARS_MAX), choices: [] });
    if (line === undefined) return undefined;
    if (line.trim() !== "") content[name] = type === "string" ? line.trim() : (jsonIn(line) ?? line.trim());
  }
  return { decision: "allow", content };
}

function questionFor({ always }: Calls[number]): Question {
  const canRemember = always !== undefined;
  const longer = [
    { word: "s", meaning: "for this session" },
    { word: "p", meaning: "for this project" },
  ];
  const choices = [
    { word: "y", meaning: "once" },
    ...(canRemember ? longer : []),
    { word: "n", meaning: "no" },
    { word: "r", meaning: "no, and say why" },
  ];
  return { words: "Run it?", choices };
}

/** Anything but yes is no; more than a letter is the reason that the model gets. */
function readWord(line: string | undefined): JsonObject | undefined {
  if (line === undefined) return undefined;
  const text = line.trim();
  if (/^r\b/i.test(text)) return { decision: "deny", ...(text.length < 2 ? {} : { reason: text.slice(1).trim() }) };
  if (/^y(?:es)?$/i.test(text)) return { decision: "allow" };
  if (/^s(?:ession)?$/i.test(text)) return { decision: "allow", remember: "session" };
  if (/^p(?:roject)?$/i.test(text)) return { decision: "allow", remember: "project" };
  const reason = /^(?:no?)?$/i.test(text) ? {} : { reason: text };
  return { decision: "deny", ...reason };
}
