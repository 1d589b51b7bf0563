#!/usr/bin/env node
import { runServer } from "./run-server.ts";

await runServer(import.meta.url, async () => {
  const { startRest } = await import("./surfaces/rest/start.ts");
  const { loadMounts } = await import("./surfaces/openai/mount.ts");
  return (io, parts) => startRest({ ...io, command: "rkat-rest", purpose: "server" }, { ...parts, loadMounts });
});
