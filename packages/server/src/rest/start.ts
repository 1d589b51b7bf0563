import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { invalid } from "@rkat/core/contract/error";
import {
  type HttpFlags,
  httpFlags,
  portOf,
  readFlags,
  readWords,
  type ServerFlags,
  serverFlags,
} from "../http/flags.ts";
import { urlHost } from "../http/guard.ts";
import type { OpenMount } from "../http/router.ts";
import { CONSOLE_FLAGS, CONSOLE_HELP, REST_FLAGS, restHelp, SERVER_FLAGS, usageText } from "../http/server-help.ts";
import {
  type ServerIo,
  type ServerKind,
  type ServerParts,
  type Serving,
  serveUntil,
  startServer,
} from "../http/start.ts";
import { newSecret } from "../http/token-files.ts";
import { openRestServer } from "./serve.ts";

export interface RestIo extends ServerIo {
  readonly command: string;
  /** Whose realm is the default: the project's for a command, a fresh one for a server of its own. */
  readonly purpose: "cli" | "server";
}

type Config = Serving<RestFlags>["config"];
type MountSettings = Pick<Config, "openai"> & { readonly ui: Omit<Config["ui"], "tools"> & { tools: Preset } };
type Preset = Config["ui"]["tools"] | undefined;

/** What a door composes for this server: also what is served beside it. */
export interface RestParts extends ServerParts {
  loadMounts?(settings: MountSettings, host: string): Promise<readonly OpenMount[]>;
}

/** Serves HTTP until it is interrupted, and returns the exit code. It does not throw. */
export function startRest(io: RestIo, parts: RestParts): Promise<number> {
  const { command, purpose, version } = io;
  return startServer(io, parts, {
    ...kindOf(command, purpose),
    usage: usageText(command, restHelp(command, purpose)),
    parseFlags: parseRestFlags,
    http: ({ host, port, ...flags }, { rest }) => ({ ...flags, host: host ?? rest.host, port: port ?? rest.port }),
    serve: (serving) =>
      serveHttp({ ...io, ...parts }, version, serving, (url, token) => {
        const { madeToken } = serving.http ?? {};
        serving.log(greeting(url, token !== undefined, serving.flags));
        // On stdout, since logs are kept.
        if (serving.flags.json) io.stdout.write(`${JSON.stringify({ url, token: madeToken })}\n`);
        else if (madeToken !== undefined) io.stdout.write(`RKAT_TOKEN=${madeToken} (made for this run)\n`);
      }),
  });
}

/**
 * The server of `rkat console`: on a free port, without a log, its address on stdout. Unless it is given a token it
 * makes one for its run. The token may also answer approvals; other processes of the machine do not have it.
 */
export function startConsole(
  io: ServerIo,
  parts: ServerParts,
  openBrowser: ((url: string) => void) | undefined,
): Promise<number> {
  const command = "rkat console";
  return startServer<ConsoleFlags>(io, parts, {
    ...kindOf(command, "cli"),
    usage: usageText(command, CONSOLE_HELP),
    parseFlags: parseConsoleFlags,
    http: ({ host = "127.0.0.1", port = 0, logForm = "off", token = io.env.RKAT_TOKEN ?? newSecret(), ...flags }) => ({
      ...flags,
      host,
      port,
      logForm,
      token,
    }),
    serve: (serving) =>
      serveHttp(io, io.version, serving, (url, token) => {
        const address = pageAddress(url, token);
        io.stdout.write(`${serving.flags.json ? JSON.stringify({ url: address }) : address}\n`);
        if (serving.flags.open) openBrowser?.(address);
      }),
  });
}

type Shared = "command" | "realmFor" | "mayKeepInProject" | "showsPaths" | "closeMsMax" | "app";

function kindOf(command: string, purpose: RestIo["purpose"]): Pick<ServerKind<RestFlags>, Shared> {
  return {
    command,
    realmFor: async ({ realm }) => ({ realm, purpose }),
    mayKeepInProject: true,
    showsPaths: ({ exposePaths }) => exposePaths,
    app: ({ app: path, watch: watches }) => (path === undefined ? undefined : { path, watches }),
    closeMsMax: undefined,
  };
}

async function serveHttp<F extends RestFlags>(
  { interrupt, loadMounts }: ServerIo & Pick<RestParts, "loadMounts">,
  version: string,
  serving: Serving<F>,
  greet: (url: string, token: string | undefined) => void,
): Promise<void> {
  const { http, flags } = serving;
  if (http === undefined) throw new Error("a REST server needs an address");
  const { openai, ui } = serving.config;
  // A runtime of the user's may lack what ours has, so its chats have the tools that it gives them.
  const tools = flags.app === undefined ? ui.tools : undefined;
  const mounts = (await loadMounts?.({ openai, ui: { ...ui, tools } }, http.host)) ?? [];
  const server = await openRestServer({ ...serving, ...http, version, console: flags.console, mounts });
  await serveUntil(interrupt, { ...serving, http }, { server, greet: (url) => greet(url, http.token) });
}

interface RestFlags extends ServerFlags, HttpFlags {
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly exposePaths: boolean;
  readonly json: boolean;
  readonly console: boolean;
  readonly app: string | undefined;
  readonly watch: boolean;
}

/** Reads the flags; throws INVALID_PARAMS for one that is unknown or wrong. */
export function parseRestFlags(args: readonly string[]): RestFlags {
  return restFlags(readFlags(args, { ...REST_FLAGS, ...SERVER_FLAGS }));
}

function restFlags(values: ReturnType<typeof readFlags<typeof REST_FLAGS & typeof SERVER_FLAGS>>): RestFlags {
  if (values.watch === true && values.app === undefined) throw invalid("--watch is for a module; add --app FILE");
  if (values.app !== undefined && values.tools !== undefined) {
    throw invalid("--tools: the module of --app decides which tools its sessions have; leave one of them out");
  }
  if (values.app !== undefined && values.store !== undefined) {
    throw invalid(`${values.store}: the module of --app decides where its sessions are kept; leave one of them out`);
  }
  return {
    ...serverFlags(values),
    app: values.app,
    watch: values.watch === true,
    host: values.host === undefined ? undefined : hostOf(values.host),
    port: values.port === undefined ? undefined : portOf(values.port),
    ...httpFlags(values),
    exposePaths: values["expose-paths"] === true,
    json: values.json === true,
    console: values["no-console"] !== true,
  };
}

interface ConsoleFlags extends RestFlags {
  readonly open: boolean;
}

function parseConsoleFlags(args: readonly string[]): ConsoleFlags {
  const { values, positionals } = readWords(args, { ...CONSOLE_FLAGS, ...SERVER_FLAGS });
  const [place, more] = [...positionals, ...(values.store === undefined ? [] : [values.store])];
  if (more !== undefined) throw invalid(`${place} and ${more}: the console opens one place; name one of them`);
  return {
    ...restFlags({ ...values, ...(place === undefined ? {} : { store: place }) }),
    open: values["no-open"] !== true,
  };
}

function hostOf(address: string): string {
  // An empty one would mean every address of the machine.
  if (address.trim() !== "") return address.trim();
  throw invalid("--host: write an address or a name of this machine");
}

const WILDCARD = /\/\/(?:0\.0\.0\.0|\[::\]):/;

/** The address as it is reached from this machine. */
function nearby(url: string): string {
  return url.replace(WILDCARD, `//${urlHost("127.0.0.1")}:`);
}

/** Behind the number sign, which no browser sends to any server, and which the page takes out of the address. */
function pageAddress(url: string, token: string | undefined): string {
  return `${nearby(url)}/${token === undefined ? "" : `#token=${encodeURIComponent(token)}`}`;
}

function greeting(url: string, hasToken: boolean, flags: Pick<RestFlags, "console" | "app">): string {
  const near = nearby(url);
  const bearer = hasToken ? ' -H "Authorization: Bearer $RKAT_TOKEN"' : "";
  // The module of --app decides which models there are.
  const model = flags.app === undefined ? ',"model":"offline"' : "";
  const body = `-H "Content-Type: application/json" -d '{"prompt":"Hello!"${model}}'`;
  const page = flags.console ? `console at ${near}/` : `docs at ${near}/docs`;
  return `listening at ${url} (${page}); try\n  curl ${near}/sessions${bearer} ${body}`;
}

/** The parts of the machine that determine whether a browser can be opened. */
interface Seat {
  readonly platform: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isTerminal: boolean;
}

type Words = readonly [command: string, ...args: string[]];

/** The command that opens an address; undefined without a terminal or a display. */
export function browserWords({ platform, env, isTerminal }: Seat): Words | undefined {
  if (!isTerminal) return undefined;
  if (platform === "darwin") return ["open"];
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  const hasDisplay = [env.DISPLAY, env.WAYLAND_DISPLAY].some((display) => display !== undefined && display !== "");
  return hasDisplay ? ["xdg-open"] : undefined;
}

const OPENED_MS = 60_000;

/** A file that only this user can read and that leads to the address: other users can read a command's arguments. */
function writeForward(url: string): { readonly url: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), "rkat-open-"));
  const path = join(folder, "open.html");
  const page = `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=${url}">`;
  writeFileSync(path, page, { mode: 0o600 });
  return { url: pathToFileURL(path).href, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Opens addresses in the user's browser; one that cannot be opened was printed before. */
export function createBrowserOpener(seat: Seat): ((url: string) => void) | undefined {
  const words = browserWords(seat);
  if (words === undefined) return undefined;
  const [command, ...args] = words;
  return (url) => {
    const forward = writeForward(url);
    const child = spawn(command, [...args, forward.url], { stdio: "ignore", detached: true, env: { ...seat.env } });
    child.on("error", () => {});
    child.unref();
    setTimeout(forward.remove, OPENED_MS).unref();
  };
}
