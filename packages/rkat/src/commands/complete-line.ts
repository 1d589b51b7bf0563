import type { Argument, Command, Option } from "commander";
import { DEFAULT_COMMAND } from "../command-row.ts";
import { extrasOf, type OptionEntry, readUsage, type UsageEntry, usageOf } from "../help.ts";

/** A completion. */
export interface Candidate {
  readonly value: string;
  readonly description: string;
}

/** The kinds of values that are looked up in the project; the shell itself completes `files` and `folders`. */
export type ValueKind = "sessions" | "agents" | "models" | "providers" | "files" | "folders";

/** The completions at the cursor: these words, and the values of this kind. */
export interface Completion {
  readonly candidates: readonly Candidate[];
  readonly kind?: ValueKind;
  /** What a value is written after: `--output=`. */
  readonly prefix?: string;
  /** The flags with values that stand before the cursor. */
  readonly given: ReadonlyMap<string, string>;
}

/** The completions after these words, where `current` is the unfinished word. */
export function completeLine(root: CommandEntry, words: readonly string[], current: string): Completion {
  const at = walk(root, words);
  const { command, given } = at;
  if (at.awaited !== undefined && !(at.awaited.isValueOptional && current.startsWith("-"))) {
    return { ...valuesOf(at.awaited, at.awaited.long), given };
  }
  if (current.startsWith("-") && !at.isLiteral) {
    const [long = "", value] = current.split("=", 2);
    const option = value === undefined ? undefined : optionNamed(at.options, long);
    if (option?.value !== undefined) return { ...valuesOf(option, option.long), prefix: `${long}=`, given };
    return { candidates: flagsLeft(at), given };
  }
  const isHelp = command.arguments[0]?.name === "command";
  const holder = isHelp ? heldBy(root, at.operands) : command;
  if (at.operands.length === 0 || isHelp) {
    if (holder.commands.length > 0) return { candidates: holder.commands.map(commandCandidate), given };
  }
  const argument = command.arguments[at.operands.length] ?? command.arguments.find(({ isVariadic }) => isVariadic);
  if (argument === undefined || isHelp) return { candidates: [], given };
  return { ...valuesOf({ value: argument.name, choices: argument.choices }, `<${argument.name}>`), given };
}

interface Position {
  readonly command: CommandEntry;
  /** What may be written at the cursor: the flags of the command and those of every command. */
  readonly options: readonly OptionEntry[];
  readonly operands: readonly string[];
  readonly given: ReadonlyMap<string, string>;
  /** The flag whose value is written at the cursor. */
  readonly awaited: OptionEntry | undefined;
  /** After `--` nothing is a flag. */
  readonly isLiteral: boolean;
}

/** Reads the words as the parser will. */
function walk(root: CommandEntry, words: readonly string[]): Position {
  const fallback = root.commands.find(({ path }) => path.at(-1) === DEFAULT_COMMAND);
  const optionsOf = (command: CommandEntry): readonly OptionEntry[] =>
    command === root
      ? [...(fallback?.options ?? []), ...shared(root, fallback)]
      : [...command.options, ...shared(root, command)];
  const given = new Map<string, string>();
  let command = root;
  let operands: readonly string[] = [];
  let awaited: OptionEntry | undefined;
  let isLiteral = false;
  for (const word of words) {
    if (awaited !== undefined && !(awaited.isValueOptional && word.startsWith("-"))) {
      given.set(awaited.long, word);
      awaited = undefined;
    } else if (!isLiteral && word === "--") {
      isLiteral = true;
    } else if (!isLiteral && word.startsWith("-")) {
      const { option, value } = readFlag(optionsOf(command), word);
      awaited = option?.value !== undefined && value === undefined ? option : undefined;
      if (option !== undefined) given.set(option.long, value ?? "");
    } else {
      const inner = operands.length === 0 ? commandNamed(command, word) : undefined;
      // A first word that is no command begins a prompt.
      if (inner !== undefined) command = inner;
      else operands = [...operands, word];
      if (inner === undefined && command === root) command = fallback ?? root;
    }
  }
  return { command, options: optionsOf(command), operands, given, awaited, isLiteral };
}

/** The flags that every command takes besides its own. */
function shared(root: CommandEntry, command: CommandEntry | undefined): readonly OptionEntry[] {
  const names = new Set(command?.options.map(({ long }) => long));
  return root.options.filter(({ long }) => !names.has(long));
}

/** `--output=json`, `-ojson`, `--output` and `-o` are the same flag, with and without its value. */
function readFlag(
  options: readonly OptionEntry[],
  word: string,
): { readonly option: OptionEntry | undefined; readonly value: string | undefined } {
  if (word.startsWith("--")) {
    const at = word.indexOf("=");
    if (at < 0) return { option: optionNamed(options, word), value: undefined };
    return { option: optionNamed(options, word.slice(0, at)), value: word.slice(at + 1) };
  }
  return { option: optionNamed(options, word.slice(0, 2)), value: word.length > 2 ? word.slice(2) : undefined };
}

function optionNamed(options: readonly OptionEntry[], name: string): OptionEntry | undefined {
  return options.find(({ long, short }) => long === name || short === name);
}

function commandNamed({ commands }: CommandEntry, word: string): CommandEntry | undefined {
  return commands.find(({ path, aliases }) => path.at(-1) === word || aliases.includes(word));
}

/** The command that words name from the root on; the root where they name none. */
function heldBy(root: CommandEntry, words: readonly string[]): CommandEntry {
  const none: CommandEntry = { ...root, commands: [] };
  return words.reduce((command, word) => commandNamed(command, word) ?? none, root);
}

function flagsLeft({ options, given }: Position): readonly Candidate[] {
  return options
    .filter(({ long, isRepeated }) => isRepeated || !given.has(long))
    .map(({ long, description }) => ({ value: long, description }));
}

function commandCandidate({ path, summary, description }: CommandEntry): Candidate {
  return { value: path.at(-1) ?? "", description: summary || description };
}

/** By what a value is called, or else by the flag it belongs to. */
const KINDS: ReadonlyMap<string, ValueKind> = new Map([
  ["session", "sessions"],
  // Arguments, which stand in no flag: what commands about agents call their first.
  ["<name>", "agents"],
  ["--agent", "agents"],
  ["--model", "models"],
  ["--provider", "providers"],
  ["folder", "folders"],
  ["path", "folders"],
  ["file", "files"],
  ["file|json", "files"],
]);

function valuesOf(
  { value = "", choices }: Pick<OptionEntry, "value" | "choices">,
  owner: string,
): Pick<Completion, "candidates" | "kind"> {
  if (choices.length > 0) return { candidates: choices.map((choice) => ({ value: choice, description: "" })) };
  const kind = KINDS.get(value) ?? KINDS.get(owner);
  return kind === undefined ? { candidates: [] } : { candidates: [], kind };
}

/** A declared command, for completion and documentation. */
export interface CommandEntry extends UsageEntry {
  /** Its words: `["rkat", "session", "list"]`. */
  readonly path: readonly string[];
  readonly aliases: readonly string[];
  readonly summary: string;
  readonly arguments: readonly ArgumentEntry[];
  readonly commands: readonly CommandEntry[];
}

interface ArgumentEntry {
  readonly name: string;
  readonly isVariadic: boolean;
  readonly choices: readonly string[];
}

/** A command with all it holds; what is hidden from help is left out. */
export function commandTree(command: Command, before: readonly string[] = []): CommandEntry {
  const help = command.createHelp();
  const path = [...before, command.name()];
  const usage = usageOf(command);
  const held = help.visibleCommands(command).map((inner) => commandTree(inner, path));
  const entry = {
    path,
    aliases: command.aliases(),
    summary: command.summary(),
    arguments: held.length > 0 ? [] : command.registeredArguments.map(argumentEntry),
    commands: held,
  };
  if (usage !== undefined) return { ...entry, ...readUsage(usage) };
  return {
    ...entry,
    description: command.description() || command.summary(),
    usage: command.usage(),
    options: help.visibleOptions(command).map(optionEntry),
    extras: extrasOf(command),
  };
}

function argumentEntry(argument: Argument): ArgumentEntry {
  return { name: argument.name(), isVariadic: argument.variadic, choices: argument.argChoices ?? [] };
}

function optionEntry(option: Option): OptionEntry {
  const { short, long, flags, defaultValue } = option;
  const isPlain = typeof defaultValue === "string" || typeof defaultValue === "number";
  return {
    short,
    long: long ?? short ?? flags,
    value: /[<[]([^<[>\]]+)[>\]]/.exec(flags)?.[1],
    isValueOptional: option.optional,
    isRepeated: Array.isArray(defaultValue),
    description: option.description,
    choices: option.argChoices ?? [],
    fallback: isPlain ? String(defaultValue) : undefined,
    group: option.helpGroupHeading ?? "Options",
  };
}
