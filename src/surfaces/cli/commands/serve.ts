import { acpUsage, consoleUsage, restUsage, rpcUsage } from "../../wire/usage.ts";
import { command } from "../command-row.ts";

export const serveRow = command("serve", {
  text: "Serve sessions over HTTP, for programs and browsers.",
  server: { usage: () => restUsage("rkat serve", "cli"), start: ({ serveRest }, args) => serveRest(args) },
});

export const consoleRow = command("console", {
  text: "Show sessions, contexts, compactions and memory in a browser.",
  server: { usage: () => consoleUsage("rkat console"), start: ({ serveConsole }, args) => serveConsole(args) },
});

export const rpcRow = command("rpc", {
  text: "Serve JSON-RPC on stdin and stdout, as rkat-rpc does.",
  server: { usage: () => rpcUsage("rkat rpc"), start: ({ serveRpc }, args) => serveRpc(args) },
});

export const acpRow = command("acp", {
  text: "Serve editors over the Agent Client Protocol, on stdin and stdout, as rkat-acp does.",
  server: { usage: () => acpUsage("rkat acp"), start: ({ serveAcp }, args) => serveAcp(args) },
});
