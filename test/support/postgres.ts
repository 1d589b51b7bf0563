import { randomUUID } from "node:crypto";
import { describe, inject, it } from "vitest";
import { createDatabase } from "./postgres-server.ts";
import type { PostgresHere } from "./postgres-setup.ts";

/** Importing this file starts the server that all files of a run share, unless another has. */
const here = await askDesk();

async function askDesk(): Promise<PostgresHere> {
  const answer = await fetch(inject("postgresDesk"));
  const reported = (await answer.json()) as PostgresHere; // What the desk of this run writes.
  // There the server must start: tests that leave themselves out would be taken for tests that pass.
  if ("why" in reported && process.env.CI === "true") throw new Error(`no PostgreSQL: ${reported.why}`);
  return reported;
}

/** Tests that need a database: left out, with the reason in their name, on a machine where no server can start. */
export function withPostgres(name: string, tests: () => void): void {
  if ("url" in here) describe(name, tests);
  else describe(`${name} (left out: no PostgreSQL: ${here.why})`, () => it.skip("needs a PostgreSQL server", () => {}));
}

/** The URL of a fresh database of the shared server, whose name begins with `name`. */
export async function databaseFor(name: string): Promise<string> {
  if ("why" in here) throw new Error(`no PostgreSQL: ${here.why}`);
  const database = `${name}_${randomUUID().slice(0, 8)}`;
  await createDatabase(here.url, database);
  const url = new URL(here.url);
  url.pathname = `/${database}`;
  return url.href;
}
