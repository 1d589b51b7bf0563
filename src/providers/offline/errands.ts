import { clip } from "../../text/sentences.ts";
import type { Ask } from "./asks.ts";
import { type Exchange, parseJson } from "./conversation.ts";

const OUTPUT_LINES_MAX = 8;
const LINE_CHARS_MAX = 200;
const TASKS_LISTED_MAX = 20;

/** A call of a tool, before it has an id. */
export interface ToolCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** What to do about one ask: say something, or call a tool first. */
export type Step = { readonly say: string } | { readonly call: ToolCall };

/** What is at hand to do it with. */
export interface Bench {
  readonly tools: ReadonlySet<string>;
  readonly exchanges: readonly Exchange[];
}

type Errand = Extract<Ask, { kind: "time" | "task_create" | "task_list" | "shell" }>;

/** Does an ask that needs a tool: calls it, or tells what it answered, or says that it is missing. */
export function runErrand(ask: Errand, bench: Bench): Step {
  const call = callFor(ask);
  const done = findExchange(call, bench.exchanges);
  if (done !== undefined) return { say: report(ask, done) };
  return bench.tools.has(call.name) ? { call } : { say: missing(ask) };
}

/** The exchange that served a call in this turn. A call is never repeated, whatever came of it. */
export function findExchange(call: ToolCall, exchanges: readonly Exchange[]): Exchange | undefined {
  const args = JSON.stringify(call.args);
  return exchanges.find((exchange) => exchange.name === call.name && JSON.stringify(exchange.args) === args);
}

/** Why an exchange gave nothing, or undefined when it gave something. */
export function failureOf({ name, result }: Exchange): string | undefined {
  if (result === undefined) return `The tool \`${name}\` gave no result.`;
  return result.isError
    ? `The tool \`${name}\` failed: ${firstLines(result.text, 3) || "it gave no reason"}`
    : undefined;
}

function callFor(ask: Errand): ToolCall {
  switch (ask.kind) {
    case "time":
      return { name: "datetime", args: {} };
    case "task_create":
      return { name: "task_create", args: { subject: ask.subject, description: ask.subject } };
    case "task_list":
      return { name: "task_list", args: {} };
    case "shell":
      return { name: "shell", args: { command: ask.command } };
  }
}

function missing(ask: Errand): string {
  switch (ask.kind) {
    case "time":
      return "I have no clock here: the `datetime` tool is not on.";
    case "task_create":
      return `I have no task list here, so I only note it: “${ask.subject}”.`;
    case "task_list":
      return "I have no task list here: the `task_list` tool is not on.";
    case "shell":
      return `I have no shell here, so \`${ask.command}\` was not run.`;
  }
}

function report(ask: Errand, exchange: Exchange): string {
  const failure = failureOf(exchange);
  if (failure !== undefined) return failure;
  const text = exchange.result?.text ?? "";
  const fields = asFields(parseJson(text));
  switch (ask.kind) {
    case "time":
      return reportTime(fields, text);
    case "task_create":
      return `Task added: “${field(fields, "subject") ?? ask.subject}”${inBrackets(field(fields, "id"))}.`;
    case "task_list":
      return reportTasks(parseJson(text), text);
    case "shell":
      return reportShell(fields, { command: ask.command, text });
  }
}

function reportTime(fields: Fields, text: string): string {
  const [time, date] = [field(fields, "time"), field(fields, "date")];
  if (time === undefined || date === undefined) return `The clock says: ${firstLines(text, 1)}`;
  const weekday = field(fields, "weekday");
  return `It is ${time}${inBrackets(field(fields, "timezone"))} on ${weekday === undefined ? "" : `${weekday}, `}${date}.`;
}

function reportTasks(parsed: unknown, text: string): string {
  const list = Array.isArray(parsed) ? parsed : asFields(parsed).tasks;
  if (!Array.isArray(list)) return `The task list says:\n${firstLines(text, OUTPUT_LINES_MAX)}`;
  if (list.length === 0) return "The task list is empty.";
  const tasks = list.map(asFields);
  const open = tasks.filter((task) => task.status !== "completed");
  const lines = tasks.slice(0, TASKS_LISTED_MAX).map((task) => {
    return `- [${field(task, "status") ?? "pending"}] ${field(task, "subject") ?? JSON.stringify(task)}`;
  });
  if (tasks.length > lines.length) lines.push(`- … and ${tasks.length - lines.length} more`);
  return [`${tasks.length} ${tasks.length === 1 ? "task" : "tasks"}, ${open.length} left to do:`, ...lines].join("\n");
}

function reportShell(fields: Fields, { command, text }: { command: string; text: string }): string {
  const code = field(fields, "exit_code");
  const job = field(fields, "job_id");
  if (code === undefined && job !== undefined) return `\`${command}\` runs in the background as job ${job}.`;
  if (code === undefined) return `\`${command}\` answered:\n${fence(firstLines(text, OUTPUT_LINES_MAX))}`;
  const isTimedOut = fields.timed_out === true;
  const shown = [field(fields, "stdout"), code === "0" ? "" : field(fields, "stderr")]
    .map((out) => out?.trim())
    .filter(Boolean)
    .join("\n");
  const output = firstLines(shown, OUTPUT_LINES_MAX);
  const verdict = `\`${command}\` ${isTimedOut ? "ran out of time" : `ended with exit code ${code}`}`;
  return output === "" ? `${verdict}, without output.` : `${verdict}:\n${fence(output)}`;
}

type Fields = Readonly<Record<string, unknown>>;

/** The value as an object's fields; none when it is not an object. */
export function asFields(value: unknown): Fields {
  // `as`: an object that is not null can be read by any key, each giving unknown.
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function field(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  return (typeof value === "string" && value !== "") || typeof value === "number" ? String(value) : undefined;
}

function inBrackets(value: string | undefined): string {
  return value === undefined ? "" : ` (${value})`;
}

function fence(text: string): string {
  return `\`\`\`\n${text}\n\`\`\``;
}

function firstLines(text: string, linesMax: number): string {
  const lines = text
    .slice(0, linesMax * LINE_CHARS_MAX * 4)
    .trim()
    .split("\n");
  const shown = lines.slice(0, linesMax).map((line) => clip(line.trimEnd(), LINE_CHARS_MAX));
  return [...shown, ...(lines.length > linesMax ? ["…"] : [])].join("\n");
}
