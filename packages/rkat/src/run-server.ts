import { readFileSync } from "node:fs";
// Not by name: an older Node has no such export, and would end with a stack trace before the check below.
import nodeModule from "node:module";
import { homedir } from "node:os";
import { nodeFault } from "@rkat/core/runtime/node-version";
import { withStoredKeys } from "@rkat/node/config/keys-file";
import type { ServerIo } from "@rkat/server/http/start";
import { serverParts } from "./server-parts.ts";

type Start = (io: ServerIo, parts: typeof serverParts) => Promise<number>;

// Not SIGHUP: listening to it would undo `nohup`.
const SIGNAL_EXITS = { SIGINT: 130, SIGTERM: 143 } as const;

/** Runs a server as this process, and ends the process with it; `door` is the address of the file that does. */
export async function runServer(door: string, load: () => Promise<Start>): Promise<never> {
  const fault = nodeFault(process.versions.node);
  if (fault !== undefined) {
    process.stderr.write(`${fault}\n`);
    process.exit(1);
  }
  const interrupt = new AbortController();
  for (const [name, exitCode] of Object.entries(SIGNAL_EXITS)) {
    process.on(name, () => {
      if (interrupt.signal.aborted) process.exit(exitCode);
      interrupt.abort(exitCode);
    });
  }
  // The writer reports a closed pipe; without a listener it would end the process with a stack trace.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

  // Our own manifest, whose version npm insists on.
  const manifest = JSON.parse(readFileSync(new URL("../package.json", door), "utf8")) as { version: string };

  // A client waits for us to start: the second time, our code need not be compiled.
  nodeModule.enableCompileCache();
  const start = await load();
  const exitCode = await start(
    {
      args: process.argv.slice(2),
      env: withStoredKeys(process.env, homedir(), (sentence) => process.stderr.write(`${sentence}\n`)),
      cwd: process.cwd(),
      home: homedir(),
      version: manifest.version,
      stdin: process.stdin,
      stdout: process.stdout,
      stderr: process.stderr,
      interrupt: interrupt.signal,
    },
    serverParts,
  );
  // A tool or a connection that outlives its turn must not keep the process alive.
  process.exit(exitCode);
}
