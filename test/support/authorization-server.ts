import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface Grant {
  readonly client: string;
  readonly redirect: string;
  readonly challenge: string;
  readonly resource: string;
}

/** What a server does otherwise than it should. */
export interface Faults {
  /** The issuer in what it sends back with the browser, or in its own description. */
  iss?: string;
  issuer?: string;
  /** For whom its tokens are, whatever was asked for. */
  audience?: string;
}

/** An authorization server by OAuth 2.1, RFC 7591, 7636, 8414, 8707 and 9207; a person who comes always consents. */
export async function openAuthorizationServer(faults: Faults = {}) {
  const clients = new Map<string, readonly string[]>();
  const codes = new Map<string, Grant>();
  const access = new Map<string, string>();
  const refresh = new Map<string, Omit<Grant, "challenge" | "redirect">>();
  const asked: string[] = [];
  let issuer = "";

  const issue = ({ client, resource }: Pick<Grant, "client" | "resource">) => {
    const [access_token, refresh_token] = [`access-${randomUUID()}`, `refresh-${randomUUID()}`];
    access.set(access_token, faults.audience ?? resource);
    refresh.set(refresh_token, { client, resource });
    return { access_token, refresh_token, token_type: "Bearer", expires_in: 3600 };
  };
  const token = (form: URLSearchParams): object | string => {
    const [client, resource] = [form.get("client_id") ?? "", form.get("resource") ?? ""];
    if (!clients.has(client)) return "invalid_client";
    if (form.get("grant_type") === "refresh_token") {
      const kept = refresh.get(form.get("refresh_token") ?? "");
      refresh.delete(form.get("refresh_token") ?? ""); // Good for one use.
      return kept?.client === client && kept.resource === resource ? issue(kept) : "invalid_grant";
    }
    if (form.get("grant_type") !== "authorization_code") return "unsupported_grant_type";
    const grant = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const isGood =
      grant?.client === client &&
      grant.redirect === form.get("redirect_uri") &&
      grant.challenge === challenge &&
      grant.resource === resource;
    return isGood ? issue(grant) : "invalid_grant";
  };
  const authorize = (query: URLSearchParams): string | undefined => {
    const [client, redirect] = [query.get("client_id") ?? "", query.get("redirect_uri") ?? ""];
    const challenge = query.get("code_challenge") ?? "";
    if (clients.get(client)?.includes(redirect) !== true) return undefined;
    if (query.get("response_type") !== "code" || query.get("code_challenge_method") !== "S256") return undefined;
    const code = randomUUID();
    codes.set(code, { client, redirect, challenge, resource: query.get("resource") ?? "" });
    const back = new URL(redirect);
    back.search = String(new URLSearchParams({ code, state: query.get("state") ?? "", iss: faults.iss ?? issuer }));
    return back.href;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? "", issuer);
    asked.push(pathname);
    const body = await text(request);
    const json = (status: number, value: object): void => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
    };
    if (pathname === "/.well-known/oauth-authorization-server")
      return json(200, {
        issuer: faults.issuer ?? issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        registration_endpoint: `${issuer}/register`,
        response_types_supported: ["code"],
        grant_types_supported: ["authorization_code", "refresh_token"],
        code_challenge_methods_supported: ["S256"],
        token_endpoint_auth_methods_supported: ["none"],
        authorization_response_iss_parameter_supported: true,
      });
    if (pathname === "/register" && request.method === "POST") {
      const client_id = randomUUID();
      const { redirect_uris } = JSON.parse(body);
      clients.set(client_id, redirect_uris);
      return json(201, { ...JSON.parse(body), client_id });
    }
    if (pathname === "/token" && request.method === "POST") {
      const given = token(new URLSearchParams(body));
      return typeof given === "string" ? json(400, { error: given }) : json(200, given);
    }
    const location = pathname === "/authorize" ? authorize(searchParams) : undefined;
    if (location === undefined) return json(404, {});
    response.writeHead(302, { Location: location }).end();
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // A server that listens on a port has one.
  issuer = `http://127.0.0.1:${port}`;
  return {
    issuer,
    faults,
    /** The paths it was asked for. */
    asked,
    /** Every secret that was given out. */
    secrets: () => [...access.keys(), ...refresh.keys()],
    /** Guards a resource: undefined for a request whose token is for it, else what to answer. */
    guard: (resource: string, request: Request): Response | undefined => {
      const { pathname, origin } = new URL(request.url);
      const metadata = `${origin}/.well-known/oauth-protected-resource${new URL(resource).pathname}`;
      if (`${origin}${pathname}` === metadata) return Response.json({ resource, authorization_servers: [issuer] });
      const [, given = ""] = /^Bearer (.*)$/.exec(request.headers.get("authorization") ?? "") ?? [];
      if (access.get(given) === resource) return undefined;
      // As careless servers do, it repeats what it was sent.
      const headers = { "WWW-Authenticate": `Bearer resource_metadata="${metadata}"` };
      return new Response(`no access with ${given}`, { status: 401, headers });
    },
    expire: () => access.clear(),
    revoke: () => {
      access.clear();
      refresh.clear();
    },
    close: () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
