import { createInterface } from "node:readline/promises";
import { unwrapSubAgentEvent } from "@rkat/core/contract/describe-event";
import { asRuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import type { JsonObject } from "@rkat/core/contract/session";
import type { Approval } from "@rkat/core/contract/session-operations";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { patchLines, patchOf } from "../commands/turn-view.ts";
import { counted, createPaint, type Io, oneLine, type Paint } from "../io.ts";

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

interface AnswerChoice {
  readonly word: string;
  readonly meaning: string;
}

/** A question, and the words that answer it; any other line is taken as a reason. */
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
    showCalls(io, calls);
    const line = await ask(questionFor(calls), over.signal);
    if (over.signal.aborted) return;
    open.delete(approval_id);
    if (line === undefined) return;
    await dispatch("answerApproval", { session_id, approval_id, ...readWord(line) });
  };
  return {
    onEvent: (reported) => {
      const { event, agent } = unwrapSubAgentEvent(reported);
      if (event.type === "tool_approval_answered") {
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
      const question = { ...event, agent, over: new AbortController(), isShown: false };
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
  isShown: boolean;
}

const NAME_CHARS_MAX = 100;

type Calls = Approval["calls"];

const ARGS_CHARS_MAX = 2_000;

/** Shows the call in full: a command is never cut, since its end may matter. */
export function showCalls(io: Io, calls: Calls, output = io.stderr): void {
  const paint = createPaint(output, io.env);
  const { bold, dim } = paint;
  for (const { name, args, why, always } of calls) {
    output.write(`${bold(withoutControls(name))} ${dim(`(${withoutControls(why)})`)}\n`);
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

function questionFor(calls: Calls): Question {
  const canRemember = calls.every(({ always }) => always !== undefined);
  const longer = [
    { word: "s", meaning: "for this session" },
    { word: "p", meaning: "for this project" },
  ];
  const choices = [
    { word: "y", meaning: "once" },
    ...(canRemember ? longer : []),
    { word: "n", meaning: "no, or say why not" },
  ];
  return { words: "Run it?", choices };
}

/** Anything but yes is no; more than a letter is the reason that the model gets. */
function readWord(line: string): JsonObject {
  const text = line.trim();
  if (/^y(?:es)?$/i.test(text)) return { decision: "allow" };
  if (/^s(?:ession)?$/i.test(text)) return { decision: "allow", remember: "session" };
  if (/^p(?:roject)?$/i.test(text)) return { decision: "allow", remember: "project" };
  const reason = /^(?:no?)?$/i.test(text) ? {} : { reason: text };
  return { decision: "deny", ...reason };
}
