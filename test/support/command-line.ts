import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadPolicy, runSimulation } from "@rkat/conformance/laboratory";
import { tryHook } from "@rkat/core/composed-hooks";
import { subAgentsOf } from "@rkat/core/composed-tools";
import { configFileSchema } from "@rkat/core/config/spell-config";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { runOwnCommand } from "@rkat/core/tools/shell";
import { formatToml, parseToml } from "@rkat/node/config/config-file";
import { loadConfig } from "@rkat/node/config/load-config";
import { inspectMcpServers, openRuntime, verifyStore } from "@rkat/node/open-runtime";
import {
  backUpStore,
  copyStore,
  listBackups,
  readKeptLog,
  restoreBackup,
  verifyBackup,
  verifyDatabase,
  writeArchive,
} from "@rkat/node/store-places";
import { inspectDatabase, openDatabaseTokens } from "@rkat/postgres";
import { runCommandLine } from "rkat/command-line";
import type { Io } from "rkat/io";
import type { Parts } from "rkat/parts";
import { afterEach, beforeEach } from "vitest";

/** The parts of the real command, with providers that are the same on every machine. */
export const PARTS: Parts = {
  loadConfig,
  configFileSchema: async () => configFileSchema(),
  createRuntime: async (options) => createRuntime(options),
  openRuntime,
  createInMemoryStore: async () => createInMemoryStore(),
  verifyStore,
  encryption: () => import("@rkat/node/sealed-realm"),
  verifyDatabase,
  copyStore,
  backUpStore,
  verifyBackup,
  restoreBackup,
  listBackups,
  writeArchive,
  serveRpc: async () => 0,
  serveMcp: async () => 0,
  serveAcp: async () => 0,
  serveRest: async () => 0,
  inspectDatabase,
  openDatabaseTokens,
  serveConsole: async () => 0,
  inspectMcpServers,
  tryHook,
  runOwnCommand: (command) => runOwnCommand({ ...command, clock: createSystemClock() }),
  toml: async () => ({ parse: parseToml, format: formatToml }),
  loadLaboratory: async () => ({ loadPolicy, runSimulation, readKeptLog }),
  loadConformance: async () => {
    throw new Error("there are no scenarios here");
  },
  createScriptedModel: async (script) => createScriptedModel(script),
  subAgentsOf: async ({ config, subAgents }) => subAgentsOf({ subAgents }, config),
  findLocalServers: async () => [],
  inspectModels: async () => ({
    providers: [
      {
        provider: "openai",
        keyVariable: "OPENAI_API_KEY",
        hasKey: false,
        baseUrl: "https://a.test/v1?k=1",
        defaultModel: "gpt",
      },
    ],
    chooseDefault: async () => ({ provider: "offline", modelId: "offline" }),
  }),
};

interface Given extends Partial<Io> {
  readonly isTerminal?: boolean;
  readonly own?: Partial<Parts>;
  /** What is piped in. */
  readonly input?: string;
}

export interface CommandLine {
  /** A folder of its own for every test. */
  readonly cwd: string;
  /** What a command prints, and the code it ends with. */
  run(args: readonly string[], given?: Given): Promise<{ code: number; stdout: string; stderr: string }>;
}

export const NO_INPUT: Io["stdin"] = {
  kind: "none",
  read: async function* () {},
  terminal: () => {
    throw new Error("there is no terminal");
  },
};

/** The command line without a process, for the tests of one file. */
export function useCommandLine(): CommandLine {
  let cwd = "";
  beforeEach(() => {
    cwd = mkdtempSync(join(tmpdir(), "rkat-line-"));
  });
  afterEach(() => rmSync(cwd, { recursive: true }));
  return {
    get cwd() {
      return cwd;
    },
    run: async (args, { isTerminal = false, own = {}, input, ...rest } = {}) => {
      let stdout = "";
      let stderr = "";
      const io: Io = {
        args,
        env: {},
        cwd,
        home: cwd,
        version: "1.2.3",
        nodeVersion: "24.0.0",
        stdin: input === undefined ? NO_INPUT : pipe(input),
        stdout: { isTerminal, columns: undefined, write: (text) => (stdout += asText(text)) },
        stderr: { isTerminal, columns: undefined, write: (text) => (stderr += asText(text)) },
        interrupt: new AbortController().signal,
        ...rest,
      };
      const code = await runCommandLine(io, { ...PARTS, ...own });
      return { code, stdout, stderr };
    },
  };
}

function pipe(input: string): Io["stdin"] {
  return {
    ...NO_INPUT,
    kind: "stream",
    read: async function* () {
      yield new TextEncoder().encode(input);
    },
  };
}

function asText(written: string | Uint8Array): string {
  return typeof written === "string" ? written : new TextDecoder().decode(written);
}
