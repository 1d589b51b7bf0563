import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { Capability } from "@rkat/core/contract/capability";
import { ERRORS } from "@rkat/core/contract/error";
import { type CliField, cliFields } from "@rkat/core/contract/input";
import { isRecord } from "@rkat/core/contract/json";
import { type OperationName, operationOf } from "@rkat/core/contract/operations";
import { type Start, startChild } from "./child.ts";
import { type Driver, type Fields, failure, type Outcome, type ReportedEvent, runsTurn } from "./driver.ts";
import type { Ability } from "./scenario.ts";

/** A command that was given its words. */
export interface RunningCommand {
  readonly stdout: Readable;
  readonly ended: Promise<number | null>;
  /** What it wrote to stderr. */
  readonly complaints: () => string;
}

/** Tells scenarios through the command line: a command a call, in one folder. */
export function createCliDriver(run: (words: readonly string[]) => Promise<RunningCommand>): Driver {
  return {
    surface: "cli",
    lacks,
    hasEvents: (operation) => runsTurn(operation),
    call: async (operation, input, onEvent) => {
      const command = await run(wordsOf(operation, input));
      if (runsTurn(operation)) return watchTurn(command, onEvent ?? (() => {}));
      const [printed, exit] = await Promise.all([printedBy(command), command.ended]);
      return outcomeOf(operation, printed, { exit, command });
    },
    // Every call starts anew.
    restart: async () => {},
    close: async () => {},
  };
}

/** Starts a process for every command. */
export function commandsOf(start: Start): (words: readonly string[]) => Promise<RunningCommand> {
  return async (words) => {
    const child = await startChild({ ...start, args: [...start.args, ...words] });
    child.spawned.stdin.end();
    return { stdout: child.spawned.stdout, ended: child.ended, complaints: child.complaints };
  };
}

function lacks(ability: Ability, present: ReadonlySet<Capability>): string | undefined {
  if (ability === "deferred sessions") return "a command that creates a session also runs its turn";
  if (ability === "questions") return "without a terminal nobody can be asked";
  if (ability === "client tools") return "whoever types a command runs no tools for a model";
  if (ability === "imports") return "a command is given a file";
  if (ability === "free input") return "a command has no place for this input";
  if (present.has("session-store")) return undefined;
  const isAbsent = ability === "compactions of unkept sessions" && !present.has("session-compaction");
  if (isAbsent || !ability.endsWith("of unkept sessions")) return undefined;
  return "a session that is not kept ends with the command that made it";
}

/** Reads the events of a turn, an object a line, and what the last line says. */
async function watchTurn(command: RunningCommand, onEvent: (event: ReportedEvent) => void): Promise<Outcome> {
  let last: Fields = {};
  for await (const line of createInterface({ input: command.stdout })) {
    const reported: unknown = JSON.parse(line);
    last = isRecord(reported) ? reported : { reported };
    const { type } = last;
    if (typeof type === "string" && type !== "result" && type !== "error") onEvent({ ...last, type });
  }
  const exit = await command.ended;
  const { type, error, ...result } = last;
  if (type === "error" && isRecord(error)) return failed(error, exit);
  if (type !== "result") return broken(command, exit);
  const wanted = exitOf(result);
  if (exit === wanted) return { ok: true, result };
  return { ok: false, code: `a result with the exit code ${exit}`, message: `the table says ${wanted}` };
}

/** A turn that stopped short is printed and ends with the code of why (contract §2, C10). */
function exitOf({ terminal_cause_kind: cause, extraction_error, goal }: Fields): number {
  if (isRecord(goal) && goal.phase !== "reached") return ERRORS.AGENT_ERROR.exit;
  if (cause === "budget_exhausted" || cause === "time_budget_exceeded") return ERRORS.BUDGET_EXHAUSTED.exit;
  return cause === undefined && extraction_error === undefined ? 0 : ERRORS.AGENT_ERROR.exit;
}

async function printedBy({ stdout }: RunningCommand): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stdout) chunks.push(chunk as Buffer); // A stream of a process gives buffers.
  return Buffer.concat(chunks).toString("utf8");
}

function outcomeOf(
  operation: OperationName,
  printed: string,
  { exit, command }: { readonly exit: number | null; readonly command: RunningCommand },
): Outcome {
  const isLines = operation === "listEvents" || operation === "readEventCursor";
  if (isLines && exit === 0) return { ok: true, result: asPage(printed) };
  const reported = parsed(printed);
  if (reported === undefined) return broken(command, exit);
  if (isRecord(reported.error) && exit !== 0) return failed(reported.error, exit);
  // A compaction that was asked for and failed is an answer, and is printed; the exit code says that it failed.
  const isFailedCompaction = reported.compacted === false && exit === ERRORS.AGENT_ERROR.exit;
  if (exit === 0 || isFailedCompaction) return { ok: true, result: reported };
  return { ok: false, code: `an answer with the exit code ${exit}`, message: printed };
}

/** Events a line each, as the page they are in the table. */
function asPage(printed: string): unknown {
  const events = printed
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  const sequence: unknown = events.at(-1)?.cursor?.sequence ?? 0;
  return { events, has_more: false, cursor: { sequence }, latest_cursor: { sequence } };
}

function parsed(printed: string): Fields | undefined {
  try {
    const reported: unknown = JSON.parse(printed);
    return isRecord(reported) ? reported : undefined;
  } catch {
    return undefined;
  }
}

/** What was said before the failure is told with it, which other surfaces tell by events. */
function failed(error: Fields, exit: number | null): Outcome {
  const { code, message, details } = error;
  const { partial_text: _, ...rest } = isRecord(details) ? details : {};
  const reported = Object.keys(rest).length === 0 ? {} : { details: rest };
  return failure({ code, message, ...reported }, { kind: "exit", value: exit });
}

function broken({ complaints }: RunningCommand, exit: number | null): Outcome {
  return { ok: false, code: `no JSON, exit code ${exit}`, message: complaints() || "it said nothing" };
}

/** There is one kind of event, and a session that is named is the scope of a search. */
const IMPLIED: readonly string[] = ["kind", "scope"];

/** An operation's input as the words of the command line (contract §7, §15), as its fields say they are written. */
function wordsOf(operation: OperationName, input: Fields): readonly string[] {
  const { cli, cliJson, input: schema } = operationOf(operation);
  const fields = cliFields(schema);
  const known = [...IMPLIED, ...fields.map(({ path: [field] }) => field)];
  const stray = Object.keys(input).find((field) => input[field] !== undefined && !known.includes(field));
  if (stray !== undefined) throw new Error(`the command line has no flag for ${stray} of ${operation}`);
  const flags = fields.flatMap((field) => flagWords(field, valueAt(input, field.path)));
  const argument = (name: string): string | undefined => {
    const given = fields.filter(({ word }) => word === name).map(({ path }) => valueAt(input, path));
    const value = given.find((one) => one !== undefined);
    return value === undefined ? undefined : text(value, name);
  };
  // What follows a flag of a field in the row is an example of its value.
  const words = cli
    .replaceAll(/ --[\w-]+ [A-Z]+/g, "")
    .split(" ")
    .slice(1);
  const command = words.filter((word) => !ARGUMENT.test(word)).map((word) => word.replace("=ID", `=${argument("ID")}`));
  const places = words.filter((word) => ARGUMENT.test(word)).map(argument);
  const given = places.filter((one) => one !== undefined);
  const dashes = given.length === 0 ? [] : ["--"];
  return [...command, ...(cliJson ?? ["--json"]), ...flags, ...dashes, ...given];
}

/** An argument's name, in brackets where it may be left out. */
const ARGUMENT = /^\[?[A-Z]+\]?$/;

function flagWords({ word }: CliField, value: unknown): readonly string[] {
  const [name] = /--[\w-]+/.exec(word) ?? [];
  if (name === undefined || value === undefined) return [];
  if (!word.includes("<")) return value === true ? [name] : [];
  const isPairs = word.endsWith("<key=value>") && isRecord(value);
  const values = isPairs ? Object.entries(value).map((pair) => pair.join("=")) : listOf(value, word);
  return values.map((one) => `${name}=${text(one, word)}`);
}

function listOf(value: unknown, word: string): readonly unknown[] {
  return Array.isArray(value) && !word.endsWith("<json>") ? value : [value];
}

function valueAt(input: Fields, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, field) => (isRecord(value) ? value[field] : undefined), input);
}

function text(value: unknown, word: string): string {
  if (isRecord(value) && word.endsWith("<skill>"))
    return [value.source_uuid, value.skill_name].filter(Boolean).join(":");
  return typeof value === "object" || /json>$|JSON/.test(word) ? JSON.stringify(value) : String(value);
}
