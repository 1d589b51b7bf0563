import { describeEvent, seconds } from "@rkat/core/contract/describe-event";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import type { JsonObject } from "@rkat/core/contract/session";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { counted, oneLine, type Paint } from "../io.ts";

const RESULT_CHARS_MAX = 120;
const THOUGHT_CHARS_MAX = 80;
const PATCH_LINES_MAX = 12;
/** More than a tool may say. */
const UNFOLDED_CHARS_MAX = 1024 * 1024;
/** Shorter calls show no duration. */
const TOLD_FROM_MS = 1_000;

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
  const time = duration_ms < TOLD_FROM_MS ? "" : ` (${seconds(duration_ms)})`;
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
const NAME_CHARS_MAX = 200;

/** The name comes from the tool's server and from the model, so it is untrusted text. */
export function toolName({ name }: { readonly name: string }): string {
  return oneLine(name, NAME_CHARS_MAX);
}

/** The first text among the arguments, such as a command or a subject. */
export function callHint({ args }: AgentEventOf<"tool_call_requested">): string {
  const values = Object.values(args);
  const hint = values.find((value) => typeof value === "string") ?? (values.length === 0 ? "" : JSON.stringify(args));
  return hint === "" ? "" : `: ${oneLine(hint, ARGS_CHARS_MAX)}`;
}
