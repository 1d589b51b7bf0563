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
export interface RestFlags extends ServerFlags, HttpFlags {
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly exposePaths: boolean;
  readonly json: boolean;
}

/** The help of the server under the name it was called by. */
export function usage(command: string, defaultRealm: string): string {
  return `Usage: ${command} [options]

Serves sessions over HTTP: REST, events as server-sent events, and an OpenAPI document at /openapi.json and /docs.
A turn goes on when its client leaves; ask for its events, or for the session, to see how it ended.

Options:
  --host ADDRESS           where to listen, instead of [rest] host or 127.0.0.1; beyond loopback a token is needed
  --port N                 instead of [rest] port or 8080; 0 takes any free one
${HTTP_USAGE}
  --expose-paths           tell clients where things are kept
  --json                   print {"url": …} on stdout once it listens
  --realm ID               work on this realm; without one, on ${defaultRealm}
  --isolated               work on a fresh realm of its own
  --instance ID            a name for this server, told to clients that ask
  --state-root PATH        where realms are kept
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  --trust                  obey the project's files though nobody trusted them, this once; RKAT_TRUST=1 does the same
  --realm-backend KIND     jsonl or sqlite; accepted, and our own backend is used
  -V, --version            show the version
  -h, --help               show this help

Examples:
  ${command}
  ${command} --port 0 --json
  ${command} --tools workspace
  RKAT_TOKEN=$(openssl rand -hex 32) ${command} --host 0.0.0.0
  curl http://127.0.0.1:8080/sessions -H "Content-Type: application/json" -d '{"prompt":"Hello!","model":"offline"}'
  curl -N http://127.0.0.1:8080/sessions/SESSION_ID/events -H "Last-Event-ID: 0"
`;
}

/** Reads the flags; throws INVALID_PARAMS for one that is unknown or wrong. */
export function parseRestFlags(args: readonly string[]): RestFlags {
  const values = readFlags(args, OPTIONS);
  return {
    ...serverFlags(values),
    host: values.host === undefined ? undefined : hostOf(values.host),
    port: values.port === undefined ? undefined : portOf(values.port),
    ...httpFlags(values),
    exposePaths: values["expose-paths"] === true,
    json: values.json === true,
  };
}

function hostOf(address: string): string {
  // An empty one would mean every address of the machine.
  if (address.trim() !== "") return address.trim();
  throw invalidFlag("--host: write an address or a name of this machine");
}

const OPTIONS = {
  ...SERVER_OPTIONS,
  ...HTTP_OPTIONS,
  host: text,
  port: text,
  "expose-paths": flag,
  json: flag,
} as const;
