import { invalid } from "@rkat/core/contract/error";
import { flag, readFlags, SERVER_OPTIONS, type ServerFlags, serverFlags, text } from "../http/flags.ts";
import { type ServerIo, type ServerParts, startServer } from "../http/start.ts";
import { rpcUsage } from "../http/usage.ts";
import { serveRpc } from "./serve.ts";

/** With the turns before it, less than the 5 s a client waits before it kills. */
const CLOSE_MS_MAX = 1_000;

/** Serves JSON-RPC on stdin and stdout until they end, and returns the exit code. It does not throw. */
export function startRpc(io: ServerIo, parts: ServerParts): Promise<number> {
  return startServer(io, parts, {
    command: "rkat-rpc",
    usage: rpcUsage("rkat-rpc"),
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
  const values = readFlags(args, OPTIONS);
  const refused = ["tcp", "allow-remote"].find((name) => name in values);
  if (refused !== undefined) throw invalid(`--${refused} is not served: rkat-rpc speaks over stdin and stdout`);
  const live = Object.keys(values).filter((name) => name.startsWith("live-"));
  const ignored = live.map((name) => `--${name} is accepted and changes nothing: live channels are not served`);
  const flags = serverFlags(values);
  return { ...flags, notes: [...flags.notes, ...ignored] };
}

const OPTIONS = {
  ...SERVER_OPTIONS,
  tcp: text,
  "allow-remote": flag,
  "live-ws": text,
  "live-webrtc": flag,
  "live-tool-timeout-ms": text,
  "live-ws-scheme": text,
} as const;
