import type { Command } from "commander";
import type { Invocation } from "../parts.ts";

/** Declares `rkat mcp`, which hands its flags to the server as they are. */
export function addMcpCommand(program: Command, invocation: Invocation): void {
  program
    .command("mcp")
    .summary("serve MCP on stdin and stdout, or over HTTP; the same as rkat-mcp")
    .description("Serves sessions and their memory to any MCP client; rkat mcp --help lists its flags.")
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      const { args } = invocation.io;
      invocation.exitWith(await invocation.parts.serveMcp(args.toSpliced(args.indexOf("mcp"), 1)));
    });
}
