import { PassThrough } from "node:stream";
import type { RunningCommand } from "@rkat/conformance/cli-driver";
import { runCommandLine } from "rkat/command-line";
import type { Io } from "rkat/io";
import { NO_INPUT, PARTS } from "../support/command-line.ts";

/** Commands without a process each: what they print and end with is the same, and a hundred of them are quick. */
export function ownCommands(folder: string, env: Io["env"]): (words: readonly string[]) => Promise<RunningCommand> {
  return async (args) => {
    const stdout = new PassThrough();
    let stderr = "";
    const complain = (text: string | Uint8Array): void => {
      stderr += text;
    };
    const io: Io = {
      args,
      env,
      cwd: folder,
      home: folder,
      version: "1.2.3",
      nodeVersion: "24.0.0",
      stdin: NO_INPUT,
      stdout: { isTerminal: false, columns: undefined, write: (text) => void stdout.write(text) },
      stderr: { isTerminal: false, columns: undefined, write: (text) => complain(text) },
      interrupt: new AbortController().signal,
    };
    const ended = runCommandLine(io, PARTS).finally(() => stdout.end());
    return { stdout, ended, complaints: () => stderr };
  };
}
