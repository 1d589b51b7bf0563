import { invalid } from "@rkat/core/contract/error";
import { readFlags, type ServerFlags, serverFlags } from "../http/flags.ts";
import { RPC_FLAGS, rpcHelp, SERVER_FLAGS, usageText } from "../http/server-help.ts";
import { type ServerIo, type ServerParts, startServer } from "../http/start.ts";
import { serveRpc } from "./serve.ts";

/** With the turns before it, less than the 5 s a client waits before it kills. */
const CLOSE_MS_MAX = 1_000;

/** Serves JSON-RPC on stdin and stdout until they end, and returns the exit code. It does not throw. */
export function startRpc(io: ServerIo, parts: ServerParts): Promise<number> {
  return startServer(io, parts, {
    command: "rkat-rpc",
    usage: usageText("rkat-rpc", rpcHelp("rkat-rpc")),
    parseFlags,
    realmFor: async ({ realm }) => ({ realm, purpose: "server" }),
    mayKeepInProject: false,
    showsPaths: () => true,
    http: () => undefined,
    closeMsMax: CLOSE_MS_MAX,
    serve: ({ runtime, about, clock, log }) => {
      const streams = { input: io.stdin, output: io.stdout, signal: io.interrupt };
      return serveRpc({ ...streams, log, runtime, host: about, clock });
    },
  });
}

/** Throws INVALID_PARAMS also for a flag that is known and not served. */
function parseFlags(args: readonly string[]): ServerFlags {
  const values = readFlags(args, { ...RPC_FLAGS, ...SERVER_FLAGS });
  const refused = ["tcp", "allow-remote"].find((name) => name in values);
  if (refused !== undefined) throw invalid(`--${refused} is not served: rkat-rpc speaks over stdin and stdout`);
  const live = Object.keys(values).filter((name) => name.startsWith("live-"));
  const ignored = live.map((name) => `--${name} is accepted and changes nothing: live channels are not served`);
  const flags = serverFlags(values);
  return { ...flags, notes: [...flags.notes, ...ignored] };
}
