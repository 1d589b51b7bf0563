import { acpUsage, consoleUsage, restUsage, rpcUsage } from "../../wire/usage.ts";
import type { CommandRow } from "../command-row.ts";

export const serveRow: CommandRow = {
  words: "serve",
  summary: "serve sessions over HTTP, for programs and browsers",
  server: { usage: () => restUsage("rkat serve", "cli"), start: ({ serveRest }, args) => serveRest(args) },
};

export const consoleRow: CommandRow = {
  words: "console",
  summary: "show sessions, contexts, compactions and memory in a browser",
  server: { usage: () => consoleUsage("rkat console"), start: ({ serveConsole }, args) => serveConsole(args) },
};

export const rpcRow: CommandRow = {
  words: "rpc",
  summary: "serve JSON-RPC on stdin and stdout, as rkat-rpc does",
  server: { usage: () => rpcUsage("rkat rpc"), start: ({ serveRpc }, args) => serveRpc(args) },
};

export const acpRow: CommandRow = {
  words: "acp",
  summary: "serve editors over the Agent Client Protocol, on stdin and stdout, as rkat-acp does",
  server: { usage: () => acpUsage("rkat acp"), start: ({ serveAcp }, args) => serveAcp(args) },
};
