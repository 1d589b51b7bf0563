#!/usr/bin/env node
import { fstatSync, readFileSync } from "node:fs";
import nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import { isatty } from "node:tty";
import { fileURLToPath } from "node:url";
import type { Config } from "@rkat/core/config/config-schema";
import type { Input, Io, Output, Terminal } from "./io.ts";
import type { ModelOutlook, Parts } from "./parts.ts";
import type { serverParts } from "./server-parts.ts";

// Not by name: an older Node has no such export, and would end with a stack trace before the check below.
// Not SIGHUP: listening to it would undo `nohup`.
const SIGNAL_EXITS = { SIGINT: 130, SIGTERM: 143 } as const;

/** A reader that has stopped reading is not waited for longer. */
const FLUSH_MS_MAX = 30_000;

/** No marks around pastes, lines that wrap, and a cursor. */
const PLAIN_TERMINAL = "\u001b[?2004l\u001b[?7h\u001b[?25h";

const STOPPED_WITHIN_MS = 100;
const HANGUP_EXIT = 129;

const args = process.argv.slice(2);
if (args[0] === "--version" || args[0] === "-V") {
  process.stdout.write(`${readVersion()}\n`);
} else {
  const { nodeFault } = await import("@rkat/core/runtime/node-version");
  const fault = nodeFault(process.versions.node);
  if (fault === undefined) {
    // Most of a short command is the loading of its code; the second time it need not be compiled.
    nodeModule.enableCompileCache();
    await main();
  } else {
    process.stderr.write(`${fault}\n`);
    process.exitCode = 1;
  }
}

function readVersion(): string {
  // Our own manifest, whose version npm insists on.
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };
  return manifest.version;
}

async function main(): Promise<void> {
  if (workingFolder() === undefined) {
    process.stderr.write("Error: the working folder is not there any more; change to one that is.\n");
    process.exitCode = 2;
    return;
  }
  const { withStoredKeys } = await import("@rkat/node/config/keys-file");
  const env = withStoredKeys(process.env, homeFolder(), (sentence) => process.stderr.write(`${sentence}\n`));
  const io = createIo(listenForInterrupts(), env);
  const { runCommandLine } = await import("./command-line.ts");
  const { serverParts } = await import("./server-parts.ts");
  const exitCode = await runCommandLine(io, parts(io, serverParts));
  const flushed = [process.stdout, process.stderr].map((stream) => new Promise((done) => stream.write("", done)));
  await Promise.race([Promise.all(flushed), new Promise((done) => setTimeout(done, FLUSH_MS_MAX))]);
  // A tool or a connection that outlives its turn must not keep the process alive.
  process.exit(exitCode);
}

/** The first signal asks the command to end, the second ends it. A closed pipe is a quiet wish to end. */
function listenForInterrupts(): AbortController {
  const interrupt = new AbortController();
  for (const [name, exitCode] of Object.entries(SIGNAL_EXITS)) endAt(name, exitCode, interrupt);
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") {
        if (stream === process.stdout) interrupt.abort(0);
        return;
      }
      // A command does not fail because stderr cannot be written: a server runs on without its log.
      if (stream === process.stderr) return;
      // A full disk behind stdout: what was asked for cannot be shown, and stderr may be the same disk.
      process.stderr.write(`Error: cannot write the output: ${error.message}\n`);
      process.exit(1);
    });
  }
  return interrupt;
}

function endAt(name: string, exitCode: number, interrupt: AbortController): void {
  process.on(name, () => {
    if (!interrupt.signal.aborted) return interrupt.abort(exitCode);
    const { output } = terminal();
    // The code that drew there is not waited for. Node itself restores the input mode.
    if (output.isTTY && process.env.TERM !== "dumb") output.write(PLAIN_TERMINAL);
    process.exit(exitCode);
  });
}

function createIo(controller: AbortController, env: Io["env"]): Io {
  const { signal: interrupt } = controller;
  let isHeld = false;
  return {
    args,
    env,
    cwd: workingFolder() ?? "/",
    home: homeFolder(),
    version: readVersion(),
    nodeVersion: process.versions.node,
    stdin: {
      kind: kindOfStdin(),
      read: () => addAbortSignal(interrupt, process.stdin),
      terminal: () => {
        // Raw mode must be left at a hang-up; `nohup` leaves no terminal to read.
        if (!isHeld) endAt("SIGHUP", HANGUP_EXIT, controller);
        isHeld = true;
        return terminal();
      },
    },
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    interrupt,
  };
}

function terminal(): Terminal {
  return {
    input: process.stdin,
    output: process.stdout.isTTY ? process.stdout : process.stderr,
    interrupt: () => void process.kill(process.pid, "SIGINT"),
    suspend: (resumed) => {
      process.kill(process.pid, "SIGTSTP");
      // Timers do not run in a stopped process. Without job control the signal has no effect, and the timer fires at once.
      setTimeout(resumed, STOPPED_WITHIN_MS);
    },
  };
}

function workingFolder(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined;
  }
}

/** A user without an entry in the system, as in many containers, has none: a folder that holds nothing stands in. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "/nonexistent";
  }
}

function kindOfStdin(): Input["kind"] {
  if (isatty(0)) return "terminal";
  try {
    const stat = fstatSync(0);
    return stat.isFIFO() || stat.isFile() || stat.isSocket() ? "stream" : "none";
  } catch {
    // A closed stdin cannot even be asked what it is.
    return "none";
  }
}

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    isTerminal: stream.isTTY === true,
    // Each time anew, since windows change; a terminal that was never given a size says 0.
    get columns() {
      return stream.columns || undefined;
    },
    write: (written) => {
      stream.write(written);
    },
  };
}

function parts(io: Io, servers: typeof serverParts): Parts {
  const { loadConfig, openRuntime } = servers;
  return {
    openRuntime,
    verifyStore: async (folder, options) => (await import("@rkat/node/open-runtime")).verifyStore(folder, options),
    runOwnCommand: async (command) => {
      const { runOwnCommand } = await import("@rkat/core/tools/shell");
      const { createSystemClock } = await import("@rkat/core/runtime/system-clock");
      return runOwnCommand({ ...command, clock: createSystemClock() });
    },
    createScriptedModel: async (script) => (await import("@rkat/core/providers/scripted")).createScriptedModel(script),
    self,
    loadConformance: async () => {
      const { createConformance } = await import("@rkat/conformance/conformance");
      const { readIfThere } = await import("@rkat/node/config/realm");
      const [command = "", ...args] = await self();
      return createConformance({
        env: io.env,
        self: { command, args },
        openRuntime: async (folder, env) => {
          const { config, skills } = await loadConfig({ cwd: folder, home: folder, env, readFile: readIfThere });
          return openRuntime({ config, skills, env, projectRoot: folder, stateFolder: join(folder, "state") });
        },
      });
    },
    inspectModels: (config) => inspectModels(io.env, config),
    findLocalServers: async (signal) =>
      (await import("@rkat/core/providers/local-servers")).findLocalServers({ env: io.env, signal }),
    serve: async (kind, words) => {
      const { stdin, stdout, stderr, platform } = process;
      const served = { ...io, args: words, stdin, stdout, stderr };
      switch (kind) {
        case "rpc":
          return (await import("@rkat/server/rpc/start")).startRpc(served, servers);
        case "mcp":
          return (await import("@rkat/server/mcp/start")).startMcp(served, servers);
        case "acp":
          return (await import("@rkat/server/acp/start")).startAcp(served, servers);
        case "rest": {
          const { startRest } = await import("@rkat/server/rest/start");
          return startRest({ ...served, command: "rkat serve", purpose: "cli" }, servers);
        }
        case "console": {
          const { createBrowserOpener, startConsole } = await import("@rkat/server/rest/start");
          const open = createBrowserOpener({ platform, env: io.env, isTerminal: io.stdout.isTerminal });
          return startConsole(served, servers, open);
        }
      }
    },
  };
}

/** The words that start this program. */
async function self(): Promise<readonly string[]> {
  const cli = (await import("@rkat/core/ports/package-file")).workerFile("rkat", "cli");
  if (cli === undefined) throw new Error("the package rkat cannot be found; install it");
  return [process.execPath, ...process.execArgv, fileURLToPath(cli)];
}

async function inspectModels(env: Io["env"], config: Config): Promise<ModelOutlook> {
  const { providerStatus } = await import("@rkat/core/providers/provider-settings");
  const { createModelResolver } = await import("@rkat/core/providers/resolve");
  const settings = { ...config, defaultModel: config.agent.model, defaultProvider: config.agent.provider };
  return {
    providers: providerStatus(env, settings),
    chooseDefault: () => createModelResolver({ env, config: settings }).resolve(undefined, undefined),
  };
}
