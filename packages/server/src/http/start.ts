import { resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import type { Config } from "@rkat/core/config/config-schema";
import { asRuntimeError, ERRORS } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import type { Runtime, RuntimeLink } from "@rkat/core/runtime/runtime-calls";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import type { loadConfig } from "@rkat/node/config/load-config";
import {
  backendOf,
  configuredRealm,
  keepsSomething,
  makeStateFolder,
  type RealmRequest,
  readIfThere,
  realmNameIn,
  resolveRealm,
} from "@rkat/node/config/realm";
import type { OpenOptions } from "@rkat/node/open-runtime";
import { isLoopback, lackOf } from "./callers.ts";
import { within } from "./calls.ts";
import { ceilingNotes, type HttpFlags, logFormOf, type ServerFlags } from "./flags.ts";
import { type Admission, tokenFor } from "./guard.ts";
import type { Host } from "./host.ts";
import { createJournal, type Journal, type LineStream, type LogForm } from "./journal.ts";
import { createOperator, type Operator, vitalsOf } from "./operator.ts";
import { newSecret, type OpenDatabaseTokens, openTokens } from "./token-files.ts";

/** The process as a server sees it; entry points pass the real one. */
export interface ServerIo {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  readonly version: string;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: LineStream;
  /** Aborts when the server is told to stop; its reason is the exit code. */
  readonly interrupt: AbortSignal;
}

/** The parts that an entry point composes for a server. */
export interface ServerParts {
  readonly loadConfig: typeof loadConfig;
  openRuntime(options: OpenOptions): Promise<Runtime>;
  readonly openDatabaseTokens: OpenDatabaseTokens;
  /** Opens the runtime of a module of the user's. */
  openApp?(app: App & { readonly log: (sentence: string) => void }): Promise<RuntimeLink>;
}

interface App {
  readonly path: string;
  /** Whether it is loaded again when its files change. */
  readonly watches: boolean;
}

/** Where and to whom a server over HTTP listens. */
export type HttpPlace = HttpFlags & { readonly host: string; readonly port: number };

export interface ServerKind<F extends ServerFlags> {
  /** Its command name, which prefixes its log lines. */
  readonly command: string;
  readonly usage: string;
  /** Throws INVALID_PARAMS for a flag that is unknown or wrong. */
  parseFlags(args: readonly string[]): F;
  realmFor(flags: F): Promise<Pick<RealmRequest, "purpose" | "realm">>;
  /** Whether its realm may lie in a project, which must then be trusted and keep it out of its history. */
  readonly mayKeepInProject: boolean;
  showsPaths(flags: F): boolean;
  /** Undefined for a server on stdin and stdout. */
  http(flags: F, config: Config): HttpPlace | undefined;
  /** The user's module whose runtime is served instead of the folder's. */
  app?(flags: F): App | undefined;
  /** How long its runtime may take to close, where clients kill what takes longer. */
  readonly closeMsMax: number | undefined;
  serve(serving: Serving<F>): Promise<void>;
}

export interface Serving<F extends ServerFlags> {
  readonly flags: F;
  readonly config: Config;
  readonly runtime: RuntimeLink;
  readonly about: Host;
  readonly http:
    | (HttpPlace &
        Admission & {
          readonly operator: Operator;
          readonly addresses: OwnAddresses;
          /** Made for this run, since there was none. */
          readonly madeToken: string | undefined;
        })
    | undefined;
  readonly clock: Clock;
  /** Logs a sentence about failures that no client can be told. */
  readonly log: (sentence: string) => void;
  /** Closes the runtime; calling it twice does no harm. */
  close(): Promise<void>;
}

/** Runs a server to its end and returns the exit code. It does not throw. */
export async function startServer<F extends ServerFlags>(
  io: ServerIo,
  parts: ServerParts,
  kind: ServerKind<F>,
): Promise<number> {
  const { command } = kind;
  const clock = createSystemClock();
  const openJournal = (form: LogForm): Journal => createJournal({ stream: io.stderr, form, command, now: clock.now });
  // Plain sentences until the form of the log is known.
  let journal = openJournal("off");
  const useLog = (form: LogForm): Journal => {
    journal = openJournal(form);
    return journal;
  };
  try {
    const flags = kind.parseFlags(io.args);
    if (flags.wants === "serve") await serveFolder(io, parts, { kind, flags, clock, useLog });
    else io.stdout.write(flags.wants === "help" ? kind.usage : `${io.version}\n`);
    return typeof io.interrupt.reason === "number" ? io.interrupt.reason : 0;
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    journal.say(error.message, "error");
    return ERRORS[error.code].exit;
  }
}

/** A reader that has stopped reading is not waited for longer. */
const FLUSH_MS_MAX = 2_000;

interface How<F extends ServerFlags> extends Pick<Serving<F>, "flags" | "clock"> {
  readonly kind: ServerKind<F>;
  /** Writes lines in this form from now on. */
  useLog(form: LogForm): Journal;
}

/** Servers over HTTP log requests by default. */
const LOG_DEFAULT: LogForm = "text";

/** Opens the runtime of a folder, serves it and closes it; throws where it cannot be opened. */
export async function serveFolder<F extends ServerFlags>(io: ServerIo, parts: ServerParts, how: How<F>): Promise<void> {
  const { kind, flags, clock } = how;
  const { env, cwd, home } = io;
  const projectRoot = resolve(cwd, flags.contextRoot ?? "");
  const asked = { ...flags, ...(await kind.realmFor(flags)) };
  const request = { ...asked, cwd, home, dataHome: env.XDG_DATA_HOME, newId: clock.newId };
  const isChosen = [flags.realm, flags.store, flags.isolated || undefined].some((flag) => flag !== undefined);
  const asFolder = { ...resolveRealm(request), isChosen };
  const { config, compose, mcpServers, subAgents, skills, agentsMd, trust, ...found } = await parts.loadConfig({
    cwd: projectRoot,
    home: resolve(cwd, flags.userConfigRoot ?? home),
    env,
    readFile: readIfThere,
    stateFolder: asFolder.stateFolder,
    storeUrl: asFolder.storeUrl,
    isTrusted: flags.trust,
    agentsMd: flags.agentsMd,
  });
  const realm = realmNameIn(asFolder, config.store);
  // What a server keeps beside a database is there again at its next start, so its folder has the realm's name.
  const isFresh = asked.purpose === "server" && asked.realm === undefined && !isChosen;
  const place = isFresh && config.store.url !== undefined ? resolveRealm({ ...request, realm }) : asFolder;
  const { stateFolder } = place;
  const given = kind.http(flags, config);
  const journal = how.useLog(given === undefined ? "off" : (given.logForm ?? formIn(env.RKAT_LOG)));
  const log = (sentence: string): void => journal.say(sentence);
  const warn = (sentence: string): void => journal.say(sentence, "warn");
  for (const note of flags.notes) log(note);
  if (found.leftOut !== undefined) warn(found.leftOut);
  for (const sentence of [...found.problems, ...found.advice]) warn(sentence);
  const keeps = keepsSomething(config);
  const app = kind.app?.(flags);
  const tokens = given && (await openTokens(stateFolder, { config, realm, warn }, parts.openDatabaseTokens));
  const hasTokens = (tokens?.read() ?? []).length > 0;
  // What a module composed has no ceiling, so it is not open even to this machine alone.
  const madeToken = app === undefined || hasTokens || (given?.token ?? env.RKAT_TOKEN) ? undefined : newSecret();
  const http = given && {
    ...given,
    madeToken,
    token: tokenFor(given.host, madeToken ?? given.token ?? env.RKAT_TOKEN, hasTokens),
    tokens,
    addresses: createOwnAddresses(given),
    operator: createOperator({
      journal,
      clock,
      version: io.version,
      stateFolder: keeps && app === undefined ? stateFolder : undefined,
      hasDatabase: app !== undefined || config.store.url !== undefined,
    }),
  };
  if (kind.mayKeepInProject && keeps && app === undefined) {
    trust.requireState(projectRoot, stateFolder);
    await makeStateFolder(stateFolder);
  }
  const { instance } = flags;
  const paths = kind.showsPaths(flags);
  const running = tokens && {
    until: io.interrupt,
    lacks: (caller: Parameters<typeof lackOf>[0]) => lackOf(caller, tokens, clock.now()),
  };
  const openOwn = (): Promise<RuntimeLink> =>
    parts.openRuntime({
      config,
      compose,
      mcpServers,
      subAgents,
      skills,
      agentsMd,
      trust,
      ...(http === undefined
        ? {}
        : { ceiling: http.ceiling, observer: http.operator, isOwnAddress: http.addresses.isOwn }),
      secrets: http?.token === undefined ? [] : [http.token],
      realm: configuredRealm(asFolder, config.store, { instance, paths }),
      env,
      projectRoot,
      stateFolder,
      warn,
      // A server on stdin ends with its client, and so do its turns.
      resumeTurns: running !== undefined && config.turns.resume && running,
      runSchedules: running !== undefined && config.turns.schedules && running,
      // What agents' memories do is told in the same words everywhere.
      log: journal.pass,
    });
  const openOther = async ({ path, watches }: App): Promise<RuntimeLink> => {
    if (parts.openApp === undefined) throw new Error("a server that serves modules needs openApp");
    const opened = await parts.openApp({ path: resolve(cwd, path), watches, log });
    http?.operator.attach(vitalsOf(opened));
    return opened;
  };
  const runtime = await (app === undefined ? openOwn() : openOther(app));
  const close = async (): Promise<void> => {
    const closed = Promise.all([runtime.close(), within(clock, FLUSH_MS_MAX, flushed(io.stdout))]);
    await (kind.closeMsMax === undefined ? closed : within(clock, kind.closeMsMax, closed));
    await tokens?.close();
  };
  const reported = paths ? { stateRoot: resolve(stateFolder, ".."), contextRoot: projectRoot } : {};
  try {
    const about = { realm, backend: backendOf(config.store), instance, ...reported };
    await kind.serve({ flags, config, runtime, about, http, clock, log, close });
  } finally {
    await close();
  }
}

function formIn(given: string | undefined): LogForm {
  return given === undefined || given === "" ? LOG_DEFAULT : logFormOf("RKAT_LOG", given);
}

function flushed(output: Writable): Promise<void> {
  if (output.destroyed) return Promise.resolve();
  return new Promise((done) => output.write("", () => done()));
}

interface Listening {
  readonly url: string;
  /** Begins no more turns and waits for those that run, for as long as `graceMs`; then it takes no more requests. */
  drain(graceMs: number): Promise<void>;
  /** Ends every connection; calling it twice does no harm. */
  close(): Promise<void>;
}

/** Listens until it is interrupted; then turns may end, the runtime closes, and what they said last is sent. */
export async function serveUntil<F extends ServerFlags>(
  interrupt: AbortSignal,
  { http, config, log, close }: Serving<F> & { readonly http: HttpPlace & { readonly addresses: OwnAddresses } },
  { server, greet }: { readonly server: Listening; readonly greet: (url: string) => void },
): Promise<void> {
  try {
    for (const note of ceilingNotes(http.ceiling, config.tools)) log(note);
    http.addresses.listensAt(server.url);
    greet(server.url);
    await new Promise<void>((done) => {
      interrupt.addEventListener("abort", () => done(), { once: true });
      if (interrupt.aborted) done();
    });
    await server.drain(http.graceMs);
    await close();
  } finally {
    await server.close();
  }
}

interface OwnAddresses {
  listensAt(url: string): void;
  isOwn(url: string): boolean;
}

const EVERYWHERE = ["0.0.0.0", "::"];

export function createOwnAddresses({ host, allowedHosts }: Pick<Admission, "host" | "allowedHosts">): OwnAddresses {
  let port: string | undefined;
  const names = new Set([host, ...allowedHosts].map((name) => bare(name)));
  const isNear = isLoopback(host) || EVERYWHERE.includes(bare(host));
  return {
    listensAt: (url) => {
      port = portOf(new URL(url));
    },
    isOwn: (url) => {
      if (port === undefined || !URL.canParse(url)) return false;
      const asked = new URL(url);
      const name = bare(asked.hostname);
      // A proxy's name is valid with any port.
      if (allowedHosts.some((one) => bare(one) === name)) return true;
      if (portOf(asked) !== port) return false;
      return names.has(name) || (isNear && (isLoopback(name) || EVERYWHERE.includes(name)));
    },
  };
}

function bare(name: string): string {
  return name
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/:\d+$/, (port) => (name.split(":").length > 2 ? port : ""));
}

function portOf({ port, protocol }: URL): string {
  return port === "" ? (protocol === "https:" ? "443" : "80") : port;
}
