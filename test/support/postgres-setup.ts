import { once } from "node:events";
import { createServer } from "node:http";
import type { TestProject } from "vitest/node";
import { type PostgresServer, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where a test file asks for the server that all of a run share. */
    readonly postgresDesk: string;
  }
}

/** What the desk answers with. */
export type PostgresHere = { readonly url: string } | { readonly why: string };

/**
 * One PostgreSQL for all files of a run, started when the first of them asks for it: it is owned by the process that
 * outlives every worker.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  let server: Promise<PostgresServer> | undefined;
  const desk = createServer(async (_request, response) => {
    server ??= startPostgres();
    const here = await server.then(
      ({ url }): PostgresHere => ({ url }),
      (error: Error): PostgresHere => ({ why: error.message }),
    );
    response.end(JSON.stringify(here));
  }).listen(0, "127.0.0.1");
  await once(desk, "listening");
  const address = desk.address();
  if (address === null || typeof address === "string") throw new Error("the system gave no port");
  project.provide("postgresDesk", `http://127.0.0.1:${address.port}`);
  return async () => {
    desk.close();
    desk.closeAllConnections();
    const started = await server?.catch(() => undefined);
    await started?.close();
  };
}
