import type { RpcConnection } from "../rpc/serve.ts";
import { createHostMethods, type Host } from "../wire/host.ts";
import { jsonAnswer } from "../wire/http-answer.ts";
import { isRecord, NO_ID } from "../wire/incoming.ts";
import { docsPage } from "./docs-page.ts";
import { openApiDocument } from "./openapi.ts";
import { createInputReader, readQuery } from "./operation-shape.ts";
import type { AnsweredRoute, RestRequest } from "./router.ts";
import type { TurnRequests } from "./turn-requests.ts";

export interface HostParts {
  readonly runtime: Pick<RpcConnection["runtime"], "dispatch">;
  readonly host: Host;
  readonly version: string;
  readonly turns: TurnRequests;
}

/** What the server tells of itself under a method of JSON-RPC, and where. */
const TOLD: Readonly<Record<string, string>> = {
  "runtime/host_info": "/runtime/host_info",
  "runtime/capabilities": "/runtime/capabilities",
  "runtime/health": "/runtime/health",
  "skills/list": "/skills",
};

/** The routes that are no rows of the table of operations. */
export function createHostRoutes({ runtime, host, version, turns }: HostParts): readonly AnsweredRoute[] {
  const methods = createHostMethods(runtime, host, () => []);
  const asked = { requestId: NO_ID, signal: new AbortController().signal };
  const told = Object.entries(TOLD).map(([method, path]) => ({
    ...get(path),
    serve: async () => jsonAnswer(asRest(await methods[method]?.({}, asked))),
  }));
  const readStatus = createInputReader("readSession", host.realm);
  const document = openApiDocument(version);
  return [
    { ...get("/health"), isOpen: true, serve: () => ({ status: 200, type: "text/plain; charset=utf-8", text: "ok" }) },
    ...told,
    {
      ...get("/sessions/{session_id}/status"),
      serve: async (request) => {
        const { session_id, state } = await runtime.dispatch("readSession", readStatus(request));
        return jsonAnswer({ session_id, state });
      },
    },
    {
      method: "POST",
      path: "/requests/{request_id}/cancel",
      serve: ({ params, query }) => {
        readQuery(query, {});
        return turns.cancel(params.request_id ?? "");
      },
    },
    { ...get("/openapi.json"), serve: (request) => jsonAnswer(document(urlOf(request))) },
    {
      ...get("/docs"),
      isPage: true,
      serve: (request) => ({
        status: 200,
        type: "text/html; charset=utf-8",
        text: docsPage(document(urlOf(request))),
        headers: PAGE_HEADERS,
      }),
    },
  ];
}

/** A page that is made of text alone needs nothing but its own style, and is shown in no other's frame. */
const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-frame-options": "DENY",
};

/** Where the client found this server, which has been let in by that name. */
function urlOf({ headers }: RestRequest): string {
  return `http://${headers.host}`;
}

function get(path: string) {
  return { method: "GET", path } as const;
}

/** The host as this surface: it has no methods of JSON-RPC to list. */
function asRest(told: unknown): unknown {
  if (!isRecord(told) || !("process_name" in told)) return told;
  return { ...told, process_name: "meerkat-rest", endpoints: { rest_transport: "http", openapi: "/openapi.json" } };
}
