import { resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import type { loadConfig } from "../../config/load-config.ts";
import { asRuntimeError, ERRORS } from "../../contract/error.ts";
import type { Runtime } from "../../runtime.ts";
import type { OpenOptions } from "../../runtime-on-disk.ts";
import { createSystemClock } from "../../service/system-clock.ts";
import { readIfThere } from "../cli/configuration.ts";
import { withoutControls } from "../cli/plain-text.ts";
import { flushed, within } from "../wire/close-within.ts";
import type { ServerFlags } from "../wire/flags.ts";
import { configuredRealm, resolveRealm } from "../wire/realm.ts";
import { parseRpcFlags, USAGE } from "./flags.ts";
import { serveRpc } from "./serve.ts";

/** The process as the server sees it: only a door touches the real one. */
export interface RpcIo {
  /** What was typed after the command's name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly version: string;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: { write(text: string): void };
  /** Aborts when somebody wants an end; its reason is the exit code to end with. */
  readonly interrupt: AbortSignal;
}

/** What a door composes for the server. */
export interface RpcParts {
  readonly loadConfig: typeof loadConfig;
  openRuntime(options: OpenOptions): Promise<Runtime>;
}

/** How long a runtime may take to close; with the turns before it, less than the 5 s a client waits before it kills. */
const CLOSE_MS_MAX = 1_000;

/** Serves JSON-RPC on stdin and stdout until they end, and returns the exit code. It does not throw. */
export async function startRpc(io: RpcIo, parts: RpcParts): Promise<number> {
  const log = (sentence: string): void => io.stderr.write(`rkat-rpc: ${withoutControls(sentence)}\n`);
  try {
    const flags = parseRpcFlags(io.args);
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

async function serve(
  io: RpcIo,
  parts: RpcParts,
  how: { readonly flags: ServerFlags; readonly log: (sentence: string) => void },
): Promise<void> {
  const { flags, log } = how;
  const { env, cwd, home } = io;
  const clock = createSystemClock();
  const contextRoot = resolve(cwd, flags.contextRoot ?? "");
  const configHome = resolve(cwd, flags.userConfigRoot ?? home);
  const places = { cwd, home, dataHome: env.XDG_DATA_HOME, newId: clock.newId, purpose: "server" as const };
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
  const runtime = await parts.openRuntime({
    config,
    mcpServers,
    compose,
    trust,
    realm: configuredRealm(place, { instance: flags.instance, paths: true }),
    env,
    projectRoot: contextRoot,
    stateFolder,
    warn: log,
    // What agents' memories do is told in the same words everywhere.
    log: (line) => io.stderr.write(`${withoutControls(line)}\n`),
  });
  try {
    const host = { realm, instance: flags.instance, stateRoot: resolve(stateFolder, ".."), contextRoot };
    const streams = { input: io.stdin, output: io.stdout, signal: io.interrupt };
    await serveRpc({ ...streams, log, runtime, host, clock });
  } finally {
    await within(clock, CLOSE_MS_MAX, [runtime.close(), flushed(io.stdout)]);
  }
}
