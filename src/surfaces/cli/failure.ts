import { CommanderError } from "commander";
import { asRuntimeError, ERRORS, RuntimeError } from "../../contract/error.ts";
import { withoutControls } from "../wire/terminal-text.ts";
import { fieldFlags } from "./flags.ts";
import { createPaint, type Io, interruptedExit, jsonText, writeJson } from "./io.ts";
import { SELECTOR_HINT } from "./session-selector.ts";

/** Says what went wrong, in one sentence for people and as JSON where JSON was asked for; returns the exit code. */
export function reportFailure(io: Io, thrown: unknown): number {
  const error = thrown instanceof CommanderError ? fromCommander(thrown, io.args) : asRuntimeError(thrown);
  const stopped = interruptedExit(io);
  // The reader of a closed pipe is gone, and with it whoever would want to know.
  if (stopped === 0) return 0;
  writeWire(io, error);
  if (stopped === undefined) writeError(io, error);
  else writeInterrupted(io);
  if (io.env.RKAT_DEBUG === "1") io.stderr.write(`${withoutControls(stackOf(error))}\n`);
  return stopped ?? ERRORS[error.code].exit;
}

/** Says what went wrong on stderr, in one sentence. */
export function writeError({ args, stderr, env }: Io, { message, code }: RuntimeError): void {
  // What a provider says is about its own fields, and other commands have flags of their own for fields of that name.
  const sentence = code === "PROVIDER_ERROR" || !isTurn(args) ? message : inFlags(message);
  stderr.write(`${createPaint(stderr, env).red("Error:")} ${withoutControls(sentence)}\n`);
}

const TURN_COMMANDS: readonly string[] = ["run", "chat", "resume", "continue", "c"];

/** Whether a turn was asked for, also without the command's name. */
function isTurn([first = ""]: readonly string[]): boolean {
  return TURN_COMMANDS.includes(first) || first === "" || /^-|\s/.test(first);
}

/** A sentence about the fields of a session, by the flags that whoever typed a command knows them as. */
function inFlags(message: string): string {
  const flags = new Map(fieldFlags("createSession").map(({ path, option }) => [path.join("."), option.long ?? ""]));
  const [field = ""] = /^[a-z_.]+(?=:)/.exec(message) ?? [];
  const begun = `${flags.get(field) ?? field}${message.slice(field.length)}`;
  // Elsewhere only what is no word of a language, and no key of a file, which stands behind its section.
  return begun.replace(/(?<![\w.-])[a-z]+_[a-z_]+(?![\w.])/g, (name) => flags.get(name) ?? name);
}

/** Says that what was asked for was stopped by whoever asked. */
export function writeInterrupted({ stderr, env }: Io): void {
  stderr.write(`${createPaint(stderr, env).dim("Interrupted.")}\n`);
}

function writeWire(io: Io, error: RuntimeError): void {
  const wire = error.toWire();
  const format = formatOf(io.args);
  if (format === "json") writeJson(io, { error: wire });
  if (format === "events") io.stdout.write(`${jsonText({ type: "error", error: wire })}\n`);
}

/** Read off the words themselves, since flags that cannot be parsed must be answered in the right format, too. */
function formatOf(args: readonly string[]): "text" | "json" | "events" {
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end);
  if (flags.includes("--events")) return "events";
  const isJson = flags.some((flag, at) => {
    if (flag === "-o" || flag === "--output") return flags[at + 1] === "json";
    // With a value, JSON is what was given, not what is wanted.
    if (flag === "--json") return !/^\s*[{[]/.test(flags[at + 1] ?? "");
    return ["--output=json", "-ojson"].includes(flag);
  });
  return isJson ? "json" : "text";
}

/** The parser's complaint as one sentence that says what to do. */
function fromCommander({ message, code }: CommanderError, args: readonly string[]): RuntimeError {
  const [first = "", hint] = message.replace(/^error: /, "").split("\n");
  const complaint = first.replace(/\.$/, "").replace(/'\. (?=Expected)/, "': ");
  const refuse = (sentence: string) => new RuntimeError("INVALID_PARAMS", sentence);
  if (hint !== undefined) return refuse(`${complaint}; ${hint.replace(/^\(D(.*)\)$/, "d$1")}`);
  if (code === "commander.excessArguments") return refuse(excessIn(complaint, args));
  // What is wrong with a value is said together with what to write instead.
  if (code === "commander.invalidArgument")
    return refuse(
      complaint
        .replace(/^command-argument value (.*) is invalid for argument '(.*)'\./, "argument '$2': $1 is invalid.")
        .replace(/ is invalid\. (.)/, (_, letter: string) => ` is invalid; ${letter.toLowerCase()}`),
    );
  if (complaint === "missing required argument 'session'") return refuse(`${complaint}; write ${SELECTOR_HINT}`);
  return refuse(`${complaint}; see --help`);
}

/** What to leave out; a sentence that begins with the name of a command was perhaps meant for a model. */
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
