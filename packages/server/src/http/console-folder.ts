import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";

/** Where the console's page and its files are: in the package they are there; in a clone they are made by the build. */
export function builtConsoleFolder(): string {
  return join(dirname(createRequire(import.meta.url).resolve("@rkat/server/package.json")), "dist", "console");
}

export function consoleNotBuilt(): RuntimeError {
  return new RuntimeError("METHOD_NOT_FOUND", "the console is not built here; run npm run build");
}
