import { Command, CommanderError } from "commander";
import { RuntimeError } from "../../contract/error.ts";
import { addCapabilitiesCommand } from "./commands/capabilities.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addInitCommand } from "./commands/init.ts";
import { addModelsCommand } from "./commands/models.ts";
import { addDemoCommand } from "./demo/demo-command.ts";
import { reportFailure } from "./failure.ts";
import { configureHelp, describeHelp } from "./help.ts";
import type { Io } from "./io.ts";
import { nearMiss } from "./near-miss.ts";
import type { Invocation, Parts } from "./parts.ts";
import { addRunCommand } from "./run/run-command.ts";

/** Does what the command line says and returns the exit code. It does not throw. */
export async function runCommandLine(io: Io, parts: Parts): Promise<number> {
  let exitCode = 0;
  const exitWith = (code: number): void => {
    exitCode = code;
  };
  const program = createProgram({ io, parts, exitWith });
  try {
    if (io.args.length === 0 && io.stdin.kind === "terminal") {
      program.outputHelp();
      return 0;
    }
    refuseNearMiss(io.args, program);
    await program.parseAsync(io.args, { from: "user" });
    return exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
    return reportFailure(io, thrown);
  }
}

function createProgram(invocation: Invocation): Command {
  const { io } = invocation;
  const program = new Command("rkat")
    .description("A runtime for agent sessions that outlive any context window.")
    .usage("PROMPT… [options]\n  rkat COMMAND [options]")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: () => {},
      getOutHasColors: () => true, // It strips what we painted otherwise, and we have looked already.
    })
    .version(io.version, "-V, --version", "show the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand(false);
  configureHelp(program, io);
  program.commandsGroup("Commands, each with a --help of its own");
  addRunCommand(program, invocation);
  addDemoCommand(program, invocation);
  addInitCommand(program, invocation);
  addDoctorCommand(program, invocation);
  addModelsCommand(program, invocation);
  addCapabilitiesCommand(program, invocation);
  addHelpCommand(program);
  return describeHelp(program, {
    examples: [
      ["rkat demo", "watch what it does; no key, no network"],
      ['rkat "what can you do?" -m offline', "ask the built-in model"],
      ['git diff | rkat "review this change"', "ask about what is piped in"],
      ['rkat "fix the failing test" -t workspace', "with files and a shell"],
    ],
    notes: [
      [
        "Environment",
        "ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY   the first that is set chooses the model",
        "RKAT_MODEL, RKAT_MAX_TOKENS, …                      win over the configuration; see rkat init",
        "NO_COLOR, FORCE_COLOR                               never, always colour",
        "RKAT_DEBUG=1                                        show where an error arose",
      ],
    ],
  });
}

function addHelpCommand(program: Command): void {
  program
    .command("help")
    .summary("show help for a command")
    .argument("[command]")
    .action((name: string | undefined) => {
      if (name === undefined) return program.outputHelp();
      const command = program.commands.find((one) => one.name() === name);
      if (command !== undefined) return command.outputHelp();
      throw new RuntimeError("INVALID_PARAMS", `there is no command ${name}; rkat help lists them`);
    });
}

/** A lone word that nearly is a command was meant as one: sending it to a model would cost money and help nobody. */
function refuseNearMiss([word = "", next = "-"]: readonly string[], program: Command): void {
  if (word.startsWith("-") || !next.startsWith("-")) return;
  const names = program.commands.map((command) => command.name());
  const meant = names.includes(word) ? undefined : nearMiss(word, names);
  if (meant === undefined) return;
  const message = `there is no command ${word}; did you mean rkat ${meant}? As a prompt, write rkat run ${word}`;
  throw new RuntimeError("INVALID_PARAMS", message);
}
