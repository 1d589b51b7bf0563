import { parseArgs } from "node:util";
import { RuntimeError } from "../../contract/error.ts";
import { backendNote } from "../realm.ts";

/** What a server was started with. */
export interface RpcFlags {
  readonly realm: string | undefined;
  readonly isolated: boolean | undefined;
  readonly instance: string | undefined;
  readonly stateRoot: string | undefined;
  readonly contextRoot: string | undefined;
  readonly userConfigRoot: string | undefined;
  readonly wants: "serve" | "help" | "version";
  /** Sentences for whoever started it: what was accepted and changes nothing. */
  readonly notes: readonly string[];
}

export const USAGE = `Usage: rkat-rpc [options]

Serves sessions over JSON-RPC 2.0, one object a line, on stdin and stdout.

Options:
  --realm ID               work on this realm; without one, on a fresh realm of its own
  --isolated               ask for the fresh realm explicitly
  --instance ID            a name for this server, told to clients that ask
  --state-root PATH        where realms are kept
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  --realm-backend KIND     jsonl or sqlite; accepted, and our own backend is used
  -V, --version            show the version
  -h, --help               show this help
`;

/** Reads the flags; throws INVALID_PARAMS for one that is unknown, wrong or not served. */
export function parseRpcFlags(args: readonly string[]): RpcFlags {
  const values = parse(args);
  const refused = ["tcp", "allow-remote"].find((name) => name in values);
  if (refused !== undefined) throw invalid(`--${refused} is not served: rkat-rpc speaks over stdin and stdout`);
  const live = Object.keys(values).filter((name) => name.startsWith("live-"));
  const backend = backendNote(values["realm-backend"]);
  return {
    realm: values.realm,
    isolated: values.isolated,
    instance: values.instance,
    stateRoot: values["state-root"],
    contextRoot: values["context-root"],
    userConfigRoot: values["user-config-root"],
    wants: values.help === true ? "help" : values.version === true ? "version" : "serve",
    notes: [
      ...(backend === undefined ? [] : [backend]),
      ...live.map((name) => `--${name} is accepted and changes nothing: live channels are not served`),
    ],
  };
}

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const OPTIONS = {
  realm: text,
  isolated: flag,
  instance: text,
  "realm-backend": text,
  "state-root": text,
  "context-root": text,
  "user-config-root": text,
  tcp: text,
  "allow-remote": flag,
  "live-ws": text,
  "live-webrtc": flag,
  "live-tool-timeout-ms": text,
  "live-ws-scheme": text,
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "V" },
} as const;

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, strict: true, allowPositionals: false }).values;
  } catch (cause) {
    const [sentence = "the flags cannot be read"] = (cause instanceof Error ? cause.message : "").split(". ");
    throw new RuntimeError("INVALID_PARAMS", `${sentence}; see --help`, { cause });
  }
}

function invalid(message: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message);
}
