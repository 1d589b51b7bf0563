import { messageOf, RuntimeError } from "../../contract/error.ts";
import { toldError } from "../failures.ts";
import { isRecord } from "../fields.ts";
import type { HttpRequest } from "./request.ts";

/** How requests are sent and their answers read. */
export interface Exchange {
  readonly url: string;
  /** Resolves with the head of the answer, whatever its status. Its failures are sentences. */
  send(request: HttpRequest, how?: Sending): Promise<Response>;
  /** The JSON of an answer; throws the failure it tells. */
  read(response: Response): Promise<unknown>;
}

interface Sending {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export function createExchange({ url, token }: { url: string; token: string | undefined }): Exchange {
  const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return {
    url,
    send: async ({ method, path, body }, { headers, signal } = {}) => {
      const type = body === undefined ? {} : { "content-type": "application/json" };
      try {
        return await fetch(`${url}${path}`, {
          method,
          headers: { ...bearer, ...type, ...headers },
          ...(body === undefined ? {} : { body }),
          ...(signal === undefined ? {} : { signal }),
        });
      } catch (cause) {
        throw unreachable(url, cause);
      }
    },
    read: async (response) => {
      const body = parseJson(await textOf(response, url));
      if (body === undefined) throw noJson(url, response);
      if (!response.ok) throw toldError(body, url);
      return body;
    },
  };
}

async function textOf(response: Response, url: string): Promise<string> {
  try {
    return await response.text();
  } catch (cause) {
    throw unreachable(url, cause);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What the system says of a connection, in words. */
const FAULTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "no machine has that name",
  EAI_AGAIN: "its name cannot be looked up",
  ECONNRESET: "the connection broke",
  UND_ERR_SOCKET: "the connection broke",
  EHOSTUNREACH: "that machine cannot be reached",
  ETIMEDOUT: "it does not answer",
  UND_ERR_CONNECT_TIMEOUT: "it does not answer",
};

/** `fetch` hides why it failed one level down, and a browser does not tell at all. */
export function unreachable(url: string, cause: unknown): RuntimeError {
  const inner = cause instanceof Error ? cause.cause : undefined;
  const code = isRecord(inner) || inner instanceof Error ? Reflect.get(inner, "code") : undefined;
  const isPage = inner === undefined && cause instanceof TypeError;
  const advice = isPage ? "; is it running, and does it name this page with --allow-origin?" : "";
  const why = FAULTS[String(code)] ?? `${messageOf(inner ?? cause)}${advice}`;
  return new RuntimeError("AGENT_ERROR", `cannot reach ${url}: ${why}`, { cause });
}

function noJson(url: string, { status, headers }: Response): RuntimeError {
  const type = headers.get("content-type")?.split(";")[0] ?? "nothing";
  const advice = "is it the address of an rkat server?";
  return new RuntimeError("AGENT_ERROR", `${url} answered ${status} with ${type}, which is no JSON; ${advice}`);
}
