import type { AgentEvent } from "../../../contract/event.ts";
import type { RunResult } from "../../../contract/session.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { type Io, jsonText, writeJson } from "../io.ts";
import { createPaint } from "../paint.ts";
import { activityOf, noticeOf, verboseLineOf } from "./event-line.ts";

/** Shows a turn while it runs and when it has ended. */
export interface TurnView {
  show(event: AgentEvent): void;
  /** The turn has ended with a result. */
  end(result: RunResult): void;
  /** The turn has failed or was interrupted after the model had said so much. */
  breakOff(said: string): void;
}

export interface TextViewOptions {
  readonly isStreaming: boolean;
  readonly isVerbose: boolean;
  /** Words for an event that the place of the turn has something to say about; undefined for the rest. */
  remark?(event: AgentEvent): string | undefined;
}

/** The text on stdout, everything about it on stderr. */
export function createTextView(io: Io, options: TextViewOptions): TurnView {
  const { stdout, stderr } = io;
  const paint = createPaint(stderr, io.env);
  let isMidLine = false;
  const print = (text: string): void => {
    const shown = stdout.isTerminal ? withoutControls(text) : text;
    if (shown === "") return;
    stdout.write(shown);
    isMidLine = !shown.endsWith("\n");
  };
  const endLine = (): void => {
    if (isMidLine) print("\n");
  };
  const tell = (line: string): void => {
    endLine();
    stderr.write(`${line}\n`);
  };
  const tellOf = (event: AgentEvent): void => {
    const notice = noticeOf(event);
    const remark = options.remark?.(event);
    const line = options.isVerbose ? verboseLineOf(event) : stderr.isTerminal ? activityOf(event) : undefined;
    if (notice !== undefined) tell(paint.yellow(`! ${notice}`));
    else if (remark !== undefined) tell(paint.dim(remark));
    else if (line !== undefined) tell(paint.dim(`· ${line}`));
  };
  return {
    show: (event) => {
      if (event.type === "turn_started") endLine();
      if (event.type === "text_delta" && options.isStreaming) print(event.delta);
      tellOf(event);
    },
    end: (result) => {
      endLine();
      const output = finalText(result, options.isStreaming);
      if (output !== undefined) print(output);
      endLine();
      const { session_id, turns, usage } = result;
      const footer = `Session: ${session_id.slice(0, 8)} | Turns: ${turns} | Tokens: ${usage.input_tokens} in / ${usage.output_tokens} out`;
      tell(paint.dim(`[${footer}]`));
    },
    breakOff: (said) => {
      if (!options.isStreaming) print(said);
      endLine();
    },
  };
}

/** What is left to print: a structured result, or the text unless it was printed as it came. */
function finalText(result: RunResult, isStreaming: boolean): string | undefined {
  if (result.structured_output !== undefined) return JSON.stringify(result.structured_output, undefined, 2);
  return isStreaming ? undefined : result.text;
}

/** The result as one JSON value; events only on stderr, and only when asked for. */
export function createJsonView(io: Io, { isVerbose }: { isVerbose: boolean }): TurnView {
  const paint = createPaint(io.stderr, io.env);
  return {
    show: (event) => {
      const line = isVerbose ? verboseLineOf(event) : undefined;
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
