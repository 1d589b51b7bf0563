import type { McpServerConfig } from "../../ports/mcp-server.ts";
import { type Env, isSecret } from "../shell.ts";

type Texts = Readonly<Record<string, string>>;

const VARIABLE = /\$\{([A-Za-z_]\w*)\}/g;

/** What any program needs to start, to speak its user's language and to trust; none of it gives access to something. */
const PASSED_ON: readonly string[] = [
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"],
  ...["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"],
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"],
];

/** The texts with their variables filled in; throws, naming the first that is not set. */
function fillVariables(texts: Texts, env: Env): Texts {
  const fill = (text: string): string =>
    text.replaceAll(VARIABLE, (_, name: string) => {
      const value = env[name];
      if (value === undefined) throw new Error(`it needs the variable ${name}, which is not set`);
      return value;
    });
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, fill(text)]));
}

/** The headers with their variables filled in; throws, naming the first that no request could carry. */
export function fillHeaders(headers: Texts, env: Env): Texts {
  const filled = fillVariables(headers, env);
  const broken = Object.keys(filled).find((name) => !/^[\t\x20-\x7e\x80-\xff]*$/.test(filled[name] ?? ""));
  // Named without its value: whoever refuses it later would quote it.
  if (broken !== undefined)
    throw new Error(`its header ${broken} holds a character that a header cannot, such as a line break`);
  return filled;
}

/** What a server's program sees: a few harmless variables, and those it was given by name. */
export function serverEnv(given: Texts, env: Env): Texts {
  const passedOn = PASSED_ON.flatMap((name) => {
    const value = env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(passedOn), ...fillVariables(given, env) };
}

/** What servers are given that gives access to something: no log, event or error may show it. */
export function secretsOf(servers: readonly McpServerConfig[], env: Env): readonly string[] {
  return servers.flatMap((server) => {
    const texts: Texts = ("command" in server ? server.env : server.headers) ?? {};
    const written = Object.entries(texts).filter(([name, text]) => "url" in server || isSecret(name, text));
    const named = Object.values(texts).flatMap((text) => [...text.matchAll(VARIABLE)].map(([, name = ""]) => name));
    // Any program is given these: masking a home folder would hide every path of an output.
    const values = named.filter((name) => !PASSED_ON.includes(name)).map((name) => env[name]);
    return [...written.map(([, text]) => text), ...values].filter((value) => value !== undefined);
  });
}
