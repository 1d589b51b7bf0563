import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { runOwnCommand } from "@rkat/core/tools/shell";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { runCommandLine } from "rkat/command-line";
import type { Io } from "rkat/io";
import type { Parts } from "rkat/parts";
import { afterEach, beforeEach } from "vitest";

/** The parts of the real command, with providers that are the same on every machine. */
export const PARTS: Parts = {
  openRuntime,
  verifyStore,
  serve: async () => 0,
  runOwnCommand: (command) => runOwnCommand({ ...command, clock: createSystemClock() }),
  self: async () => ["/opt/rkat's node", "/opt/rkat/cli.js"],
  loadConformance: async () => {
    throw new Error("there are no scenarios here");
  },
  createScriptedModel: async (script) => createScriptedModel(script),
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
