import {
  flag,
  HTTP_OPTIONS,
  type HttpFlags,
  httpFlags,
  invalidFlag,
  portOf,
  readFlags,
  SERVER_OPTIONS,
  type ServerFlags,
  serverFlags,
  text,
} from "../wire/flags.ts";
import { urlHost } from "../wire/guard.ts";
import { type ServerIo, type ServerParts, serveUntil, startServer } from "../wire/start.ts";
import { restUsage } from "../wire/usage.ts";
import { openRestServer } from "./serve.ts";

export interface RestIo extends ServerIo {
  /** The name it was called by. */
  readonly command: string;
  /** Whose realm is the default: the project's for a command, a fresh one for a server of its own. */
  readonly purpose: "cli" | "server";
}

/** Serves HTTP until it is interrupted, and returns the exit code. It does not throw. */
export function startRest(io: RestIo, parts: ServerParts): Promise<number> {
  const { command, purpose, version } = io;
  return startServer(io, parts, {
    command,
    usage: restUsage(command, purpose),
    parseFlags: parseRestFlags,
    realmFor: async ({ realm }) => ({ realm, purpose }),
    mayKeepInProject: true,
    tellsPaths: ({ exposePaths }) => exposePaths,
    http: ({ host, port, ...flags }, { rest }) => ({ ...flags, host: host ?? rest.host, port: port ?? rest.port }),
    closeMsMax: undefined,
    serve: async (serving) => {
      const { http, flags } = serving;
      if (http === undefined) throw new Error("this server listens or is none");
      const server = await openRestServer({ ...serving, ...http, version, console: flags.console });
      const greet = (url: string): void => {
        serving.log(greeting(url, http.token !== undefined));
        if (flags.json) io.stdout.write(`${JSON.stringify({ url })}\n`);
      };
      await serveUntil(io.interrupt, { ...serving, http }, { server, greet });
    },
  });
}

interface RestFlags extends ServerFlags, HttpFlags {
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly exposePaths: boolean;
  readonly json: boolean;
  readonly console: boolean;
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
    console: values["no-console"] !== true,
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
  "no-console": flag,
} as const;

const WILDCARD = /\/\/(?:0\.0\.0\.0|\[::\]):/;

function greeting(url: string, hasToken: boolean): string {
  const near = url.replace(WILDCARD, `//${urlHost("127.0.0.1")}:`);
  const bearer = hasToken ? ' -H "Authorization: Bearer $RKAT_TOKEN"' : "";
  const body = `-H "Content-Type: application/json" -d '{"prompt":"Hello!","model":"offline"}'`;
  return `listening at ${url} (docs at ${near}/docs); try\n  curl ${near}/sessions${bearer} ${body}`;
}
