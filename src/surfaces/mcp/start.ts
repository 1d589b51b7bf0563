import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { parse, resolve } from "node:path";
import { asRuntimeError, ERRORS } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import { createSystemClock } from "../../service/system-clock.ts";
import { readIfThere } from "../cli/configuration.ts";
import { keepsSomething, makeStateFolder } from "../cli/open-runtime.ts";
import { withoutControls } from "../cli/plain-text.ts";
import type { RpcIo, RpcParts } from "../rpc/start.ts";
import { flushed, within } from "../wire/close-within.ts";
import { tokenFor } from "../wire/guard.ts";
import { ceilingNotes, type HttpFlags } from "../wire/http-flags.ts";
import { configuredRealm, type Realm, resolveRealm } from "../wire/realm.ts";
import { type RunningTurns, watchTurns } from "../wire/running-turns.ts";
import { type McpFlags, parseMcpFlags, USAGE } from "./flags.ts";
import type { HttpOptions } from "./serve-http.ts";
import { createServers, type McpServer } from "./server.ts";

/** The process as the server sees it, and what a door composes for it: the same for every server on stdin. */
export type McpIo = RpcIo;
export type McpParts = RpcParts;

/** How long turns may take to end and a runtime to close; less than clients wait before they kill. */
const CLOSE_MS_MAX = 2_000;

/** Serves MCP until the client or a signal ends it, and returns the exit code. It does not throw. */
export async function startMcp(io: McpIo, parts: McpParts): Promise<number> {
  const log = (sentence: string): void => io.stderr.write(`rkat-mcp: ${withoutControls(sentence)}\n`);
  try {
    const flags = parseMcpFlags(io.args);
    for (const note of flags.notes) log(note);
    if (flags.wants === "serve") await serve(io, parts, { flags, log });
    else io.stdout.write(flags.wants === "help" ? USAGE : `${io.version}\n`);
    return typeof io.interrupt.reason === "number" ? io.interrupt.reason : 0;
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    log(error.message);
    return ERRORS[error.code].exit;
  }
}

interface How {
  readonly flags: McpFlags;
  readonly log: (sentence: string) => void;
}

async function serve(io: McpIo, parts: McpParts, { flags, log }: How): Promise<void> {
  const { env, cwd, home, version } = io;
  const clock = createSystemClock();
  const projectRoot = resolve(cwd, flags.contextRoot ?? "");
  const configHome = resolve(cwd, flags.userConfigRoot ?? home);
  const place = await settleRealm(io, flags, clock.newId);
  const { realm, stateFolder } = place;
  const layers = {
    cwd: projectRoot,
    home: configHome,
    env,
    readFile: readIfThere,
    stateFolder,
    isTrusted: flags.trust,
  };
  const { config, compose, mcpServers, trust, leftOut } = await parts.loadConfig(layers);
  if (leftOut !== undefined) log(leftOut);
  if (keepsSomething(config)) {
    trust.requireState(projectRoot, stateFolder);
    await makeStateFolder(stateFolder);
  }
  const runtime = await parts.openRuntime({
    config,
    compose,
    mcpServers,
    trust,
    // On stdin and stdout it is asked by whoever started it.
    ...(flags.http === undefined ? {} : { ceiling: flags.http.ceiling }),
    realm: configuredRealm(place, { instance: flags.instance, paths: false }),
    env,
    projectRoot,
    stateFolder,
    warn: log,
    // What agents' memories do is told in the same words everywhere.
    log: (line) => io.stderr.write(`${withoutControls(line)}\n`),
  });
  try {
    const { memoryOnly, http } = flags;
    const parts = { realm, version, memoryOnly, clock };
    if (http === undefined) await speak(io, createServers({ ...parts, runtime }), clock);
    else {
      for (const note of ceilingNotes(http.ceiling, config.tools)) log(note);
      const turns = watchTurns(runtime.dispatch, { clock, log });
      const createServer = createServers({ ...parts, runtime: { ...runtime, dispatch: turns.dispatch } });
      await listen(io, { ...http, createServer, newId: clock.newId }, { turns, log });
    }
  } finally {
    await within(clock, CLOSE_MS_MAX, [runtime.close(), flushed(io.stdout)]);
  }
}

/**
 * A server works on the project it is started in, as a command does: what it remembers is there again at the next
 * start. Clients without a project start it in the root of the file system, where nothing can be kept; there it has a
 * realm of the user's own.
 */
async function settleRealm({ cwd, home, env }: McpIo, flags: McpFlags, newId: () => string): Promise<Realm> {
  const request = { ...flags, cwd, home, dataHome: env.XDG_DATA_HOME, newId };
  const isGiven = [flags.isolated, flags.stateRoot, flags.contextRoot].some((flag) => flag !== undefined);
  if (isGiven || (await canKeep(cwd))) return resolveRealm({ ...request, purpose: "cli" });
  return resolveRealm({ ...request, realm: flags.realm ?? "default", purpose: "server" });
}

async function canKeep(folder: string): Promise<boolean> {
  if (parse(folder).root === folder) return false;
  return access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
}

async function speak(io: McpIo, createServer: () => McpServer, clock: Clock): Promise<void> {
  const { serveStdio } = await import("./serve-stdio.ts");
  await serveStdio({ server: createServer(), input: io.stdin, output: io.stdout, clock, signal: io.interrupt });
}

async function listen(
  { env, interrupt }: McpIo,
  http: Omit<HttpOptions, "token"> & HttpFlags,
  { turns, log }: { readonly turns: RunningTurns; readonly log: (sentence: string) => void },
): Promise<void> {
  const { listenHttp } = await import("./serve-http.ts");
  const token = tokenFor(http.host, http.token ?? env.RKAT_TOKEN);
  const listener = await listenHttp({ ...http, token });
  log(`listening on ${listener.url}`);
  await new Promise<void>((resolve) => {
    interrupt.addEventListener("abort", () => resolve(), { once: true });
    if (interrupt.aborted) resolve();
  });
  listener.refuse();
  await turns.drain(http.graceMs);
  await listener.close();
}
