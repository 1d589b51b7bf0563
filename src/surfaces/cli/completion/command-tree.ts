import type { Argument, Command, Option } from "commander";
import { extrasOf, type OptionEntry, readUsage, type UsageEntry, usageOf } from "../help.ts";

/** A command as it was declared, for whoever completes it or writes it down. */
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
