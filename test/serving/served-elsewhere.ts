// Serves a handler with the server of Bun or Deno; started by a test with the address of its model in the environment.
import { createInMemoryStore, createRuntime } from "rkat";
import { createHandler } from "rkat/server";

interface Server {
  readonly port?: number;
  readonly addr?: { readonly port: number };
}
interface Elsewhere {
  readonly Bun?: { serve(options: object): Server };
  readonly Deno?: { serve(options: object, handler: object): Server };
}

const { env } = process;
const runtime = createRuntime({ env, model: "openai/m", store: createInMemoryStore() });
const tokens = [{ name: "test", secret: env.SECRET ?? "", scopes: ["admin" as const] }];
const handler = createHandler(runtime, { basePath: "/api/agent", tokens });
const { Bun, Deno } = globalThis as Elsewhere; // One of them is there.
const place = { hostname: "127.0.0.1", port: 0 };
// Streams may be silent for longer than ten seconds.
const server =
  Bun?.serve({ ...place, idleTimeout: 0, fetch: handler }) ?? Deno?.serve({ ...place, onListen: () => {} }, handler);
process.stdout.write(`${JSON.stringify({ port: server?.port ?? server?.addr?.port })}\n`);
