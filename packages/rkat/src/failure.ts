import { asRuntimeError, ERRORS, invalid, type RuntimeError } from "@rkat/core/contract/error";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { CommanderError } from "commander";
import { fieldFlags } from "./flags.ts";
import { createPaint, type Io, interruptedExit, jsonText, writeJson } from "./io.ts";
import { SESSION_MISSING } from "./session-selector.ts";

/** Reports an error as one sentence, and as JSON where JSON was requested; returns the exit code. */
export function reportFailure(io: Io, thrown: unknown): number {
  const error = thrown instanceof CommanderError ? fromCommander(thrown, io.args) : asRuntimeError(thrown);
  const stopped = interruptedExit(io);
  // A closed pipe has no reader to report to.
  if (stopped === 0) return 0;
  writeWire(io, error);
  if (stopped === undefined) writeError(io, error);
  else writeInterrupted(io);
  if (io.env.RKAT_DEBUG === "1") io.stderr.write(`${withoutControls(stackOf(error))}\n`);
  return stopped ?? ERRORS[error.code].exit;
}

export function writeError({ args, stderr, env }: Io, { message, code }: RuntimeError): void {
  // A provider's message is about its own fields, and other commands have other flags for the same field names.
  const sentence = code === "PROVIDER_ERROR" || !isTurn(args) ? message : inFlags(message);
  stderr.write(`${createPaint(stderr, env).red("Error:")} ${withoutControls(sentence)}\n`);
}

const TURN_COMMANDS: readonly string[] = ["run", "chat", "resume", "continue", "c"];

/** Whether a turn was asked for, also without the command's name. */
function isTurn([first = ""]: readonly string[]): boolean {
  return TURN_COMMANDS.includes(first) || first === "" || /^-|\s/.test(first);
}

/** Replaces the names of session fields in a sentence by their flags. */
function inFlags(message: string): string {
  const flags = new Map(fieldFlags("createSession").map(({ path, option }) => [path.join("."), option.long ?? ""]));
  const [field = ""] = /^[a-z_.]+(?=:)/.exec(message) ?? [];
  // A field that is one of several has a flag for each.
  const each = [...flags].flatMap(([path, flag]) => (path.startsWith(`${field}.`) ? [flag] : []));
  if (each.length > 1 && message.startsWith(": write {", field.length))
    return `${each.join(" or ")}: write one of them`;
  const begun = `${flags.get(field) ?? field}${message.slice(field.length)}`;
  // Elsewhere only names with an underscore that do not follow a section's name, as a key of a file would.
  return begun.replace(/(?<![\w.-])[a-z]+_[a-z_]+(?![\w.])/g, (name) => flags.get(name) ?? name);
}

export function writeInterrupted({ stderr, env }: Io): void {
  stderr.write(`${createPaint(stderr, env).dim("Interrupted.")}\n`);
}

function writeWire(io: Io, error: RuntimeError): void {
  const wire = error.toWire();
  const format = formatOf(io.args);
  if (format === "json") writeJson(io, { error: wire });
  if (format === "events") io.stdout.write(`${jsonText({ type: "error", error: wire })}\n`);
}

/** Read from the raw words, since flags that cannot be parsed must be answered in the right format, too. */
function formatOf(args: readonly string[]): "text" | "json" | "events" {
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end);
  if (flags.includes("--events")) return "events";
  const isJson = flags.some((flag, at) => {
    if (flag === "-o" || flag === "--output") return flags[at + 1] === "json";
    // With a value, --json is input, not the output format.
    if (flag === "--json") return !/^\s*[{[]/.test(flags[at + 1] ?? "");
    return ["--output=json", "-ojson"].includes(flag);
  });
  return isJson ? "json" : "text";
}

/** The parser's complaint as one sentence that says what to do. */
function fromCommander({ message, code }: CommanderError, args: readonly string[]): RuntimeError {
  const [first = "", hint] = message.replace(/^error: /, "").split("\n");
  const complaint = first.replace(/\.$/, "").replace(/'\. (?=Expected)/, "': ");
  if (NO_MODEL.test(complaint) && args.includes("memory"))
    return invalid("this command calls no model, only the embedder that [memory] names; leave out --model");
  if (hint !== undefined) return invalid(`${complaint}; ${hint.replace(/^\(D(.*)\)$/, "d$1")}`);
  if (code === "commander.excessArguments") return invalid(excessIn(complaint, args));
  // Keeps the advice in the same sentence as the wrong value.
  if (code === "commander.invalidArgument")
    return invalid(
      complaint
        .replace(/^command-argument value (.*) is invalid for argument '(.*)'\./, "argument '$2': $1 is invalid.")
        .replace(/ is invalid\. (.)/, (_, letter: string) => ` is invalid; ${letter.toLowerCase()}`),
    );
  if (complaint === "missing required argument 'session'") return invalid(SESSION_MISSING);
  return invalid(`${complaint}; see --help`);
}

/** Says which arguments to leave out; a sentence that begins with a command's name was perhaps meant for a model. */
function excessIn(complaint: string, args: readonly string[]): string {
  const [, name = "", expected = "", given = ""] = EXCESS.exec(complaint) ?? [];
  const flagAt = args.findIndex((word) => word.startsWith("-"));
  const words = flagAt < 0 ? args : args.slice(0, flagAt);
  const command = [...words.slice(0, Math.max(0, words.indexOf(name))), name].join(" ");
  const takes = expected === "0" ? "no arguments" : expected === "1" ? "1 argument" : `${expected} arguments`;
  const isProse = words[0] === name && words.length > PROSE_WORDS_MIN;
  const excess = given.split(", ").slice(Number(expected)).join(", ");
  const advice = isProse ? `to ask a model, write rkat run "${words.join(" ")}"` : `leave out ${excess}`;
  return `rkat ${command} takes ${takes}; ${advice}`;
}

const NO_MODEL = /^unknown option '(?:-m|--model\b)/;
const EXCESS = /^too many arguments for '([\w-]+)': Expected (\d+) arguments? but got \d+: (.*)$/;
const PROSE_WORDS_MIN = 2;

function stackOf(error: RuntimeError): string {
  const causes: string[] = [];
  let at: unknown = error;
  for (let depth = 0; depth < CAUSES_MAX && at instanceof Error; depth += 1) {
    causes.push(at.stack ?? at.message);
    at = at.cause;
  }
  return causes.join("\ncaused by ");
}

const CAUSES_MAX = 8;
