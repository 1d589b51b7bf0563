import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { describeHost, type Host } from "../http/host.ts";
import { jsonAnswer } from "../http/http-answer.ts";
import type { AnsweredRoute, RestRequest } from "../http/router.ts";
import type { TurnRequests } from "../http/turn-requests.ts";
import { docsPage, openApiDocument } from "./openapi.ts";
import { createInputReader, readQuery } from "./operation-shape.ts";

interface HostParts {
  readonly runtime: Pick<Runtime, "dispatch">;
  readonly host: Host;
  readonly version: string;
  readonly turns: TurnRequests;
}

/** The routes outside the table of operations. */
export function createHostRoutes({ runtime, host, version, turns }: HostParts): readonly AnsweredRoute[] {
  const endpoints = () => ({ rest_transport: "http", openapi: "/openapi.json" });
  const about = describeHost(runtime, host, { process_name: "meerkat-rest", endpoints });
  const reported = [
    { ...get("/runtime/host_info"), serve: async () => jsonAnswer(await about["runtime/host_info"]()) },
    { ...get("/runtime/capabilities"), serve: async () => jsonAnswer(await about["runtime/capabilities"]()) },
    { ...get("/runtime/health"), serve: () => jsonAnswer(about["runtime/health"]()) },
  ];
  const readStatus = createInputReader("readSession", host.realm);
  const document = openApiDocument(version);
  return [
    {
      ...get("/health"),
      scope: undefined,
      isLasting: true,
      serve: () => ({ status: 200, type: "text/plain; charset=utf-8", text: "ok" }),
    },
    ...reported,
    {
      ...get("/sessions/{session_id}/status"),
      serve: async (request) => {
        const { session_id, state } = await request.runtime.dispatch("readSession", readStatus(request));
        return jsonAnswer({ session_id, state });
      },
    },
    {
      method: "POST",
      path: "/requests/{request_id}/cancel",
      scope: "run",
      serve: ({ params, query, caller }) => {
        readQuery(query, {});
        return turns.cancel(params.request_id ?? "", caller);
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
  return { method: "GET", path, scope: "read" } as const;
}
