import type { Command } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { mcpUsage } from "../../wire/usage.ts";
import { describeHelp, describeServer } from "../help.ts";
import { addServer, removeServer } from "../mcp/change-servers.ts";
import { listServers } from "../mcp/list-servers.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat mcp`, which hands its flags to the server as they are, and the commands on servers of others. */
export function addMcpCommand(program: Command, invocation: Invocation): void {
  const mcp = program
    .command("mcp")
    .summary("serve MCP on stdin and stdout, or over HTTP; list, add, remove: MCP servers for sessions")
    .description("Serves sessions and their memory to any MCP client; rkat mcp --help lists its flags.")
    .helpOption(false)
    .helpCommand(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      const { args } = invocation.io;
      invocation.exitWith(await invocation.parts.serveMcp(args.toSpliced(args.indexOf("mcp"), 1)));
    });
  describeServer(mcp, mcpUsage("rkat mcp"));
  describeHelp(mcp, {
    examples: [
      ["rkat mcp --memory-only", "a memory for any MCP client"],
      ["rkat mcp list", "the servers whose tools sessions of this folder have"],
    ],
  });
  addListCommand(mcp, invocation);
  addAddCommand(mcp, invocation);
  addRemoveCommand(mcp, invocation);
}

function addListCommand(mcp: Command, invocation: Invocation): void {
  const list = mcp
    .command("list")
    .helpOption("-h, --help", "show this help")
    .summary("try the servers that sessions of this folder use")
    .description(
      "Connects to every server of .rkat/mcp.toml, of this folder and yours, and shows its tools; what nobody trusted is not started.",
    )
    .option("--json", "as JSON")
    .action((flags: { readonly json?: boolean }) => listServers(invocation, flags.json === true));
  describeHelp(list, {
    examples: [["rkat mcp list", "the names that --allow-tool and --block-tool take"]],
    notes: [["Exit codes", "0 every server answered · 1 one of them failed · 2 the file is not usable"]],
  });
}

interface AddFlags {
  readonly url?: string;
  readonly env?: readonly string[];
  readonly header?: readonly string[];
}

function addAddCommand(mcp: Command, invocation: Invocation): void {
  const collect = (value: string, before: readonly string[] = []) => [...before, value];
  const add = mcp
    .command("add")
    .helpOption("-h, --help", "show this help")
    .summary("name a server in .rkat/mcp.toml")
    .description("Adds a server to .rkat/mcp.toml of this project: a command to start, or an address.")
    .argument("<name>")
    .argument("[command...]")
    .usage("NAME [options] -- COMMAND…\n  rkat mcp add NAME --url URL [options]")
    .option("--url <url>", "the server's address")
    .option("--env <name=value>", `give the command a variable; \${NAME} takes it from yours`, collect)
    .option("--header <name=value>", `send it with every request; \${NAME} takes it from your environment`, collect)
    .action(async (name: string, words: readonly string[], { url, env, header }: AddFlags) => {
      // The parser leaves some of the marks that end flags.
      const start = words.findIndex((word) => word !== "--");
      const [command, ...args] = start < 0 ? [] : words.slice(start);
      if (command === undefined && url === undefined)
        throw new RuntimeError("INVALID_PARAMS", "give the server's command after --, or its address as --url");
      const server = { name, command, args, url, env: pairs("--env", env), headers: pairs("--header", header) };
      await addServer(invocation, server);
    });
  describeHelp(add, {
    examples: [
      ["rkat mcp add files -- npx -y @modelcontextprotocol/server-filesystem .", "a program"],
      [`rkat mcp add docs --url https://example.com/mcp --header 'Authorization=Bearer \${DOCS_TOKEN}'`, "an address"],
    ],
  });
}

function addRemoveCommand(mcp: Command, invocation: Invocation): void {
  const remove = mcp
    .command("remove")
    .helpOption("-h, --help", "show this help")
    .summary("take a server out of .rkat/mcp.toml")
    .description("Takes a server out of .rkat/mcp.toml of this project; the rest of the file stays as it is.")
    .argument("<name>")
    .action((name: string) => removeServer(invocation, name));
  describeHelp(remove, { examples: [["rkat mcp remove files", "sessions do not have its tools any more"]] });
}

function pairs(flag: string, given: readonly string[] = []): Readonly<Record<string, string>> {
  const read = given.map((pair) => {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined || value === undefined)
      throw new RuntimeError("INVALID_PARAMS", `${flag}: write NAME=VALUE, with a name before the =`);
    return [name, value] as const;
  });
  return Object.fromEntries(read);
}

/**
 * Keeps the words after `--` of `rkat mcp add` away from the parser. It drops one such mark for each command it has
 * come to, and would then take the flags of the server's command for its own.
 */
export function settleServerCommand(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  const at = args.indexOf("mcp");
  const isAdding = at >= 0 && at < end && args[at + 1] === "add";
  return isAdding ? args.toSpliced(end, 1, "--", "--", "--") : args;
}
