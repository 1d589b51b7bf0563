import { RuntimeError } from "@rkat/core/contract/error";
import { acpUsage, consoleUsage, restUsage, rpcUsage } from "@rkat/server/http/usage";
import type { Command } from "commander";
import { chatRow, chatWhereChosen } from "./chat/chat-command.ts";
import { type Call, type CommandRow, command } from "./command-row.ts";
import { agentRows } from "./commands/agent.ts";
import { backupRows } from "./commands/backup.ts";
import { compactRows } from "./commands/compact.ts";
import { completionRows } from "./commands/completion.ts";
import { configRows } from "./commands/config.ts";
import { conformanceRow } from "./commands/conformance.ts";
import { doctorRow } from "./commands/doctor.ts";
import { encryptionRows } from "./commands/encryption.ts";
import { pruneRow } from "./commands/forget.ts";
import { hookRows } from "./commands/hooks.ts";
import { initRow } from "./commands/init.ts";
import { mcpRows } from "./commands/mcp.ts";
import { memoryRows } from "./commands/memory.ts";
import {
  blobRows,
  capabilitiesRow,
  modelsRow,
  skillRows,
  subAgentRows,
  usageRow,
  whoamiRow,
} from "./commands/overview.ts";
import { resumeRows, runRow } from "./commands/run.ts";
import { sessionRows } from "./commands/session.ts";
import { storeRows } from "./commands/store.ts";
import { tokenRows } from "./commands/token.ts";
import { trustRow } from "./commands/trust.ts";
import { demoRow } from "./demo-command.ts";

const [resumeRow, ...continueRows] = resumeRows(chatWhereChosen);

const helpRow = command("help [COMMAND…]", {
  text: "Show the help of a command; rkat COMMAND --help does the same.",
  examples: [["rkat help session fork", "of a command within another"]],
  needsAll: true,
  run: showHelp,
});

/** Every command, under the headings of the front page and in their order there. */
export const COMMANDS: Readonly<Record<string, readonly CommandRow[]>> = {
  Commands: [
    chatRow,
    runRow,
    resumeRow,
    ...sessionRows,
    ...compactRows,
    ...memoryRows,
    ...agentRows,
    command("serve", {
      text: "Serve sessions over HTTP, for programs and browsers.",
      server: { usage: () => restUsage("rkat serve", "cli"), start: ({ serveRest }, args) => serveRest(args) },
    }),
    ...configRows,
    doctorRow,
  ],
  More: [
    ...continueRows,
    demoRow,
    command("console", {
      text: "Show sessions, contexts, compactions and memory in a browser.",
      server: { usage: () => consoleUsage("rkat console"), start: ({ serveConsole }, args) => serveConsole(args) },
    }),
    modelsRow,
    usageRow,
    ...skillRows,
    ...subAgentRows,
    ...blobRows,
    command("rpc", {
      text: "Serve JSON-RPC on stdin and stdout, as rkat-rpc does.",
      server: { usage: () => rpcUsage("rkat rpc"), start: ({ serveRpc }, args) => serveRpc(args) },
    }),
    ...mcpRows,
    command("acp", {
      text: "Serve editors over the Agent Client Protocol, on stdin and stdout, as rkat-acp does.",
      server: { usage: () => acpUsage("rkat acp"), start: ({ serveAcp }, args) => serveAcp(args) },
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
    if (inner === undefined)
      throw new RuntimeError("INVALID_PARAMS", `there is no command ${self.args.join(" ")}; rkat help lists them`);
    command = inner;
  }
  command.outputHelp();
}
