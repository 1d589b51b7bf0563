import { resolve } from "node:path";
import { asRuntimeError, ERRORS } from "../../contract/error.ts";
import { createSystemClock } from "../../service/system-clock.ts";
import { readIfThere } from "../cli/configuration.ts";
import { keepsSomething, makeStateFolder } from "../cli/open-runtime.ts";
import { withoutControls } from "../cli/plain-text.ts";
import type { RpcIo, RpcParts } from "../rpc/start.ts";
import { tokenFor, urlHost } from "../wire/guard.ts";
import { ceilingNotes } from "../wire/http-flags.ts";
import { configuredRealm, resolveRealm } from "../wire/realm.ts";
import { parseRestFlags, type RestFlags, usage } from "./flags.ts";

import { openRestServer } from "./serve.ts";

/** The process as the server sees it: only a door touches the real one. */
export interface RestIo extends Omit<RpcIo, "stdin" | "stdout"> {
  readonly stdout: { write(text: string): void };
  /** The name it was called by. */
  readonly command: string;
  /** Whose realm is the default: the project's for a command, a fresh one for a server of its own. */
  readonly purpose: "cli" | "server";
}

const DEFAULT_REALMS = { cli: "that of the project in the current folder", server: "a fresh realm of its own" };

/** Serves HTTP until it is interrupted, and returns the exit code. It does not throw. */
export async function startRest(io: RestIo, parts: RpcParts): Promise<number> {
  const log = (sentence: string): void => io.stderr.write(`${io.command}: ${withoutControls(sentence)}\n`);
  try {
    const flags = parseRestFlags(io.args);
    for (const note of flags.notes) log(note);
    if (flags.wants === "serve") await serve(io, parts, { flags, log });
    else io.stdout.write(flags.wants === "help" ? usage(io.command, DEFAULT_REALMS[io.purpose]) : `${io.version}\n`);
    return typeof io.interrupt.reason === "number" ? io.interrupt.reason : 0;
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    log(error.message);
    return ERRORS[error.code].exit;
  }
}

async function serve(
  io: RestIo,
  parts: RpcParts,
  how: { readonly flags: RestFlags; readonly log: (sentence: string) => void },
): Promise<void> {
  const { flags, log } = how;
  const { env, cwd, home, version, purpose } = io;
  const clock = createSystemClock();
  const contextRoot = resolve(cwd, flags.contextRoot ?? "");
  const configHome = resolve(cwd, flags.userConfigRoot ?? home);
  const places = { cwd, home, dataHome: env.XDG_DATA_HOME, newId: clock.newId, purpose };
  const place = resolveRealm({ ...flags, ...places });
  const { realm, stateFolder } = place;
  const layers = {
    cwd: contextRoot,
    home: configHome,
    env,
    readFile: readIfThere,
    stateFolder,
    isTrusted: flags.trust,
  };
  const { config, compose, mcpServers, trust, leftOut } = await parts.loadConfig(layers);
  if (leftOut !== undefined) log(leftOut);
  const { host = config.rest.host, port = config.rest.port, allowedHosts, allowedOrigins } = flags;
  const token = tokenFor(host, flags.token ?? env.RKAT_TOKEN);
  if (keepsSomething(config)) {
    trust.requireState(contextRoot, stateFolder);
    await makeStateFolder(stateFolder);
  }
  const runtime = await parts.openRuntime({
    config,
    mcpServers,
    compose,
    trust,
    ceiling: flags.ceiling,
    realm: configuredRealm(place, { instance: flags.instance, paths: flags.exposePaths }),
    env,
    projectRoot: contextRoot,
    stateFolder,
    secrets: token === undefined ? [] : [token],
    warn: log,
    // What agents' memories do is told in the same words everywhere.
    log: (line) => io.stderr.write(`${withoutControls(line)}\n`),
  });
  try {
    const paths = flags.exposePaths ? { stateRoot: resolve(stateFolder, ".."), contextRoot } : {};
    const about = { realm, instance: flags.instance, ...paths };
    const admission = { host, allowedHosts, allowedOrigins, token };
    const server = await openRestServer({ ...admission, port, runtime, about, version, clock, log });
    try {
      for (const note of ceilingNotes(flags.ceiling, config.tools)) log(note);
      greet(io, server.url, { hasToken: token !== undefined, json: flags.json });
      await interrupted(io.interrupt);
      await server.drain(flags.graceMs);
      await runtime.close();
    } finally {
      await server.close();
    }
  } finally {
    await runtime.close();
  }
}

const WILDCARD = /\/\/(?:0\.0\.0\.0|\[::\]):/;

function greet(io: RestIo, url: string, { hasToken, json }: { hasToken: boolean; json: boolean }): void {
  const near = url.replace(WILDCARD, `//${urlHost("127.0.0.1")}:`);
  const bearer = hasToken ? ' -H "Authorization: Bearer $RKAT_TOKEN"' : "";
  const body = `-H "Content-Type: application/json" -d '{"prompt":"Hello!","model":"offline"}'`;
  io.stderr.write(
    `${io.command}: listening at ${url} (docs at ${near}/docs); try\n  curl ${near}/sessions${bearer} ${body}\n`,
  );
  if (json) io.stdout.write(`${JSON.stringify({ url })}\n`);
}

function interrupted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) return done();
    signal.addEventListener("abort", () => done(), { once: true });
  });
}
