import { Command, CommanderError } from "commander";
import { RuntimeError } from "../../contract/error.ts";
import { addAgentCommand } from "./agents/agent-command.ts";
import { addChatCommand } from "./chat/chat-command.ts";
import { addBlobCommand } from "./commands/blob.ts";
import { addCapabilitiesCommand } from "./commands/capabilities.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addInitCommand } from "./commands/init.ts";
import { addMcpCommand, settleServerCommand } from "./commands/mcp.ts";
import { addModelsCommand } from "./commands/models.ts";
import { addRpcCommand } from "./commands/rpc.ts";
import { addServeCommand } from "./commands/serve.ts";
import { addCompactCommand } from "./compactions/compact-command.ts";
import { addConfigCommand } from "./config/config-command.ts";
import { addDemoCommand } from "./demo/demo-command.ts";
import { reportFailure } from "./failure.ts";
import { configureHelp, describeHelp } from "./help.ts";
import type { Io } from "./io.ts";
import { addMemoryCommand } from "./memory/memory-command.ts";
import { nearMiss } from "./near-miss.ts";
import type { Invocation, Parts } from "./parts.ts";
import { addPlaceFlags, createPlace } from "./place.ts";
import { settleResume } from "./run/resume-words.ts";
import { addResumeCommands, addRunCommand } from "./run/run-command.ts";
import { addSessionCommand } from "./sessions/session-command.ts";

/** Does what the command line says and returns the exit code. It does not throw. */
export async function runCommandLine(io: Io, parts: Parts): Promise<number> {
  let exitCode = 0;
  const exitWith = (code: number): void => {
    exitCode = code;
  };
  const program = new Command("rkat");
  declareProgram(program, { io, parts, place: createPlace(io, program), exitWith });
  try {
    if (io.args.length === 0 && io.stdin.kind === "terminal") {
      program.outputHelp();
      return 0;
    }
    refuseNearMiss(io.args, program);
    await program.parseAsync(settleServerCommand(settleResume(io.args)), { from: "user" });
    return exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
    return reportFailure(io, thrown);
  }
}

function declareProgram(program: Command, invocation: Invocation): void {
  const { io } = invocation;
  program
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
  addPlaceFlags(program);
  program.commandsGroup("Ask");
  addRunCommand(program, invocation);
  addResumeCommands(program, invocation);
  addChatCommand(program, invocation);
  program.commandsGroup("Look at what was kept");
  addSessionCommand(program, invocation);
  addCompactCommand(program, invocation);
  addMemoryCommand(program, invocation);
  addAgentCommand(program, invocation);
  addBlobCommand(program, invocation);
  program.commandsGroup("Serve");
  addServeCommand(program, invocation);
  addRpcCommand(program, invocation);
  addMcpCommand(program, invocation);
  program.commandsGroup("Set up; each command has a --help of its own");
  addDemoCommand(program, invocation);
  addInitCommand(program, invocation);
  addConfigCommand(program, invocation);
  addDoctorCommand(program, invocation);
  addModelsCommand(program, invocation);
  addCapabilitiesCommand(program, invocation);
  addHelpCommand(program);
  describeHelp(program, {
    examples: [
      ["rkat demo", "watch what it does; no key, no network"],
      ['rkat "what can you do?" -m offline', "ask the built-in model"],
      ['rkat c "and what can you not?"', "go on with the last session"],
      ['git diff | rkat "review this change"', "ask about what is piped in"],
      ['rkat "fix the failing test" -t workspace', "with files and a shell"],
      ["rkat session list", "what was kept; nothing is lost when a process ends"],
      ["rkat compact show last", "what became of turns that left the context"],
      ['rkat memory history "the staging host"', "find what was said, in any session"],
      ["rkat chat --agent ada", "talk to an agent that remembers, for good"],
    ],
    notes: [
      [
        "Environment",
        "ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY   the first that is set chooses the model",
        "RKAT_MODEL, RKAT_MAX_TOKENS, …                      win over the configuration; see rkat init",
        "RKAT_FEATURES=none                                  keep nothing",
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
    .argument("[command...]")
    .action((words: readonly string[]) => {
      let command = program;
      for (const word of words) {
        const inner = command.commands.find((one) => namesOf(one).includes(word));
        if (inner === undefined)
          throw new RuntimeError("INVALID_PARAMS", `there is no command ${words.join(" ")}; rkat help lists them`);
        command = inner;
      }
      command.outputHelp();
    });
}

function namesOf(command: Command): readonly string[] {
  return [command.name(), ...command.aliases()];
}

/** A lone word that nearly is a command was meant as one: sending it to a model would cost money and help nobody. */
function refuseNearMiss([word = "", next = "-"]: readonly string[], program: Command): void {
  if (word.startsWith("-") || !next.startsWith("-")) return;
  const names = program.commands.flatMap(namesOf);
  const meant = names.includes(word) ? undefined : nearMiss(word, names);
  if (meant === undefined) return;
  const message = `there is no command ${word}; did you mean rkat ${meant}? As a prompt, write rkat run ${word}`;
  throw new RuntimeError("INVALID_PARAMS", message);
}
