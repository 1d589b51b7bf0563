#!/usr/bin/env node
import { runServer } from "./run-server.ts";

await runServer(import.meta.url, async () => (await import("@rkat/server/acp/start")).startAcp);
