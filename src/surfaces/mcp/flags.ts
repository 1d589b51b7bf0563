import { parseArgs } from "node:util";
import { RuntimeError } from "../../contract/error.ts";
import { backendNote } from "../realm.ts";

/** What a server was started with. */
export interface McpFlags {
  readonly realm: string | undefined;
  readonly isolated: boolean | undefined;
  readonly stateRoot: string | undefined;
  readonly contextRoot: string | undefined;
  readonly userConfigRoot: string | undefined;
  readonly memoryOnly: boolean;
  /** Where to listen; undefined when stdin and stdout are spoken over. */
  readonly http: { readonly host: string; readonly port: number } | undefined;
  readonly token: string | undefined;
  readonly wants: "serve" | "help" | "version";
  /** Sentences for whoever started it: what was accepted and changes nothing. */
  readonly notes: readonly string[];
}

const HOST_DEFAULT = "127.0.0.1";
const PORT_DEFAULT = 8_081;
const PORT_MAX = 65_535;

export const USAGE = `Usage: rkat-mcp [options]

Serves sessions and their memory to MCP clients, on stdin and stdout unless --http is given.

Options:
  --memory-only            offer only the tools of memory: nothing that runs a turn
  --http                   serve streamable HTTP at /mcp instead
  --port PORT              with --http: the port, ${PORT_DEFAULT} unless given; 0 takes a free one
  --host HOST              with --http: the address, ${HOST_DEFAULT} unless given
  --token TOKEN            with --http: what clients must bring as a bearer token; better, set RKAT_TOKEN
  --realm ID               work in this realm; without one, in that of the folder
  --isolated               work in a fresh realm
  --state-root PATH        where realms are kept, instead of .rkat/realms
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  -V, --version            show the version
  -h, --help               show this help
`;

/** Reads the flags; throws INVALID_PARAMS for one that is unknown or wrong. */
export function parseMcpFlags(args: readonly string[]): McpFlags {
  const values = parse(args);
  const isHttp = values.http === true;
  const stray = isHttp ? undefined : ["port", "host", "token"].find((name) => name in values);
  if (stray !== undefined) throw invalid(`--${stray} is for a server over HTTP; add --http`);
  const backend = backendNote(values["realm-backend"]);
  return {
    realm: values.realm,
    isolated: values.isolated,
    stateRoot: values["state-root"],
    contextRoot: values["context-root"],
    userConfigRoot: values["user-config-root"],
    memoryOnly: values["memory-only"] === true,
    http: isHttp ? { host: values.host ?? HOST_DEFAULT, port: portOf(values.port) } : undefined,
    token: values.token,
    wants: values.help === true ? "help" : values.version === true ? "version" : "serve",
    notes: backend === undefined ? [] : [backend],
  };
}

function portOf(text: string | undefined): number {
  if (text === undefined) return PORT_DEFAULT;
  if (/^\d{1,5}$/.test(text) && Number(text) <= PORT_MAX) return Number(text);
  throw invalid(`--port ${text}: write a number from 0 to ${PORT_MAX}`);
}

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const OPTIONS = {
  "memory-only": flag,
  http: flag,
  port: text,
  host: text,
  token: text,
  realm: { type: "string", short: "r" },
  isolated: flag,
  instance: text,
  "realm-backend": text,
  "state-root": text,
  "context-root": text,
  "user-config-root": text,
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
