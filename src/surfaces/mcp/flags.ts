import {
  flag,
  invalidFlag,
  portOf,
  readFlags,
  SERVER_OPTIONS,
  type ServerFlags,
  serverFlags,
  text,
} from "../wire/flags.ts";
import { HTTP_OPTIONS, HTTP_USAGE, type HttpFlags, httpFlags } from "../wire/http-flags.ts";

/** What a server was started with. */
export interface McpFlags extends ServerFlags {
  readonly memoryOnly: boolean;
  /** Where to listen and to whom; undefined when stdin and stdout are spoken over. */
  readonly http: ({ readonly host: string; readonly port: number } & HttpFlags) | undefined;
}

const HOST_DEFAULT = "127.0.0.1";
const PORT_DEFAULT = 8_081;

export const USAGE = `Usage: rkat-mcp [options]

Serves sessions and their memory to MCP clients, on stdin and stdout unless --http is given.

Options:
  --memory-only            offer only the tools of memory: nothing that runs a turn
  --http                   serve streamable HTTP at /mcp instead
  --port PORT              with --http: the port, ${PORT_DEFAULT} unless given; 0 takes a free one
  --host HOST              with --http: the address, ${HOST_DEFAULT} unless given
${HTTP_USAGE.replaceAll(/^( {2}\S+ \S+ +)/gm, "$1with --http: ")}
  --realm ID               work in this realm; without one, in that of the folder
  --isolated               work in a fresh realm
  --state-root PATH        where realms are kept, instead of .rkat/realms
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  --trust                  obey the project's files though nobody trusted them, this once; RKAT_TRUST=1 does the same
  -V, --version            show the version
  -h, --help               show this help
`;

/** Reads the flags; throws INVALID_PARAMS for one that is unknown or wrong. */
export function parseMcpFlags(args: readonly string[]): McpFlags {
  const values = readFlags(args, OPTIONS);
  const isHttp = values.http === true;
  const stray = isHttp ? undefined : Object.keys(ONLY_HTTP).find((name) => name in values);
  if (stray !== undefined) throw invalidFlag(`--${stray} is for a server over HTTP; add --http`);
  const port = values.port === undefined ? PORT_DEFAULT : portOf(values.port);
  return {
    ...serverFlags(values),
    memoryOnly: values["memory-only"] === true,
    http: isHttp ? { host: values.host ?? HOST_DEFAULT, port, ...httpFlags(values) } : undefined,
  };
}

const ONLY_HTTP = { port: text, host: text, ...HTTP_OPTIONS } as const;
const OPTIONS = { ...SERVER_OPTIONS, ...ONLY_HTTP, "memory-only": flag, http: flag } as const;
