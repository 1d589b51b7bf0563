import { invalid } from "@rkat/core/contract/error";
import { nearMiss } from "@rkat/core/text/near-miss";
import type { Command, Help } from "commander";
import { createPaint, type Io } from "./io.ts";

/** A command line to copy, and what comes of it. */
type Example = readonly [command: string, meaning: string];

export interface HelpExtras {
  readonly examples?: readonly Example[];
  /** Sections after the options: a title and its lines. */
  readonly notes?: readonly (readonly [title: string, ...lines: string[]])[];
}

const extras = new WeakMap<Command, HelpExtras>();

export function describeHelp(command: Command, { examples = [], notes = [] }: HelpExtras): Command {
  extras.set(command, { examples, notes });
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
