import { OPERATIONS, type OperationName, type OperationOutput } from "@rkat/core/contract/operations";
import type { JsonObject } from "@rkat/core/contract/session";
import { formatSessionRef } from "@rkat/server/http/events";
import type { ServerHelp } from "@rkat/server/http/server-help";
import { Argument, type Command, Option } from "commander";
import { agentName, fieldOptions, fieldsOf, json, jsonFlag, repeated, wholeFrom } from "./flags.ts";
import { describeHelp, type HelpExtras, holdCommands } from "./help.ts";
import { createPaint, type Io, type Paint, writeJson } from "./io.ts";
import { type Opened, withCompaction, withEmpty, withMemory, withSessions } from "./open-runtime.ts";
import type { Invocation, ServerKind } from "./parts.ts";
import { COMPACTION_NOTE, findSession, SELECTOR_NOTE } from "./session-selector.ts";

/** A command: what is typed, what its help says, and what it does. `COMMANDS` is the table of them. */
export interface CommandRow extends HelpExtras {
  /** The words after `rkat`, then the arguments: `compact show SESSION [COMPACTION]`. A group comes before its commands. */
  readonly line: string;
  readonly also?: readonly string[];
  /** Former names for the last of its words: they still work, but no help shows them. */
  readonly former?: readonly string[];
  /** For a command that works, but is not in the help. */
  readonly isHidden?: true;
  /** For a command that needs all others to be declared. */
  readonly needsAll?: true;
  /** The usage line, where it is more than the arguments. */
  readonly usage?: string;
  /** What it does, in the imperative; lists of commands show the beginning, up to the first colon, semicolon or full stop. */
  readonly text: string;
  flags?(): readonly Option[];
  /** Absent where the command is only a group. */
  run?(call: Call): Promise<void> | void;
  /** Present where the command starts a server, which reads its flags itself. */
  readonly server?: Server;
}

export function command(line: string, row: Omit<CommandRow, "line">): CommandRow {
  return { line, ...row };
}

interface Server {
  help(): ServerHelp;
  readonly kind: ServerKind;
}

export interface CommonFlags {
  readonly json?: boolean;
}

export interface Call<Flags extends object = CommonFlags> {
  readonly invocation: Invocation;
  readonly io: Io;
  readonly paint: Paint;
  readonly flags: Flags;
  readonly self: Command;
  /** An argument by its name in the usage, in lower case; undefined where it was left out. Several words are joined. */
  arg(name: string): string | undefined;
}

export interface OpenedCall<Flags extends object = CommonFlags> extends Call<Flags> {
  readonly opened: Opened;
  /** The id of the session that is named, or of the last one; empty for a command that takes no session. */
  readonly id: string;
}

export type View = Pick<OpenedCall<object>, "io" | "paint" | "opened" | "id">;

/** The lines to print; undefined where the view printed them itself. */
export type Lines = string | readonly string[] | undefined;

type Open = (invocation: Invocation, use: (opened: Opened) => Promise<void>) => Promise<void>;

/** A command whose work is one operation. Its arguments and flags are the input, and a view shows the answer. */
interface OperationRow<Name extends OperationName, Flags extends CommonFlags>
  extends Omit<CommandRow, "line" | "run" | "text"> {
  /** Without it, the summary of the operation. */
  readonly text?: string;
  /** How the runtime is opened; by default, as the capability of the operation requires. */
  readonly opens?: Open;
  /** Whether it is about every session, and not the last one, where none is named. */
  readonly ofEvery?: true;
  /** Changes to the flags of the operation's fields, by the names of the fields. */
  readonly own?: Readonly<Record<string, (option: Option) => Option>>;
  input?(call: OpenedCall<Flags>): JsonObject | Promise<JsonObject>;
  /** What `--json` prints, where it is more than the answer. */
  json?(answer: OperationOutput<Name>, call: OpenedCall<Flags>): object;
  view(answer: OperationOutput<Name>, call: OpenedCall<Flags>): Lines | Promise<Lines>;
}

const OPENS: Readonly<Record<string, Open>> = {
  "session-store": withSessions,
  "session-compaction": withCompaction,
  "memory-store": withMemory,
};

export function operation<Name extends OperationName, Flags extends CommonFlags = CommonFlags>(
  line: string,
  name: Name,
  { opens, ofEvery, own, input, json: jsonOf, view, ...row }: OperationRow<Name, Flags>,
): CommandRow {
  // Looked up lazily: most calls are of another command.
  const facts = (): { readonly summary: string; readonly requires?: string } => OPERATIONS[name];
  const open: Open = (invocation, use) => {
    const usual = line.includes("SESSION") ? withSessions : withEmpty;
    return (opens ?? OPENS[facts().requires ?? ""] ?? usual)(invocation, use);
  };
  const run = onSession<Flags>(
    async (call) => {
      const asked = { ...argumentFields(call), ...fieldsOf(name, call.flags), ...(await input?.(call)) };
      const answer = await call.opened.runtime.dispatch(name, asked);
      if (call.flags.json) writeJson(call.io, jsonOf?.(answer, call) ?? answer);
      else print(call.io, await view(answer, call));
    },
    open,
    ofEvery ? undefined : "last",
  );
  return {
    ...row,
    line,
    run,
    flags: () => [...fieldOptions(name, own), ...(row.flags?.() ?? []), jsonFlag()],
    get text() {
      return row.text ?? facts().summary;
    },
  };
}

export function onOpened<Flags extends object = CommonFlags>(
  use: (call: OpenedCall<Flags>) => Promise<void>,
  open: Open = withSessions,
): (call: Call<Flags>) => Promise<void> {
  return (call) => open(call.invocation, (opened) => use({ ...call, opened, id: "" }));
}

/** Runs a command with the runtime it needs, on the session that is named, or else the last one. */
export function onSession<Flags extends object = CommonFlags>(
  use: (call: OpenedCall<Flags>) => Promise<void>,
  open: Open = withSessions,
  unnamed: "last" | undefined = "last",
): (call: Call<Flags>) => Promise<void> {
  return onOpened(async (call) => {
    const takesSession = call.self.registeredArguments.some((argument) => argument.name() === "session");
    const word = takesSession ? (call.arg("session") ?? unnamed) : undefined;
    return use({ ...call, id: word === undefined ? "" : await findSession(call.opened, word) });
  }, open);
}

export function show({ io, flags }: Call, answer: object, view: () => Lines): void {
  if (flags.json) writeJson(io, answer);
  else print(io, view());
}

export function print({ stdout }: Pick<Io, "stdout">, lines: Lines): void {
  const text = typeof lines === "string" ? lines : lines?.join("\n");
  if (text !== undefined && lines?.length !== 0) stdout.write(`${text}\n`);
}

/** For `json` of a row: the answer with the session's id before it. */
export function withId(answer: object, { id: session_id }: View): object {
  return { session_id, ...answer };
}

/** For `json` of a row: the answer with the session's reference after it. */
export function withRef(answer: object, { id, opened }: View): object {
  return { ...answer, session_ref: formatSessionRef(opened.place.realm, id) };
}

export function wordsOf({
  line,
}: Pick<CommandRow, "line">): readonly [words: readonly string[], takes: readonly string[]] {
  const words = line.split(" ");
  const at = words.findIndex((word) => !/^[a-z_-]+$/.test(word));
  return at < 0 ? [words, []] : [words.slice(0, at), words.slice(at)];
}

/** Declares a command inside its group, which was declared before. */
export function declareCommand(program: Command, row: CommandRow, invocation: Invocation): void {
  const [words] = wordsOf(row);
  const parent = words
    .slice(0, -1)
    .reduce((holder, name) => holder.commands.find((inner) => inner.name() === name) ?? holder, program);
  const last = words.at(-1) ?? "";
  const how = { isDefault: row.line.startsWith(`${DEFAULT_COMMAND} `), hidden: row.isHidden === true };
  fill(parent.command(last, how), row, invocation);
  for (const name of row.former ?? []) fill(parent.command(name, { hidden: true }), row, invocation);
}

export const DEFAULT_COMMAND = "run";

function fill(command: Command, row: CommandRow, invocation: Invocation): void {
  const [, takes] = wordsOf(row);
  const { server, text, usage = [...takes, "[options]"].join(" ") } = row;
  const [first = ""] = text.split(/[:;.](?:\s|$)/, 1);
  command.summary(`${first.charAt(0).toLowerCase()}${first.slice(1)}`).description(text);
  command.aliases(row.also ?? []).helpCommand(false);
  const named = NOTES.flatMap(([word, note]) => (row.line.includes(word) ? [note] : []));
  describeHelp(command, { ...server?.help(), ...row, notes: [...named, ...(row.notes ?? [])] });
  command.helpOption("-h, --help", "show this help");
  if (server !== undefined) {
    const start = async (): Promise<void> => {
      const { args } = invocation.io;
      const words = args.toSpliced(args.indexOf(command.name()), 1);
      invocation.exitWith(await invocation.parts.serve(server.kind, words));
    };
    for (const option of serverOptions(server.help())) command.addOption(option);
    command.description(server.help().description).usage(usage);
    // The server reads its flags itself, and refuses those it does not know.
    command.allowUnknownOption().allowExcessArguments().action(start);
    return;
  }
  if (row.run === undefined) {
    holdCommands(command);
    return;
  }
  for (const word of takes) command.addArgument(argumentOf(word));
  for (const option of row.flags?.() ?? []) {
    command.addOption(option);
    if (option.long === "--sub-agents") command.addOption(new Option("--agents").hideHelp().conflicts("subAgents"));
  }
  command.usage(usage).action(async () => row.run?.(callOf(command, invocation)));
}

function serverOptions({ flags }: ServerHelp): readonly Option[] {
  return Object.entries(flags).flatMap(([name, { value, description, multiple }]) => {
    if (description === undefined) return [];
    const term = `--${name}${value === undefined ? "" : ` <${value.toLowerCase()}>`}`;
    return [multiple === true ? repeated(term, description) : new Option(term, description)];
  });
}

/** Notes on how the value of an argument is written. */
const NOTES = [
  ["SESSION", SELECTOR_NOTE],
  ["COMPACTION", COMPACTION_NOTE],
] as const;

function callOf(self: Command, invocation: Invocation): Call {
  const { io } = invocation;
  return {
    invocation,
    io,
    paint: createPaint(io.stdout, io.env),
    flags: flagsOf(self, invocation),
    self,
    arg: (name) => {
      const value = argumentValues(self).get(name);
      const isNone = value === undefined || (Array.isArray(value) && value.length === 0);
      return isNone ? undefined : Array.isArray(value) ? value.join(" ") : String(value);
    },
  };
}

/** The flags, with the former `--agents` as `--sub-agents`. */
function flagsOf(self: Command, { warnOnce }: Invocation): object {
  const { agents, ...flags } = self.optsWithGlobals();
  if (agents === undefined) return flags;
  warnOnce("--agents is now --sub-agents");
  return { ...flags, subAgents: agents };
}

function argumentValues(self: Command): ReadonlyMap<string, unknown> {
  return new Map(self.registeredArguments.map((argument, index) => [argument.name(), self.processedArgs[index]]));
}

/** `SESSION` is required, `[SESSION]` is not, and `TEXT…` is one word or more. */
function argumentOf(word: string): Argument {
  const name = word.replace(/[[\]…]/g, "").toLowerCase();
  const term = word.includes("…") ? `${name}...` : name;
  const argument = new Argument(word.startsWith("[") ? `[${term}]` : `<${term}>`);
  const read = READERS[name];
  return Array.isArray(read) ? argument.choices(read) : read === undefined ? argument : argument.argParser(read);
}

/** How an argument is read, or which values it may have, by its name. */
const READERS: Readonly<Record<string, ((text: string) => unknown) | string[]>> = {
  name: agentName,
  seq: wholeFrom(1),
  json,
  config: json,
  decision: ["allow", "deny", "cancel"],
  shell: ["bash", "zsh", "fish"],
};

/** The input fields of arguments that have another name. */
const FIELDS: Readonly<Record<string, string>> = {
  name: "agent",
  blob: "blob_id",
  type: "event_type",
  json: "payload",
  config: "server_config",
  server: "server_name",
  compaction: "compaction_id",
  schedule: "schedule_id",
  message: "message_id",
};

function argumentFields({ self, id }: OpenedCall<object>): JsonObject {
  const fields = [...argumentValues(self)].map(([name, value]) => {
    if (name === "session") return ["session_id", id || undefined] as const;
    return [FIELDS[name] ?? name, Array.isArray(value) ? value.join(" ") || undefined : value] as const;
  });
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}
