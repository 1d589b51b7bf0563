#!/usr/bin/env node
import { runServer } from "./run-server.ts";

await runServer(async () => (await import("./surfaces/rpc/start.ts")).startRpc);
