import { describeEvent, seconds, unwrapSubAgentEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import type { JsonObject, RunResult } from "@rkat/core/contract/session";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { MarkdownStream } from "../chat/markdown.ts";
import { costText, counted, createPaint, type Io, jsonText, oneLine, type Paint, writeJson } from "../io.ts";

/** Shows a turn while it runs and when it has ended. */
export interface TurnView {
  show(event: AgentEvent): void;
  end(result: RunResult): void;
  /** The turn has failed or was interrupted after the model had said so much. */
  breakOff(said: string): void;
}

export interface TextViewOptions {
  readonly isStreaming: boolean;
  readonly isVerbose: boolean;
  /** Whether the usage is shown elsewhere, and not below each answer. */
  readonly isStaged?: boolean;
  /** Shows the text as what it is written in; without it, it is shown as it is. */
  readonly markdown?: MarkdownStream;
  /** The caller's own line for an event; undefined for the default. */
  remark?(event: AgentEvent): string | undefined;
}

/** The text on stdout, everything about it on stderr. */
export function createTextView(io: Io, options: TextViewOptions): TurnView {
  const { stdout, stderr } = io;
  const paint = createPaint(stderr, io.env);
  const subAgents = createSubAgentLines(Date.now);
  const work = createWorkLines(paint, Date.now);
  let isMidLine = false;
  const own = { input_tokens: 0, output_tokens: 0 };
  // A turn that runs in another process sends no deltas, only complete texts.
  let hasPieces = false;
  const { markdown } = options;
  const print = (text: string): void => {
    if (markdown !== undefined) {
      markdown.push(text);
      isMidLine = true;
      return;
    }
    const shown = stdout.isTerminal ? withoutControls(text) : text;
    if (shown === "") return;
    stdout.write(shown);
    isMidLine = !shown.endsWith("\n");
  };
  const endLine = (): void => {
    if (!isMidLine) return;
    if (markdown === undefined) print("\n");
    else markdown.end();
    isMidLine = false;
  };
  const printLine = (line: string): void => {
    endLine();
    stderr.write(`${line}\n`);
  };
  const describe = (event: AgentEvent): void => {
    const notice = noticeOf(event);
    const remark = options.remark?.(event);
    const theirs = subAgents(event, options.isVerbose ? verboseLineInside : () => undefined);
    const line = options.isVerbose ? (theirs ?? verboseLineOf(event)) : stderr.isTerminal ? theirs : undefined;
    if (notice !== undefined) printLine(paint.yellow(`! ${notice}`));
    else if (remark !== undefined) printLine(paint.dim(remark));
    else if (line !== undefined) printLine(paint.dim(`· ${line}`));
    else if (stderr.isTerminal && !options.isVerbose) for (const row of work(event)) printLine(row);
  };
  return {
    show: (event) => {
      if (event.type === "turn_started") endLine();
      if (event.type === "turn_completed") {
        own.input_tokens += event.usage.input_tokens;
        own.output_tokens += event.usage.output_tokens;
      }
      if (event.type === "text_delta" && options.isStreaming) {
        describe(event);
        print(event.delta);
        hasPieces = true;
      }
      if (event.type === "text_complete") {
        if (options.isStreaming && !hasPieces) print(event.content);
        hasPieces = false;
      }
      if (event.type !== "text_delta") describe(event);
    },
    end: (result) => {
      endLine();
      const output = finalText(result, options.isStreaming);
      if (output !== undefined) print(output);
      endLine();
      if (options.isStaged === true) return;
      const { session_id, turns, usage, turn_cost } = result;
      const cost = turn_cost === undefined || turn_cost.amount === 0 ? "" : ` | Cost: ${costText(turn_cost)}`;
      const footer = `Session: ${session_id.slice(0, 8)} | Turns: ${turns} | Tokens: ${usage.input_tokens} in / ${usage.output_tokens} out`;
      // Scripts read this line; the turn's own tokens are added where the session has used more before.
      const thisTurn = stderr.isTerminal ? ownTokens(result, own) : "";
      printLine(paint.dim(`[${footer}${thisTurn}${cost}]`));
    },
    breakOff: (said) => {
      if (!options.isStreaming) print(said);
      endLine();
    },
  };
}

/** What the turn itself took, where the session has taken more before. */
function ownTokens({ usage }: RunResult, { input_tokens, output_tokens }: TokenCounts): string {
  const isAll = input_tokens === 0 || (usage.input_tokens <= input_tokens && usage.output_tokens <= output_tokens);
  return isAll ? "" : ` | This turn: ${input_tokens} in / ${output_tokens} out`;
}

interface TokenCounts {
  input_tokens: number;
  output_tokens: number;
}

/** What remains to be printed: a structured result, or the text unless it was streamed. */
function finalText(result: RunResult, isStreaming: boolean): string | undefined {
  if (result.structured_output !== undefined) return JSON.stringify(result.structured_output, undefined, 2);
  return isStreaming ? undefined : result.text;
}

/** The result as one JSON value; events only on stderr, and only when asked for. */
export function createJsonView(io: Io, { isVerbose }: { isVerbose: boolean }): TurnView {
  const paint = createPaint(io.stderr, io.env);
  const subAgents = createSubAgentLines(Date.now);
  return {
    show: (event) => {
      const line = isVerbose ? (subAgents(event, verboseLineInside) ?? verboseLineOf(event)) : undefined;
      if (line !== undefined) io.stderr.write(`${paint.dim(`· ${line}`)}\n`);
    },
    end: (result) => writeJson(io, result),
    breakOff: () => {},
  };
}

/** Every event as one line of JSON; the last line is the result, and says so in its type. */
export function createEventsView(io: Io): TurnView {
  const writeLine = (value: object): void => io.stdout.write(`${jsonText(value)}\n`);
  return { show: writeLine, end: (result) => writeLine({ type: "result", ...result }), breakOff: () => {} };
}

const LINE_CHARS_MAX = 240;

/** An event as one line that steers no terminal. */
export function lineOf(event: AgentEvent): string {
  return oneLine(describeEvent(event).text, LINE_CHARS_MAX);
}

/** The line of an event that is shown without --verbose; undefined for others. */
export function noticeOf(event: AgentEvent): string | undefined {
  return describeEvent(event).level === "notice" ? lineOf(event) : undefined;
}

/** Every event that is not a piece of a later one, as one line. */
export function verboseLineOf(event: AgentEvent): string | undefined {
  const theirs = subAgentLine(event, verboseLineInside);
  return theirs ?? (describeEvent(event).level === "piece" ? undefined : lineOf(event));
}

/** The lines about a sub-agent's turn: its calls and its notices. */
function verboseLineInside(event: AgentEvent): string | undefined {
  const isCall = event.type === "tool_call_requested" || event.type === "tool_execution_completed";
  return isCall || event.type === "tool_approval_answered" ? verboseLineOf(event) : noticeOf(event);
}

/** A line for what sub-agents do, indented by how deep they are; undefined for what is not theirs, and for the rest. */
type SubAgentLine = (event: AgentEvent, lineOf: (own: AgentEvent) => string | undefined) => string | undefined;

const NAME_CHARS_MAX = 100;
const SUB_AGENT_CHARS_MAX = 120;
const INDENT = "  ";

/** Remembers when each sub-agent began, so that its end can say how long it took. */
export function createSubAgentLines(now: () => number): SubAgentLine {
  const begunMs = new Map<string, number>();
  return (event, lineOf) => {
    const inner = unwrapSubAgentEvent(event).event;
    if (inner.type === "sub_agent_started") begunMs.set(inner.child_id, now());
    const begun = inner.type === "sub_agent_completed" ? begunMs.get(inner.child_id) : undefined;
    if (inner.type === "sub_agent_completed") begunMs.delete(inner.child_id);
    return subAgentLine(event, lineOf, begun === undefined ? undefined : now() - begun);
  };
}

/** The same for events that were kept, which do not say how long something took. */
function subAgentLine(
  event: AgentEvent,
  lineOf: (own: AgentEvent) => string | undefined,
  tookMs?: number,
): string | undefined {
  const { event: inner, depth, agent = "" } = unwrapSubAgentEvent(event);
  const line = lineOfInner(inner, tookMs) ?? (depth === 0 ? undefined : lineOf(inner));
  if (line === undefined || depth === 0) return line;
  return `${INDENT.repeat(depth)}${oneLine(agent, NAME_CHARS_MAX)} ${line}`;
}

function lineOfInner(event: AgentEvent, tookMs: number | undefined): string | undefined {
  if (event.type !== "sub_agent_started" && event.type !== "sub_agent_completed") return undefined;
  const took = tookMs === undefined ? "" : ` in ${seconds(tookMs)}`;
  return `${oneLine(describeEvent(event).text, SUB_AGENT_CHARS_MAX)}${took}`;
}

const RESULT_CHARS_MAX = 120;
const THOUGHT_CHARS_MAX = 80;
const PATCH_LINES_MAX = 12;
/** More than a tool may say. */
const UNFOLDED_CHARS_MAX = 1024 * 1024;
/** Shorter calls show no duration. */
const DURATION_FROM_MS = 1_000;

/** Short lines about a turn's reasoning and tool calls; `/expand` shows them in full. */
export function createWorkLines(paint: Paint, now: () => number): (event: AgentEvent) => readonly string[] {
  const patches = new Map<string, string>();
  let thinkingSinceMs: number | undefined;
  let thoughts = "";
  let wasReported = false;
  /** Printed when the reasoning ends, before its complete text may arrive. */
  const printThoughts = (): readonly string[] => {
    if (thinkingSinceMs === undefined) return [];
    const time = seconds(now() - thinkingSinceMs);
    thinkingSinceMs = undefined;
    wasReported = true;
    const line = paint.dim(`· thought ${time}: ${oneLine(thoughts, THOUGHT_CHARS_MAX)}`);
    thoughts = "";
    return [line];
  };
  return (event) => {
    switch (event.type) {
      case "compaction_started":
      case "compaction_completed":
      case "context_evicted":
        return [paint.dim(`· ${describeEvent(event).text}`)];
      case "reasoning_delta":
        thinkingSinceMs ??= now();
        if (thoughts.length < THOUGHT_CHARS_MAX * 2) thoughts += event.delta;
        return [];
      case "text_delta":
        return printThoughts();
      case "reasoning_complete": {
        const reported = printThoughts();
        const isNew = reported.length === 0 && !wasReported;
        wasReported = false;
        return isNew ? [paint.dim(`· thought: ${oneLine(event.content, THOUGHT_CHARS_MAX)}`)] : reported;
      }
      case "tool_call_requested": {
        const patch = patchOf(event.args);
        if (patch !== undefined) patches.set(event.id, patch);
        return [...printThoughts(), paint.dim(`· ${toolName(event)}${patch === undefined ? callHint(event) : ""}`)];
      }
      case "tool_execution_completed": {
        const patch = patches.get(event.id);
        patches.delete(event.id);
        return [...(patch === undefined || event.is_error ? [] : shortPatch(patch, paint)), resultLine(event, paint)];
      }
      default:
        return [];
    }
  };
}

function resultLine(
  { result, is_error, duration_ms, ...call }: AgentEventOf<"tool_execution_completed">,
  paint: Paint,
): string {
  const time = duration_ms < DURATION_FROM_MS ? "" : ` (${seconds(duration_ms)})`;
  if (is_error) return paint.red(`  ${toolName(call)} failed: ${oneLine(result, RESULT_CHARS_MAX)}${time}`);
  const [text = "", exit] = unfolded(result.trim()).split(/(?:^|\n)\(exit (\d+)\)$/);
  const [first = ""] = text.split("\n", 1);
  const more = countLines(text) - 1;
  const ended = exit === undefined || exit === "0" ? "" : `exit ${exit}: `;
  const rest = more <= 0 ? "" : ` … ${counted(more, "more line")}`;
  return paint.dim(`  ⎿ ${ended}${text === "" ? "(nothing)" : oneLine(first, RESULT_CHARS_MAX)}${rest}${time}`);
}

/** A command's output by line; the model gets it as one line of JSON. */
export function unfolded(json: string): string {
  if (!json.startsWith("{") || json.length > UNFOLDED_CHARS_MAX) return json;
  try {
    const { stdout, stderr, exit_code } = JSON.parse(json);
    if (typeof stdout !== "string" || typeof stderr !== "string") return json;
    const outputs = [stdout, stderr].filter((output) => output !== "").map((output) => output.trimEnd());
    return [...outputs, typeof exit_code === "number" ? `(exit ${exit_code})` : "(it was stopped)"].join("\n");
  } catch {
    return json;
  }
}

/** The text of a patch among the arguments of a call; undefined where there is none. */
export function patchOf({ patch, input }: JsonObject): string | undefined {
  const text = patch ?? input;
  return typeof text === "string" && /^(?:\*\*\* |--- |diff )/.test(text) ? text : undefined;
}

function shortPatch(patch: string, paint: Paint): readonly string[] {
  const lines = patchLines(patch, paint);
  const more = lines.length - PATCH_LINES_MAX;
  const shown = more > 1 ? lines.slice(0, PATCH_LINES_MAX) : lines;
  return [...shown.map((line) => `  ${line}`), ...(more > 1 ? [paint.dim(`  … ${counted(more, "more line")}`)] : [])];
}

/** The lines of a patch in the colours of what they do. */
export function patchLines(patch: string, paint: Paint): readonly string[] {
  const text = withoutControls(patch).replaceAll("\t", "    ").trimEnd();
  return text.split("\n").map((line) => {
    if (/^(?:\*\*\*|---|\+\+\+|@@|diff )/.test(line)) return paint.cyan(line);
    if (line.startsWith("+")) return paint.green(line);
    return line.startsWith("-") ? paint.red(line) : line;
  });
}

function countLines(text: string): number {
  let count = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

const ARGS_CHARS_MAX = 100;
const TOOL_NAME_CHARS_MAX = 200;

/** The name comes from the tool's server and from the model, so it is untrusted text. */
export function toolName({ name }: { readonly name: string }): string {
  return oneLine(name, TOOL_NAME_CHARS_MAX);
}

/** The first text among the arguments, such as a command or a subject. */
export function callHint({ args }: AgentEventOf<"tool_call_requested">): string {
  const values = Object.values(args);
  const hint = values.find((value) => typeof value === "string") ?? (values.length === 0 ? "" : JSON.stringify(args));
  return hint === "" ? "" : `: ${oneLine(hint, ARGS_CHARS_MAX)}`;
}
