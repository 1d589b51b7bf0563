import { invalid, type RuntimeError } from "@rkat/core/contract/error";
import { nearMiss } from "@rkat/core/text/near-miss";
import { acpHelp, CONSOLE_HELP, restHelp, rpcHelp } from "@rkat/server/http/server-help";
import { Command, CommanderError } from "commander";
import { chatRow, chatWhereChosen } from "./chat/chat-command.ts";
import { type Call, type CommandRow, command, DEFAULT_COMMAND, declareCommand, wordsOf } from "./command-row.ts";
import { agentRows } from "./commands/agent.ts";
import { compactRows } from "./commands/compact.ts";
import { completionRows } from "./commands/completion.ts";
import { configRows } from "./commands/config.ts";
import { conformanceRow } from "./commands/conformance.ts";
import { doctorRow } from "./commands/doctor.ts";
import { pruneRow } from "./commands/forget.ts";
import { mcpRows, settleServerCommand } from "./commands/mcp.ts";
import { memoryRows } from "./commands/memory.ts";
import {
  blobRows,
  capabilitiesRow,
  commsRows,
  modelsRow,
  scheduleRows,
  skillRows,
  subAgentRows,
  usageRow,
  whoamiRow,
} from "./commands/overview.ts";
import { hookRows, initRow, trustRow } from "./commands/project.ts";
import { resumeRows, runRow, settleResume } from "./commands/run.ts";
import { sessionRows } from "./commands/session.ts";
import { backupRows, encryptionRows, storeRows } from "./commands/store.ts";
import { tokenRows } from "./commands/token.ts";
import { connectRows } from "./connect/connect-command.ts";
import { demoRow } from "./demo-command.ts";
import { reportFailure } from "./failure.ts";
import { configureHelp, describeHelp } from "./help.ts";
import { type Io, writeWarnings } from "./io.ts";
import { addPlaceFlags, createPlace, type Invocation, type Parts } from "./parts.ts";
import { watchRow } from "./transfer/watch.ts";

/** Runs the command line and returns the exit code. It does not throw. */
export async function runCommandLine(io: Io, parts: Parts): Promise<number> {
  let exitCode = 0;
  const exitWith = (code: number): void => {
    exitCode = code;
  };
  try {
    const args = isChat(io, parts) ? ["chat", ...io.args] : io.args;
    const program = createProgram(io, parts, { exitWith, only: args });
    if (args.length === 0 && io.stdin.kind === "terminal") {
      program.outputHelp();
      return 0;
    }
    refuseNearMiss(args, program);
    await program.parseAsync(settleServerCommand(settleResume(args)), { from: "user" });
    return exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
    return reportFailure(io, thrown);
  }
}

/** Whether to start a chat: at a terminal, without words, and every flag is a flag of `rkat chat`. */
function isChat(io: Io, parts: Parts): boolean {
  const { args, stdin, stdout } = io;
  if (stdin.kind !== "terminal" || !stdout.isTerminal) return false;
  const [first = ""] = args;
  if (first === "") return args.length === 0;
  if (!first.startsWith("-")) return false;
  // Flags of every command belong to the program, the others to `chat`.
  const program = createProgram(io, parts, { only: ["chat"] });
  const { operands, unknown } = program.parseOptions([...settleResume(args)]);
  const left = program.commands.find((command) => command.name() === "chat")?.parseOptions(unknown);
  return operands.length === 0 && left?.operands.length === 0 && left.unknown.length === 0;
}

/** Declares every command with its flags and help, or only those that a command line needs. */
export function createProgram(
  io: Io,
  parts: Parts,
  {
    exitWith = () => {},
    only,
  }: { readonly exitWith?: (code: number) => void; readonly only?: readonly string[] | undefined } = {},
): Command {
  const program = new Command("rkat");
  declareProgram(program, { io, parts, place: createPlace(io, program), exitWith, warnOnce: createWarnOnce(io) }, only);
  return program;
}

function createWarnOnce(io: Io): Invocation["warnOnce"] {
  const reported = new Set<string>();
  return (sentence) => {
    if (!reported.has(sentence)) writeWarnings(io, [sentence]);
    reported.add(sentence);
  };
}

/** The commands that a line needs, by its first words: declaring all would take longer than most commands. */
function rowsFor([first = "", second = ""]: readonly string[]): ReadonlySet<CommandRow> {
  const all = Object.values(COMMANDS).flat();
  const namesIn = (row: CommandRow): readonly string[] => [
    ...wordsOf(row)[0].slice(-1),
    ...(row.also ?? []),
    ...(row.former ?? []),
  ];
  // The front page lists the outermost commands.
  if (["", "-h", "--help"].includes(first)) return new Set(all.filter((row) => wordsOf(row)[0].length === 1));
  const name = holdsBlank(first) ? DEFAULT_COMMAND : first;
  const outer = all.find((row) => wordsOf(row)[0].length === 1 && namesIn(row).includes(name));
  if (outer === undefined || outer.needsAll === true) return new Set(all);
  const held = all.filter((row) => row !== outer && wordsOf(row)[0][0] === wordsOf(outer)[0][0]);
  const inner = held.filter((row) => namesIn(row).includes(second));
  return new Set([outer, ...(inner.length === 0 ? held : inner)]);
}

function declareProgram(program: Command, invocation: Invocation, only: readonly string[] | undefined): void {
  const { io } = invocation;
  program
    .description("A runtime for agent sessions that outlive any context window.")
    .usage('"PROMPT" [options]\n  rkat COMMAND [options]')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: () => {},
      getOutHasColors: () => true, // We have checked for colours already; without this it would strip them.
    })
    .version(io.version, "-V, --version", "show the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand(false);
  configureHelp(program, io);
  addPlaceFlags(program);
  const needed = only === undefined ? undefined : rowsFor(only);
  for (const [group, rows] of Object.entries(COMMANDS)) {
    program.commandsGroup(group);
    for (const row of rows) if (needed?.has(row) !== false) declareCommand(program, row, invocation);
  }
  requireSentence(program);
  describeHelp(program, {
    examples: [
      ["rkat", "chat; asks for a model where none is set up"],
      ["rkat demo", "watch what it does; no key, no network"],
      ['rkat "what can you do?" -m offline', "ask the built-in model"],
      ['rkat c "and what can you not?"', "continue the last session"],
      ['git diff | rkat "review this change"', "ask about piped text"],
      ['rkat "fix the failing test" -t workspace', "with files and a shell"],
      ["rkat session list", "all sessions; nothing is lost when a process ends"],
      ["rkat compact show last", "what a compaction removed from the context"],
      ['rkat memory history "the staging host"', "search every session"],
      ["rkat chat --agent ada", "talk to an agent that remembers"],
    ],
    notes: [
      [
        "Environment",
        "ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY   the first that is set chooses the model",
        "RKAT_MODEL, RKAT_MAX_TOKENS, …                      win over the configuration; see rkat init",
        "RKAT_FEATURES=none                                  store nothing",
        "RKAT_TRUST=1                                        trust a project's files; see rkat trust",
        "NO_COLOR, FORCE_COLOR                               never colour, always colour",
        "RKAT_DEBUG=1                                        show where an error arose",
      ],
    ],
  });
}

function namesOf(command: Command): readonly string[] {
  return [command.name(), ...command.aliases()];
}

/** Refuses words that are nearly a command: as a prompt they would cost money for a typo. */
function refuseNearMiss(args: readonly string[], program: Command): void {
  const flagAt = args.findIndex((word) => word.startsWith("-"));
  const words = flagAt < 0 ? args : args.slice(0, flagAt);
  if (program.commands.some((command) => namesOf(command).includes(words[0] ?? ""))) return;
  if (words.some(holdsBlank) || meantBy(words, program) === undefined) return;
  throw noCommand(words, program);
}

/** Refuses one or two words as a prompt without `run` where they may be a mistyped command. */
function requireSentence(program: Command): void {
  program.hook("preAction", (_, command) => {
    if (command.parent !== program || command.name() !== DEFAULT_COMMAND || program.args[0] === DEFAULT_COMMAND) return;
    const [words = []]: readonly (readonly string[])[] = command.processedArgs;
    // With --resume the words are a prompt.
    if (command.opts().resume !== undefined || words.length === 0) return;
    if (words.length > COMMAND_WORDS_MAX || words.some(holdsBlank)) return;
    const [word = "", next] = words;
    if (next === undefined && !Object.hasOwn(UNSERVED, word) && meantBy(words, program) === undefined) return;
    throw noCommand(words, program);
  });
}

/** Commands of Meerkat 0.6 that rkat does not have, and what to do instead. */
const UNSERVED: Readonly<Record<string, string>> = {
  auth: "keys come from variables such as ANTHROPIC_API_KEY; rkat doctor shows which are set.",
  mob: "mobs are not part of rkat.",
  realm: "--realm NAME chooses one.",
  workgraph: "work graphs are not part of rkat.",
};

const COMMAND_WORDS_MAX = 2;
const COMMAND_SLIPS_MAX = 2;

function holdsBlank(word: string): boolean {
  return /\s/.test(word);
}

function noCommand(words: readonly string[], program: Command): RuntimeError {
  const [word = ""] = words;
  const meant = Object.hasOwn(UNSERVED, word) ? undefined : meantBy(words, program);
  const hint = meant === undefined ? (UNSERVED[word] ?? "rkat help lists them.") : `did you mean ${meant}?`;
  const message = `there is no command ${words.join(" ")}; ${hint} As a prompt, write rkat run ${words.join(" ")}`;
  return invalid(message);
}

/** The nearest command: one with a similar name, or a subcommand of that name. */
function meantBy([first = "", next, ...more]: readonly string[], program: Command): string | undefined {
  const word = first.toLowerCase();
  // In a sentence a word that differs by two letters is taken as it is.
  const slips = more.length > 0 ? 1 : COMMAND_SLIPS_MAX;
  if (word === "version") return "rkat --version";
  const holders = (name: string) =>
    program.commands.filter(({ commands }) => commands.some((inner) => namesOf(inner).includes(name)));
  const outer = next === undefined ? undefined : nearMiss(word, holders(next).flatMap(namesOf), slips);
  if (outer !== undefined) return `rkat ${outer} ${next}`;
  const names = program.commands.flatMap(namesOf);
  const slip = names.includes(word) ? word : nearMiss(word, names, slips);
  if (slip !== undefined) return `rkat ${slip}`;
  const within = holders(word).map((holder) => `rkat ${holder.name()} ${word}`);
  return within.length === 0 ? undefined : within.join(" or ");
}

const [resumeRow, ...continueRows] = resumeRows(chatWhereChosen);

const helpRow = command("help [COMMAND…]", {
  text: "Show the help of a command; rkat COMMAND --help does the same.",
  examples: [["rkat help session fork", "of a command within another"]],
  needsAll: true,
  run: showHelp,
});

/** Every command, under the headings of the front page and in their order there. */
const COMMANDS: Readonly<Record<string, readonly CommandRow[]>> = {
  Commands: [
    chatRow,
    runRow,
    resumeRow,
    ...sessionRows,
    watchRow,
    ...compactRows,
    ...memoryRows,
    ...agentRows,
    command("serve", {
      text: "Serve sessions over HTTP, for programs and browsers.",
      server: { help: () => restHelp("rkat serve", "cli"), kind: "rest" },
    }),
    ...configRows,
    doctorRow,
  ],
  More: [
    ...continueRows,
    demoRow,
    ...connectRows,
    command("console [PLACE]", {
      text: "Show sessions, contexts, compactions and memory in a browser.",
      server: { help: () => CONSOLE_HELP, kind: "console" },
    }),
    modelsRow,
    usageRow,
    ...skillRows,
    ...scheduleRows,
    ...commsRows,
    ...subAgentRows,
    ...blobRows,
    command("rpc", {
      text: "Serve JSON-RPC on stdin and stdout, as rkat-rpc does.",
      server: { help: () => rpcHelp("rkat rpc"), kind: "rpc" },
    }),
    ...mcpRows,
    command("acp", {
      text: "Serve editors over the Agent Client Protocol, on stdin and stdout, as rkat-acp does.",
      server: { help: () => acpHelp("rkat acp"), kind: "acp" },
    }),
    ...completionRows,
    helpRow,
  ],
  Administration: [
    initRow,
    trustRow,
    ...hookRows,
    ...tokenRows,
    whoamiRow,
    capabilitiesRow,
    pruneRow,
    ...backupRows,
    ...storeRows,
    ...encryptionRows,
    conformanceRow,
  ],
};

function showHelp({ self }: Call): void {
  let command = self.parent ?? self;
  for (const word of self.args) {
    const inner: Command | undefined = command.commands.find((one) => [one.name(), ...one.aliases()].includes(word));
    if (inner === undefined) throw invalid(`there is no command ${self.args.join(" ")}; rkat help lists them`);
    command = inner;
  }
  command.outputHelp();
}
