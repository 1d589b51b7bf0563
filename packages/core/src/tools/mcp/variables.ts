import type { McpLogins, McpServerConfig } from "../../ports/tool.ts";
import { type Env, isSecret } from "../shell.ts";

type Texts = Readonly<Record<string, string>>;

const VARIABLE = /\$\{([A-Za-z_]\w*)\}/g;

/** Variables that any program needs for start, locale and certificates; none grants access to anything. */
const PASSED_ON: readonly string[] = [
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"],
  ...["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"],
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"],
];

/** Fills in variables; throws, naming the first that is not set. */
function fillVariables(texts: Texts, env: Env): Texts {
  const fill = (text: string): string =>
    text.replaceAll(VARIABLE, (_, name: string) => {
      const value = env[name];
      if (value === undefined) throw new Error(`it needs the variable ${name}, which is not set`);
      return value;
    });
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, fill(text)]));
}

/** Fills in variables of headers; throws, naming the first invalid one. */
export function fillHeaders(headers: Texts, env: Env): Texts {
  const filled = fillVariables(headers, env);
  const broken = Object.keys(filled).find((name) => !/^[\t\x20-\x7e\x80-\xff]*$/.test(filled[name] ?? ""));
  // Named without its value: a later error would quote it.
  if (broken !== undefined)
    throw new Error(`its header ${broken} contains a character that is invalid in a header, such as a line break`);
  return filled;
}

/** The environment of a server's program: a few harmless variables, and those configured by name. */
export function serverEnv(given: Texts, env: Env): Texts {
  const passedOn = PASSED_ON.flatMap((name) => {
    const value = env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(passedOn), ...fillVariables(given, env) };
}

/** Secret values given to servers: no log, event or error may contain them. */
export function secretsOf(servers: readonly McpServerConfig[], env: Env): readonly string[] {
  return servers.flatMap((server) => {
    const texts: Texts = ("command" in server ? server.env : server.headers) ?? {};
    const written = Object.entries(texts).filter(([name, text]) => "url" in server || isSecret(name, text));
    const named = Object.values(texts).flatMap((text) => [...text.matchAll(VARIABLE)].map(([, name = ""]) => name));
    // These are harmless: masking a home folder would hide every path.
    const values = named.filter((name) => !PASSED_ON.includes(name)).map((name) => env[name]);
    return [...written.map(([, text]) => text), ...values].filter((value) => value !== undefined);
  });
}

/** The field that holds what gives access in plain text, which no log may keep; undefined if there is none. */
export function plainSecretOf(server: McpServerConfig): string | undefined {
  if ("url" in server && [...new URL(server.url).searchParams].some((pair) => isSecret(...pair))) return "url";
  const [field, texts] = "command" in server ? ["env", server.env] : ["headers", server.headers];
  const found = Object.entries(texts ?? {}).find(([name, text]) => {
    const rest = text.replaceAll(VARIABLE, "");
    // What stands before a variable of a header is its scheme, such as Bearer.
    return "url" in server ? rest === text || !/^(?:\w+ )?$/.test(rest) : isSecret(name, rest) && rest !== "";
  });
  return found === undefined ? undefined : `${field}.${found[0]}`;
}

/** The secrets of the login at a server, if one is kept. */
export function secretsOfLogin(server: McpServerConfig, logins: McpLogins | undefined): readonly string[] {
  const text = "url" in server ? logins?.read(server) : undefined;
  if (text === undefined) return [];
  const { tokens = {}, client = {} } = JSON.parse(text);
  const secrets: unknown[] = [tokens.access_token, tokens.refresh_token, client.client_secret];
  return secrets.filter((secret) => typeof secret === "string");
}
