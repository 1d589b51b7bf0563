#!/usr/bin/env node
import { runServer } from "./run-server.ts";

await runServer(import.meta.url, async () => {
  const { startRest } = await import("@rkat/server/rest/start");
  const { loadMounts } = await import("@rkat/server/openai/mount");
  return (io, parts) => startRest({ ...io, command: "rkat-rest", purpose: "server" }, { ...parts, loadMounts });
});
