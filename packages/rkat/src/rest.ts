#!/usr/bin/env node
import { runServer } from "./run-server.ts";

await runServer(import.meta.url, async () => {
  const { startRest } = await import("@rkat/server/rest/start");
  return (io, parts) => startRest({ ...io, command: "rkat-rest", purpose: "server" }, parts);
});
