import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createHandler, type HandlerOptions } from "@rkat/server";
// @ts-expect-error Express has no types of its own.
import untyped from "express";
import { Hono } from "hono";
import { BASE_PATH, describeHandler, fetchOver, type PlacedHandler, SECRET } from "../contract/handler.ts";

type Middleware = (...given: [...Parameters<RequestListener>, next: () => void]) => void;
/** An application is a listener, and `use` adds to it. */
const express: () => RequestListener & { use(middleware: Middleware): void } = untyped;

const TOKENS = [{ name: "test", secret: SECRET, scopes: ["admin" as const] }];

function open(env: Record<string, string>, options: HandlerOptions = { tokens: TOKENS }) {
  const runtime = createRuntime({ env, model: "openai/m", store: createInMemoryStore() });
  const handler = createHandler(runtime, { basePath: BASE_PATH, ...options });
  const close = async (): Promise<void> => {
    await handler.close(0);
    await runtime.close();
  };
  return { runtime, handler, close };
}

async function listen(listener: RequestListener, end: () => Promise<void>): Promise<PlacedHandler> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening server has an address of this shape.
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    await end();
    server.close();
    server.closeAllConnections();
  };
  return { fetch: fetchOver, url: `http://127.0.0.1:${port}${BASE_PATH}`, close };
}

describeHandler("a handler that is called directly", async (env) => {
  const { handler, close } = open(env);
  return { fetch: handler, url: `http://localhost${BASE_PATH}`, close };
});

describeHandler("a route handler as Next.js calls it", async (env) => {
  const { handler, close } = open(env, { tokens: TOKENS });
  const route = { GET: handler, HEAD: handler, POST: handler, PUT: handler, PATCH: handler, DELETE: handler };
  const methods = new Map<string, (request: Request, context: object) => Promise<Response>>(Object.entries(route));
  const fetch = async (request: Request): Promise<Response> => {
    const context = { params: Promise.resolve({ path: new URL(request.url).pathname.split("/").slice(3) }) };
    return methods.get(request.method)?.(request, context) ?? new Response(null, { status: 405 });
  };
  return { fetch, url: `http://localhost:3000${BASE_PATH}`, close };
});

describeHandler("a handler in Hono", async (env) => {
  const { handler, close } = open(env);
  const app = new Hono();
  app.all(`${BASE_PATH}/*`, (context) => handler(context.req.raw));
  return { fetch: async (request) => app.fetch(request), url: `http://localhost${BASE_PATH}`, close };
});

describeHandler("a handler in Express", async (env) => {
  const { handler, close } = open(env);
  const app = express();
  const listener = getRequestListener(handler);
  app.use((request, response, next) => {
    if (request.url?.startsWith(`${BASE_PATH}/`)) void listener(request, response);
    else next();
  });
  return listen(app, close);
});
