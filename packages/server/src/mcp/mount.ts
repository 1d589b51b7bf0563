import { toRequest } from "../http/exchange.ts";
import { packageVersion } from "../http/host.ts";
import { rpcErrorAnswer } from "../http/http-answer.ts";
import type { OpenMount, StreamedRoute } from "../http/router.ts";
import type { Connections } from "./serve-http.ts";

/** MCP over streamable HTTP at `/mcp`, beside other surfaces; its SDK is loaded by the first request. */
export const mountMcp: OpenMount = ({ runtime, realm, clock }) => {
  let loading: Promise<Connections> | undefined;
  const load = async (): Promise<Connections> => {
    const { createConnections } = await import("./serve-http.ts");
    const { createServers } = await import("./server.ts");
    const createServer = createServers({ runtime, realm, version: packageVersion(), memoryOnly: false, clock });
    return createConnections({ createServer, clock });
  };
  const routes = ["GET", "POST", "DELETE"].map((method): StreamedRoute => {
    const stream: StreamedRoute["stream"] = async ({ path: url, headers, body, caller }, response) => {
      loading ??= load();
      const connections = await loading;
      await connections.handle(toRequest({ method, url, headers }), response, { message: body.value, caller });
      return undefined;
    };
    return { method, path: "/mcp", scope: "read", stream };
  });
  return { prefix: "/mcp", routes, answerFailure: rpcErrorAnswer, close: async () => (await loading)?.close() };
};
