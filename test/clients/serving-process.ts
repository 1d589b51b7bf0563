import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openRestServer } from "@rkat/server/rest/serve";
import { serveRpc } from "@rkat/server/rpc/serve";
import { openServedRuntime } from "./served-runtime.ts";

// Serves the suite's runtime over stdin and stdout (`rpc`), or over HTTP, telling its address on stdout (`rest`).
const [way = "", kind = ""] = process.argv.slice(2);
const runtime = openServedRuntime(kind, () => {
  process.stderr.write("the last words\n");
  process.exit(7);
});
const about = { realm: "test-realm", config: {} };
const shared = { runtime, clock: createSystemClock(), log: (line: string) => process.stderr.write(`${line}\n`) };
const ending = new AbortController();
process.on("SIGTERM", () => ending.abort());
if (way === "rpc") {
  const streams = { input: process.stdin, output: process.stdout, signal: ending.signal };
  await serveRpc({ ...shared, ...streams, host: about });
  process.exit();
}
const admission = { host: "127.0.0.1", port: 0, allowedHosts: [], token: kind === "guarded" ? "s3cret" : undefined };
const server = await openRestServer({ ...shared, ...admission, about, version: "0.0.0" });
process.stdout.write(`${JSON.stringify({ url: server.url })}\n`);
process.stdin.on("end", () => process.exit()).resume();
