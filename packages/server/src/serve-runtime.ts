import { timingSafeEqual } from "node:crypto";
import { defaultConfig } from "@rkat/core/config/settings";
import { type Caller, Scope } from "@rkat/core/contract/caller";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { z } from "@rkat/core/contract/schema";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { ownerOf } from "./http/callers.ts";
import type { CallerRuntime } from "./http/calls.ts";
import { toRequest } from "./http/exchange.ts";
import { type Admission, originOf } from "./http/guard.ts";
import { packageVersion } from "./http/host.ts";
import { errorAnswer } from "./http/http-answer.ts";
import { createJournal } from "./http/journal.ts";
import { createOperator, vitalsOf } from "./http/operator.ts";
import { digestOf } from "./http/token-files.ts";
import { mountMcp } from "./mcp/mount.ts";
import { mountOpenAi, mountUi } from "./openai/mount.ts";
import { createRestHandler, openRestServer, type RestService } from "./rest/serve.ts";

/** Who asks, as `authorize` says it. */
export interface Grant {
  /** How logs and audits call the caller, such as the id of a user; its chats are its own. */
  readonly name: string;
  /** What it may do: `read`, `run`, `tools`, `approve`, `config`, `admin`. */
  readonly scopes: readonly Scope[];
  /** Only sessions with these labels exist for it, and its new sessions get them. */
  readonly labels?: Readonly<Record<string, string>>;
  /** US dollars that its calls may cost in a day, by UTC. */
  readonly maxCostPerDay?: number;
}

type Refused = undefined | null | false | "";

export interface ServeOptions {
  /** Identifies the caller of a request; a request for which it returns nothing is refused. */
  readonly authorize?: (request: Request) => Grant | Refused | Promise<Grant | Refused>;
  /** Without `authorize`, a request needs one of these as `Authorization: Bearer SECRET`. */
  readonly tokens?: readonly (Grant & { readonly secret: string })[];
  /** The names the application is reached by, besides those of this machine. */
  readonly allowedHosts?: readonly string[];
  /** The origins of pages elsewhere that may speak to it. */
  readonly allowedOrigins?: readonly string[];
  /** Whether the console is served; by default it is. */
  readonly console?: boolean;
  /** Receives one line per request, and one per change that is audited. */
  readonly log?: (line: string) => void;
}

export interface HandlerOptions extends ServeOptions {
  /** Where the application has it, such as `/api/agent`; by default at the root. */
  readonly basePath?: string;
}

export interface ListenOptions extends ServeOptions {
  /** The address to listen at; by default 127.0.0.1. */
  readonly host?: string;
  /** By default 8080; 0 takes any free one. */
  readonly port?: number;
  /** How long running turns may take to end when it closes; by default 30 seconds. */
  readonly graceMs?: number;
}

/** Answers the requests of an application's server. */
export interface Handler {
  (request: Request): Promise<Response>;
  /** Waits for running turns for as long as `graceMs`, then ends every stream; the runtime stays open. */
  close(graceMs?: number): Promise<void>;
}

export interface Served {
  readonly url: string;
  /** Waits for running turns, then ends every connection; the runtime stays open. */
  close(): Promise<void>;
}

const HOST = "127.0.0.1";
const PORT = 8_080;
const GRACE_MS = 30_000;

/** REST, `/v1`, `/ui/chat`, `/mcp` and the console of a runtime, as a function from `Request` to `Response`. */
export function createHandler(runtime: CallerRuntime, options: HandlerOptions = {}): Handler {
  const basePath = basePathOf(options.basePath ?? "");
  // Nothing is open inside of an application: its pages and its health are its own.
  const handler = createRestHandler({ ...serviceOf(runtime, options, HOST), basePath, isMounted: true });
  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith(`${basePath}/`)) return handler.fetch(request, pathname.slice(basePath.length));
    const message = `there is nothing at ${pathname}; what is served here begins with ${basePath}/`;
    const { status, type, text } = errorAnswer(new RuntimeError("METHOD_NOT_FOUND", message));
    return new Response(String(text), { status, headers: { "content-type": type } });
  };
  const close = closing((graceMs = GRACE_MS) => handler.drain(graceMs), handler.close);
  return Object.assign(answer, { close });
}

/** Listens in Node, with the limits of `rkat serve`. */
export async function serve(runtime: CallerRuntime, options: ListenOptions = {}): Promise<Served> {
  const { host = HOST, port = PORT, graceMs = GRACE_MS } = options;
  const server = await openRestServer({ ...serviceOf(runtime, options, host), port });
  return { url: server.url, close: closing(() => server.drain(graceMs), server.close) };
}

/** Drains and closes once, however often it is called. */
function closing(drain: (graceMs?: number) => Promise<void>, close: () => Promise<void>) {
  let closed: Promise<void> | undefined;
  return (graceMs?: number): Promise<void> => {
    closed ??= drain(graceMs).then(close);
    return closed;
  };
}

function serviceOf(runtime: CallerRuntime, options: ServeOptions, host: string): Omit<RestService, "port"> {
  if (typeof runtime?.dispatch !== "function") {
    throw invalid("the runtime: pass what createRuntime returns, or what openRuntime resolves to");
  }
  const { authorize, tokens = [], allowedHosts = [], allowedOrigins = [], log } = options;
  if (authorize !== undefined && options.tokens !== undefined) throw invalid("give authorize or tokens, not both");
  const clock = createSystemClock();
  const version = packageVersion();
  const stream = { write: (text: string) => log?.(text.trimEnd()) };
  const form = log === undefined ? "off" : "text";
  const journal = createJournal({ stream, form, command: "rkat", now: clock.now });
  const operator = createOperator({ journal, clock, version, stateFolder: undefined, hasDatabase: true });
  operator.attach(vitalsOf(runtime));
  const { openai, ui } = defaultConfig();
  return {
    runtime,
    about: { realm: "default" },
    host,
    allowedHosts,
    allowedOrigins: allowedOrigins.map(originOf),
    token: undefined,
    identify: identifyBy(authorize ?? acceptTokens(tokens), journal.say),
    operator,
    version,
    console: options.console ?? true,
    mounts: [(parts) => mountOpenAi(openai, parts), (parts) => mountUi({ ...ui, tools: undefined }, parts), mountMcp],
    clock,
    log: journal.say,
  };
}

function basePathOf(given: string): string {
  const path = given.endsWith("/") ? given.slice(0, -1) : given;
  if (path === "" || /^(?:\/[^/?#]+)+$/.test(path)) return path;
  throw invalid(`basePath ${given}: write a path such as /api/agent`);
}

type Authorize = NonNullable<ServeOptions["authorize"]>;

const SECRET_CHARS_MIN = 16;

function acceptTokens(tokens: NonNullable<ServeOptions["tokens"]>): Authorize {
  const known = tokens.map(({ secret, ...grant }, index) => {
    if (typeof secret === "string" && secret.length >= SECRET_CHARS_MIN && /^[\x21-\x7e]+$/.test(secret)) {
      return { grant, digest: digestOf(secret) };
    }
    throw invalid(`tokens[${index}].secret: write at least ${SECRET_CHARS_MIN} visible characters without blanks`);
  });
  return ({ headers }) => {
    const [, secret = ""] = /^bearer +(\S+)$/i.exec(headers.get("authorization") ?? "") ?? [];
    const given = digestOf(secret);
    // Every one is compared, and equal digests take as long as different ones.
    return known.filter(({ digest }) => timingSafeEqual(digest, given))[0]?.grant;
  };
}

/** Callers that are remembered: connections of MCP and kept answers belong to the same caller of later requests. */
const CALLERS_MAX = 4_096;

function identifyBy(authorize: Authorize, log: (sentence: string) => void): NonNullable<Admission["identify"]> {
  const known = new Map<string, Caller>();
  return async (asked) => {
    const granted = await Promise.resolve()
      .then(() => authorize(toRequest(asked)))
      .catch((thrown: unknown) => {
        log(`authorize failed: ${messageOf(thrown)}`);
        throw new RuntimeError("INTERNAL_ERROR", "the caller could not be identified");
      });
    if (!granted) throw new RuntimeError("UNAUTHORIZED", "this request has no caller; log in, or send a token");
    const caller = callerOf(granted);
    const key = JSON.stringify([ownerOf(caller), [...caller.scopes], caller.maxCostPerDay]);
    const same = known.get(key) ?? caller;
    known.delete(key);
    known.set(key, same);
    const [oldest] = known.keys();
    if (known.size > CALLERS_MAX && oldest !== undefined) known.delete(oldest);
    return same;
  };
}

const Granted = z.object({
  name: z.string().regex(/^[\x21-\x7e]{1,128}$/),
  scopes: z.array(Scope),
  labels: z.record(z.string(), z.string()).default({}),
  maxCostPerDay: z.number().nonnegative().optional(),
});

function callerOf(grant: Grant): Caller {
  const { success, data } = Granted.safeParse(grant);
  if (success) {
    const { scopes, maxCostPerDay, ...who } = data;
    return { ...who, scopes: new Set(scopes.sort()), ...(maxCostPerDay === undefined ? {} : { maxCostPerDay }) };
  }
  const shape = "{ name, scopes, labels }: a name without blanks, a list of scopes, and labels that are texts";
  throw new RuntimeError("INTERNAL_ERROR", `authorize must return nothing or ${shape}`);
}
