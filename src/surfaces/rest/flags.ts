import { parseArgs } from "node:util";
import { RuntimeError } from "../../contract/error.ts";
import { backendNote } from "../realm.ts";

/** What a server was started with. */
export interface RestFlags {
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly token: string | undefined;
  readonly allowedHosts: readonly string[];
  readonly exposePaths: boolean;
  readonly json: boolean;
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

/** The help of the server under the name it was called by. */
export function usage(command: string, defaultRealm: string): string {
  return `Usage: ${command} [options]

Serves sessions over HTTP: REST, events as server-sent events, and an OpenAPI document at /openapi.json and /docs.
A turn goes on when its client leaves; ask for its events, or for the session, to see how it ended.

Options:
  --host ADDRESS           where to listen, instead of [rest] host or 127.0.0.1; beyond loopback a token is needed
  --port N                 instead of [rest] port or 8080; 0 takes any free one
  --token TOKEN            what clients send as Authorization: Bearer TOKEN; RKAT_TOKEN keeps it out of sight
  --allowed-host NAME      a further name clients may reach it by, such as that of a proxy; may be repeated
  --expose-paths           tell clients where things are kept
  --json                   print {"url": …} on stdout once it listens
  --realm ID               work on this realm; without one, on ${defaultRealm}
  --isolated               work on a fresh realm of its own
  --instance ID            a name for this server, told to clients that ask
  --state-root PATH        where realms are kept
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  --realm-backend KIND     jsonl or sqlite; accepted, and our own backend is used
  -V, --version            show the version
  -h, --help               show this help

Examples:
  ${command}
  ${command} --port 0 --json
  RKAT_TOKEN=$(openssl rand -hex 32) ${command} --host 0.0.0.0
  curl http://127.0.0.1:8080/sessions -H "Content-Type: application/json" -d '{"prompt":"Hello!"}'
  curl -N http://127.0.0.1:8080/sessions/SESSION_ID/events -H "Last-Event-ID: 0"
`;
}

/** Reads the flags; throws INVALID_PARAMS for one that is unknown or wrong. */
export function parseRestFlags(args: readonly string[]): RestFlags {
  const values = parse(args);
  const backend = backendNote(values["realm-backend"]);
  return {
    host: values.host === undefined ? undefined : hostOf(values.host),
    port: values.port === undefined ? undefined : portOf(values.port),
    token: values.token,
    allowedHosts: values["allowed-host"] ?? [],
    exposePaths: values["expose-paths"] === true,
    json: values.json === true,
    realm: values.realm,
    isolated: values.isolated,
    instance: values.instance,
    stateRoot: values["state-root"],
    contextRoot: values["context-root"],
    userConfigRoot: values["user-config-root"],
    wants: values.help === true ? "help" : values.version === true ? "version" : "serve",
    notes: backend === undefined ? [] : [backend],
  };
}

function hostOf(address: string): string {
  // An empty one would mean every address of the machine.
  if (address.trim() !== "") return address.trim();
  throw new RuntimeError("INVALID_PARAMS", "--host: write an address or a name of this machine");
}

const PORT_MAX = 65_535;

function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= PORT_MAX) return Number(text);
  throw new RuntimeError("INVALID_PARAMS", `--port ${text}: write a number from 0 to ${PORT_MAX}`);
}

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const OPTIONS = {
  host: text,
  port: text,
  token: text,
  "allowed-host": { type: "string", multiple: true },
  "expose-paths": flag,
  json: flag,
  realm: text,
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
