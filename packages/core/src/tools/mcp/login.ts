import {
  type AuthProvider,
  auth,
  Client,
  extractWWWAuthenticateParams,
  type FetchLike,
  OAuthClientFlowError,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  OAuthError,
  SdkHttpError,
  SSEClientTransport,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import type { McpAddress, McpLogins } from "../../ports/tool.ts";
import type { Env } from "../shell.ts";
import { fillHeaders } from "./variables.ts";

/** What an authorization server gave, and which one it was. */
interface Login {
  client?: StoredOAuthClientInformation | undefined;
  tokens?: StoredOAuthTokens | undefined;
  discovery?: OAuthDiscoveryState | undefined;
}

function read(server: McpAddress, logins: McpLogins | undefined): Login {
  const text = logins?.read(server);
  return text === undefined ? {} : (JSON.parse(text) as Login); // `as`: only `logIn` and `keptLogin` write it.
}

/** Whether a server refused a request for want of a login that it accepts. */
export function isLoginNeeded(thrown: unknown): boolean {
  if (thrown instanceof SdkHttpError) return thrown.data.status === 401;
  return [UnauthorizedError, OAuthClientFlowError, OAuthError].some((kind) => thrown instanceof kind);
}

/** Whether its configuration says how its requests are authorized. */
export function hasOwnAuthorization({ headers = {} }: McpAddress): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
}

/** Authorizes requests by the login that is kept and renews its token; without one, a server that wants it fails. */
export function authorizeBy(server: McpAddress, logins: McpLogins | undefined): AuthProvider {
  const renew = async (response: Response): Promise<void> => {
    if (logins === undefined || read(server, logins).tokens === undefined) throw new UnauthorizedError();
    const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
    const asked = { ...(resourceMetadataUrl && { resourceMetadataUrl }), ...(scope !== undefined && { scope }) };
    const options = { serverUrl: server.url, ...asked, fetchFn: fetchDirectly };
    if ((await auth(keptLogin(server, logins), options)) !== "AUTHORIZED") throw new UnauthorizedError();
  };
  // Calls that fail together renew once: a token for renewal is often good for one use.
  let renewing: Promise<void> | undefined;
  return {
    token: async () => read(server, logins).tokens?.access_token,
    onUnauthorized: ({ response }) => {
      renewing ??= renew(response).finally(() => {
        renewing = undefined;
      });
      return renewing;
    },
  };
}

/** A redirect must not take a token to another address. */
const fetchDirectly: FetchLike = (url, init) => fetch(url, { ...init, redirect: "error" });

const metadata = (redirectUrl: string) => ({
  client_name: "rkat",
  redirect_uris: [redirectUrl],
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
  token_endpoint_auth_method: "none",
});

/** Renews tokens; whatever needs a person is refused. */
function keptLogin(server: McpAddress, logins: McpLogins): OAuthClientProvider {
  const change = (part: Login): void => logins.write(server, JSON.stringify({ ...read(server, logins), ...part }));
  const refuse = (): never => {
    throw new UnauthorizedError();
  };
  let used: string | undefined;
  return {
    redirectUrl: "http://127.0.0.1/", // Without one the SDK would take this for a login without a person.
    clientMetadata: metadata("http://127.0.0.1/"),
    clientInformation: () => read(server, logins).client,
    tokens: () => {
      const { tokens } = read(server, logins);
      used = tokens?.refresh_token;
      return tokens;
    },
    saveTokens: (tokens) => change({ tokens }),
    discoveryState: () => read(server, logins).discovery,
    redirectToAuthorization: refuse,
    saveCodeVerifier: () => {},
    codeVerifier: refuse,
    invalidateCredentials: () => {
      // Another process may have renewed it.
      if (read(server, logins).tokens?.refresh_token === used) change({ tokens: undefined });
    },
  };
}

/** The person who logs in, and where the browser is sent afterwards. */
export interface Person {
  readonly redirectUrl: string;
  readonly state: string;
  show(url: URL): void;
  /** What the authorization server sent back with the browser. */
  answer(): Promise<URLSearchParams>;
}

/** Logs a person in by OAuth 2.1 and keeps what that gives. False if the server wants no login. */
export async function logIn(server: McpAddress, logins: McpLogins, person: Person, env: Env): Promise<boolean> {
  const login: Login = {};
  const proof = { verifier: "" };
  const authProvider: OAuthClientProvider = {
    redirectUrl: person.redirectUrl,
    clientMetadata: metadata(person.redirectUrl),
    state: () => person.state,
    clientInformation: () => login.client,
    saveClientInformation: (client) => void Object.assign(login, { client }),
    tokens: () => login.tokens,
    saveTokens: (tokens) => void Object.assign(login, { tokens }),
    discoveryState: () => login.discovery,
    saveDiscoveryState: (discovery) => void Object.assign(login, { discovery }),
    redirectToAuthorization: person.show,
    saveCodeVerifier: (verifier) => void Object.assign(proof, { verifier }),
    codeVerifier: () => proof.verifier,
  };
  const [url, headers] = [new URL(server.url), fillHeaders(server.headers ?? {}, env)];
  // The configured headers are for the server, not for the authorization server.
  const toServer: FetchLike = (to, init) =>
    fetch(to, {
      ...init,
      headers: { ...Object.fromEntries(new Headers(init?.headers)), ...(String(to) === url.href && headers) },
    });
  const options = { authProvider, fetch: toServer };
  const isOld = server.transport === "sse";
  const transport = isOld ? new SSEClientTransport(url, options) : new StreamableHTTPClientTransport(url, options);
  const client = new Client(
    { name: "rkat", version: "1" },
    { versionNegotiation: { mode: isOld ? "legacy" : "auto" } },
  );
  try {
    await client.connect(transport);
    return false;
  } catch (thrown) {
    if (!(thrown instanceof UnauthorizedError)) throw thrown;
    await transport.finishAuth(await person.answer());
  } finally {
    await client.close();
  }
  logins.write(server, JSON.stringify(login));
  return true;
}
