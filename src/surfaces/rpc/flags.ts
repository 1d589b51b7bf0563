import { flag, invalidFlag, readFlags, SERVER_OPTIONS, type ServerFlags, serverFlags, text } from "../wire/flags.ts";

export const USAGE = `Usage: rkat-rpc [options]

Serves sessions over JSON-RPC 2.0, one object a line, on stdin and stdout.

Options:
  --realm ID               work on this realm; without one, on a fresh realm of its own
  --isolated               ask for the fresh realm explicitly
  --instance ID            a name for this server, told to clients that ask
  --state-root PATH        where realms are kept
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  --trust                  obey the project's files though nobody trusted them, this once; RKAT_TRUST=1 does the same
  --realm-backend KIND     jsonl or sqlite; accepted, and our own backend is used
  -V, --version            show the version
  -h, --help               show this help
`;

/** Reads the flags; throws INVALID_PARAMS for one that is unknown, wrong or not served. */
export function parseRpcFlags(args: readonly string[]): ServerFlags {
  const values = readFlags(args, OPTIONS);
  const refused = ["tcp", "allow-remote"].find((name) => name in values);
  if (refused !== undefined) throw invalidFlag(`--${refused} is not served: rkat-rpc speaks over stdin and stdout`);
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
