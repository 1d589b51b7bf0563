import { VARIABLES } from "@rkat/core/config/config-layers";
import { ERRORS } from "@rkat/core/contract/error";
import { createProgram } from "rkat/command-line";
import { type CommandEntry, commandTree, type OptionEntry } from "rkat/commands/completion";
import type { Io, Output } from "rkat/io";
import type { Parts } from "rkat/parts";
import { SELECTOR_NOTE } from "rkat/session-selector";
import { code, markdownTable, page } from "./markdown.ts";

/** The manual of `rkat`, written from the commands as they are declared. */
export function cliPage(): string {
  const root = declaredCommands();
  const commands = root.commands.flatMap(withHeld);
  return page("The command line", "packages/rkat/src", [
    "## NAME",
    `rkat: ${lowerFirst(root.description)}`,
    "## SYNOPSIS",
    block(['rkat "PROMPT" [options]', "rkat COMMAND [options]"]),
    "## DESCRIPTION",
    '`rkat "PROMPT"` is `rkat run PROMPT`: it asks a model, in a session that is stored. `rkat` alone is `rkat chat` at a terminal. Where no model is configured, either asks for one there and stores the choice. A single word is a prompt, too, unless it is within two letters of a command: `rkat sesion` is refused rather than sent to a model. Two words without `run` are refused, since they may be a mistyped command. The answer goes to stdout and everything else to stderr. On a terminal text is streamed, coloured and followed by its usage; in a pipe there are no colours and no progress, and `--json` writes one value for scripts, also when a command fails. Ctrl-C ends a turn and keeps its text; a second one ends the process.',
    `${SELECTOR_NOTE.join(" ")}.`,
    "Words complete with Tab after `source <(rkat completion bash)`; there are scripts for zsh and fish, too.",
    "## OPTIONS",
    "Every command takes these; those of `rkat run` may follow a bare prompt.",
    optionTable(root.options),
    "## EXAMPLES",
    exampleBlock(root),
    "## COMMANDS",
    markdownTable(
      ["command", "what it does"],
      commands.map((command) => [link(command), command.summary || command.description]),
    ),
    ...commands.map(commandSection),
    "## EXIT STATUS",
    exitTable(),
    "The codes of failures are those of [the table of errors](errors.md).",
    "## ENVIRONMENT",
    markdownTable(["variable", "what it does"], environmentRows()),
    "## FILES",
    markdownTable(["file", "what it holds"], FILES),
  ]);
}

function declaredCommands(): CommandEntry {
  const nowhere: Output = { isTerminal: false, columns: undefined, write: () => {} };
  const io: Io = {
    args: [],
    env: {},
    cwd: "/",
    home: "/",
    version: "",
    nodeVersion: "",
    stdin: {
      kind: "none",
      read: async function* () {},
      terminal: () => {
        throw new Error("a page has no terminal");
      },
    },
    stdout: nowhere,
    stderr: nowhere,
    interrupt: new AbortController().signal,
  };
  // Commands are declared and none is run, so no part is ever asked for.
  return commandTree(createProgram(io, {} as Parts));
}

function withHeld(command: CommandEntry): readonly CommandEntry[] {
  return [command, ...command.commands.flatMap(withHeld)];
}

function commandSection(command: CommandEntry): string {
  const { path, aliases, description, usage, options, extras, commands } = command;
  const name = path.join(" ");
  const also = aliases.map((alias) => code([...path.slice(0, -1), alias].join(" ")));
  // Every command has it, and a row for it would say so forty times.
  const own = options.filter(({ long }) => long !== "--help");
  const notes = (extras.notes ?? []).map(([title, ...lines]) => `- ${title}: ${lines.join(" · ")}`);
  return [
    `### ${name}`,
    description,
    also.length === 0 ? "" : `Also: ${also.join(", ")}.`,
    block([`${name} ${usage}`]),
    commands.length === 0 ? "" : `Holds ${commands.map(link).join(", ")}.`,
    own.length === 0 ? "" : optionTable(own),
    extras.examples.length === 0 ? "" : exampleBlock(command),
    notes.join("\n"),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function link({ path }: CommandEntry): string {
  return `[\`${path.join(" ")}\`](#${path.join("-")})`;
}

function optionTable(options: readonly OptionEntry[]): string {
  const hasDefaults = options.some(({ fallback }) => fallback !== undefined);
  const rows = options.map((option) => [
    code(flagText(option)),
    option.description,
    ...(hasDefaults ? [defaultText(option)] : []),
  ]);
  return markdownTable(["option", "meaning", ...(hasDefaults ? ["default"] : [])], rows);
}

function flagText({ short, long, value, isValueOptional }: OptionEntry): string {
  const names = short === undefined || short === long ? long : `${short}, ${long}`;
  if (value === undefined) return names;
  return isValueOptional ? `${names} [${value}]` : `${names} <${value}>`;
}

function defaultText({ fallback }: OptionEntry): string {
  return fallback === undefined ? "" : code(fallback);
}

function exampleBlock({ extras: { examples } }: CommandEntry): string {
  const width = Math.max(...examples.map(([command]) => command.length));
  return block(examples.map(([line, meaning]) => (meaning === "" ? line : `${line.padEnd(width)}  # ${meaning}`)));
}

function block(lines: readonly string[]): string {
  return ["```sh", ...lines, "```"].join("\n");
}

function exitTable(): string {
  const byExit = Map.groupBy(Object.entries(ERRORS), ([, { exit }]) => exit);
  const failures = [...byExit]
    .toSorted(([one], [other]) => one - other)
    .map(([exit, rows]) => [
      String(exit),
      [...new Set(rows.map(([, { meaning }]) => meaning))].join("; "),
      rows.map(([name]) => code(name)).join(", "),
    ]);
  return markdownTable(
    ["status", "when", "error"],
    [
      ["0", "done; also where the reader of a pipe has left", ""],
      ...failures,
      ["130", "interrupted with Ctrl-C", ""],
      ["143", "ended with SIGTERM", ""],
    ],
  );
}

function environmentRows(): readonly (readonly string[])[] {
  const settings = VARIABLES.map(({ name, path: [section, key] }) => {
    const setting = key === undefined ? code(section) : `\`${key}\` of \`[${section}]\``;
    return [code(name), `wins over ${setting} in the configuration; flags win over it`];
  });
  return [
    ["`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY`, `GOOGLE_API_KEY`", KEYS],
    ["`ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL`, `GEMINI_BASE_URL`, `OLLAMA_HOST`", "where the provider is"],
    ...settings,
    ["`RKAT_TOKEN`", "what clients of `rkat serve` and `rkat mcp --http` bring; beyond this machine it is needed"],
    ["`RKAT_LOG`", "how `rkat serve` and `rkat mcp --http` log requests, as `--log` does"],
    ["`RKAT_DEBUG`", "`1` shows where an error arose"],
    ["`NO_COLOR`", "never colour"],
    ["`FORCE_COLOR`", "colour in a pipe, too; `0` never. It wins over `NO_COLOR`"],
  ];
}

const KEYS =
  "the key of a provider; without a model named, the first that is set chooses. An `RKAT_` variant of each wins";

const FILES = [
  ["`rkat.toml`, `.rkat/config.toml`", "the configuration of a project; the nearest of the folder and those above it"],
  ["`~/.rkat/config.toml`", "the configuration where the project has none"],
  ["`.rkat/realms/REALM/`", "the stored data of a project: sessions, agents, memory. Each folder has its own realm"],
  ["`.rkat/realms/REALM/tokens/`", "who may ask servers of the realm; of each token its hash, never its secret"],
  ["`.rkat/realms/REALM/backups/`", "where the realm was backed up to; `rkat backup list` shows it"],
  ["`.rkat/realms/REALM/.rkat/sessions/`", "each session as files to read; they are derived and may be deleted"],
  ["`.rkat/realms/REALM/.rkat/agents/`", "each agent as files to read, and to add to"],
];

function lowerFirst(text: string): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1)}`;
}
