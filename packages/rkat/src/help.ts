import { invalid } from "@rkat/core/contract/error";
import { nearMiss } from "@rkat/core/text/near-miss";
import type { Command, Help } from "commander";
import { createPaint, type Io } from "./io.ts";

/** A command line to copy, and what comes of it. */
type Example = readonly [command: string, meaning: string];

/** What a command's help has besides its options. */
export interface HelpExtras {
  readonly examples?: readonly Example[];
  /** Sections after the options: a title and its lines. */
  readonly notes?: readonly (readonly [title: string, ...lines: string[]])[];
}

const extras = new WeakMap<Command, HelpExtras>();
const usages = new WeakMap<Command, string>();

/** Gives a command's help its examples and closing notes; a command that starts a server has the help of that server. */
export function describeHelp(command: Command, { examples = [], notes = [] }: HelpExtras, usage?: string): Command {
  extras.set(command, { examples, notes });
  if (usage !== undefined) usages.set(command, usage);
  return command;
}

/** The examples and closing notes of a command; one that only holds others has examples of theirs. */
export function extrasOf(command: Command): Required<HelpExtras> {
  const { examples = [], notes = [] } = extras.get(command) ?? {};
  if (examples.length > 0) return { examples, notes };
  const held = command.createHelp().visibleCommands(command).slice(0, HELD_EXAMPLES_MAX);
  return { examples: held.flatMap((inner) => extrasOf(inner).examples.slice(0, 1)), notes };
}

const HELD_EXAMPLES_MAX = 4;

/** The help of the server that a command starts; undefined when it starts none. */
export function usageOf(command: Command): string | undefined {
  return usages.get(command);
}

/** Makes a command a group: alone it shows its help, and it refuses words that are no command of the group. */
export function holdCommands(command: Command): Command {
  return command
    .helpCommand(false)
    .argument("[command...]")
    .usage("COMMAND [options]")
    .action(([word, ...more]: readonly string[]) => {
      if (word === undefined) return command.outputHelp();
      const name = command.name();
      const held = command.commands.flatMap((inner) => [inner.name(), ...inner.aliases()]);
      // `rkat compact last` means the session's compaction, `rkat session last` the session.
      const inner = SELECTOR.test(word) ? ["run", "show"].find((one) => held.includes(one)) : undefined;
      const meant = inner === undefined ? nearMiss(word, held) : `${inner} ${word}`;
      const hint = meant === undefined ? `rkat help ${name} lists them` : `did you mean rkat ${name} ${meant}?`;
      // A sentence that begins with such a word was perhaps meant for a model.
      const asked = [name, word, ...more].join(" ");
      const isAsked = meant === undefined && more.length > 0;
      const instead = isAsked ? `; to ask a model, write rkat run "${asked}"` : "";
      throw invalid(`there is no command ${name} ${word}; ${hint}${instead}`);
    });
}

/** What names a session. */
const SELECTOR = /^(?:last|~\d*|0[0-9a-f]{3}[0-9a-f-]*)$/;

const COLUMNS_MAX = 100;
const COLUMNS_MIN = 60;

/** Help as a person reads it: what it does, how it is used, then every option in its group. */
export function configureHelp(program: Command, io: Io): void {
  const paint = createPaint(io.stdout, io.env);
  const columns = Math.min(COLUMNS_MAX, Math.max(COLUMNS_MIN, io.stdout.columns ?? COLUMNS_MAX));
  program.configureHelp({
    helpWidth: columns,
    // What may be chosen and what holds without the flag is said in its own words.
    optionDescription: (option) => option.description,
    subcommandTerm: (command) => command.name(),
    styleTitle: (title) => paint.bold(title),
    formatHelp: (command, helper) => formatHelp(command, helper, columns),
  });
}

function formatHelp(command: Command, helper: Help, columns: number): string {
  const usage = usageOf(command);
  if (usage !== undefined) return formatServerHelp(usage, { command, helper, columns });
  const { examples, notes } = extrasOf(command);
  const item = (width: number) => (row: readonly [string, string]) => helper.formatItem(row[0], width, row[1], helper);
  const list = (title: string, rows: readonly (readonly [string, string])[], width: number) =>
    rows.length === 0 ? [] : [helper.styleTitle(title), ...rows.map(item(width)), ""];
  const optionGroups = Map.groupBy(helper.visibleOptions(command), (option) => option.helpGroupHeading ?? "Options");
  const commandGroups = Map.groupBy(helper.visibleCommands(command), (sub) => sub.helpGroup() || "Commands");
  const width = helper.padWidth(command, helper);
  return [
    helper.boxWrap(helper.commandDescription(command), columns),
    "",
    ...exampleLines(examples, helper),
    helper.styleTitle("Usage"),
    `  ${helper.commandUsage(command)}`,
    "",
    ...[...commandGroups].flatMap(([group, subs]) =>
      list(
        group,
        subs.map((sub) => [helper.subcommandTerm(sub), helper.subcommandDescription(sub)]),
        width,
      ),
    ),
    ...[...optionGroups].flatMap(([group, options]) =>
      list(
        group,
        options.map((option) => [helper.optionTerm(option), helper.optionDescription(option)]),
        width,
      ),
    ),
    ...notes.flatMap(([title, ...lines]) => [helper.styleTitle(title), ...lines.map((line) => `  ${line}`), ""]),
  ].join("\n");
}

/** A server's help in the form of the others: it knows neither how wide the terminal is nor whether it has colours. */
function formatServerHelp(
  usage: string,
  { command, helper, columns }: { readonly command: Command; readonly helper: Help; readonly columns: number },
): string {
  const { description, options, extras } = readUsage(usage);
  const rows = options.map(({ short, long, value, description }) => {
    const names = short === undefined ? long : `${short}, ${long}`;
    return [value === undefined ? names : `${names} <${value}>`, description] as const;
  });
  const width = Math.max(...rows.map(([term]) => term.length));
  return [
    helper.boxWrap(description, columns),
    "",
    ...(extras.examples.length === 0 ? [] : [helper.styleTitle("Examples")]),
    ...extras.examples.map(([line]) => `  ${line}`),
    ...(extras.examples.length === 0 ? [] : [""]),
    helper.styleTitle("Usage"),
    `  rkat ${command.name()} [options]`,
    "",
    helper.styleTitle("Options"),
    ...rows.map(([term, meaning]) => helper.formatItem(term, width, meaning, helper)),
    "",
  ].join("\n");
}

/** A meaning stands beside its command, or below one that is too long for that. */
function exampleLines(examples: readonly Example[], helper: Help): readonly string[] {
  if (examples.length === 0) return [];
  const width = Math.max(0, ...examples.map(([{ length }]) => (length > EXAMPLE_COLUMNS_MAX ? 0 : length)));
  const lines = examples.flatMap(([line, meaning]) =>
    line.length <= width
      ? [helper.formatItem(line, width, meaning, helper)]
      : [`  ${line}`, helper.formatItem("", width, meaning, helper)],
  );
  return [helper.styleTitle("Examples"), ...lines, ""];
}

/** As much as leaves enough of a line for a meaning to be wrapped in. */
const EXAMPLE_COLUMNS_MAX = 56;

/** As much of a command as its help says. */
export interface UsageEntry {
  readonly description: string;
  /** What follows its words: `SESSION [options]`. */
  readonly usage: string;
  readonly options: readonly OptionEntry[];
  readonly extras: Required<HelpExtras>;
}

export interface OptionEntry {
  readonly short: string | undefined;
  readonly long: string;
  /** What its value is called; undefined where it takes none. */
  readonly value: string | undefined;
  readonly isValueOptional: boolean;
  readonly isRepeated: boolean;
  readonly description: string;
  readonly choices: readonly string[];
  /** What holds without it, where that is one value. */
  readonly fallback: string | undefined;
  readonly group: string;
}

/** What a server's own help says: servers read their flags themselves, and their help is where those are written. */
export function readUsage(usage: string): UsageEntry {
  const [head = "", rest = ""] = usage.split(/^Options:\n/m);
  const [options = "", examples = ""] = rest.split(/^Examples:\n/m);
  return {
    description: head
      .replace(/^Usage: .*\n+/, "")
      .replace(/(?<!\s)\s*\n/g, " ")
      .trim(),
    usage: "[options]",
    options: [...options.matchAll(OPTION_LINE)].map(optionOf),
    extras: {
      examples: examples.split("\n").flatMap((line) => (line === "" ? [] : [[line.trim(), ""] as const])),
      notes: [],
    },
  };
}

const OPTION_LINE = /^ {2}(?:(-\w), )?(--[\w-]+)(?: ([A-Z]+))? {2,}(\S.*)$/gm;

function optionOf([, short, long = "", value, description = ""]: RegExpMatchArray): OptionEntry {
  return {
    short,
    long,
    value: value?.toLowerCase(),
    isValueOptional: false,
    isRepeated: description.includes("may be repeated"),
    description,
    choices: [],
    fallback: undefined,
    group: "Options",
  };
}
