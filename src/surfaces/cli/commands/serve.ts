import type { Command } from "commander";
import { acpUsage, consoleUsage, restUsage, rpcUsage } from "../../wire/usage.ts";
import { describeServer } from "../help.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat serve`, which hands its flags to the server as they are. */
export function addServeCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("serve")
    .summary("serve sessions over HTTP, for programs and browsers; rkat-rest with this project's sessions")
    .description("Serves the project's sessions over HTTP; rkat serve --help lists its flags.")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      const { args } = invocation.io;
      invocation.exitWith(await invocation.parts.serveRest(args.toSpliced(args.indexOf("serve"), 1)));
    });
  describeServer(command, restUsage("rkat serve", "cli"));
}

/** Declares `rkat console`, which hands its flags to the server as they are. */
export function addConsoleCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("console")
    .summary("look at sessions, contexts, compactions and memory in a browser")
    .description("Shows the project's sessions in a browser; rkat console --help lists its flags.")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      const { args } = invocation.io;
      invocation.exitWith(await invocation.parts.serveConsole(args.toSpliced(args.indexOf("console"), 1)));
    });
  describeServer(command, consoleUsage("rkat console"));
}

/** Declares `rkat rpc`, which hands its flags to the server as they are. */
export function addRpcCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("rpc")
    .summary("serve JSON-RPC on stdin and stdout; the same as rkat-rpc")
    .description(
      "Serves sessions over JSON-RPC, one object a line, on stdin and stdout; rkat rpc --help lists its flags.",
    )
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      const { args } = invocation.io;
      invocation.exitWith(await invocation.parts.serveRpc(args.toSpliced(args.indexOf("rpc"), 1)));
    });
  describeServer(command, rpcUsage("rkat rpc"));
}

/** Declares `rkat acp`, which hands its flags to the server as they are. */
export function addAcpCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("acp")
    .summary("serve editors over the Agent Client Protocol, on stdin and stdout; the same as rkat-acp")
    .description("Serves sessions to editors over the Agent Client Protocol; rkat acp --help lists its flags.")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      const { args } = invocation.io;
      invocation.exitWith(await invocation.parts.serveAcp(args.toSpliced(args.indexOf("acp"), 1)));
    });
  describeServer(command, acpUsage("rkat acp"));
}
