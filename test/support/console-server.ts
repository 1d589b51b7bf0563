import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type Caller, createCaller } from "./rest-server.ts";

export const DOOR = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");

interface ServerOptions {
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface ConsoleServer {
  readonly url: string;
  /** The project it serves. */
  readonly folder: string;
  readonly call: Caller;
  /** Ends it at once; without it, it ends with the test. */
  stop(): Promise<void>;
  /** Starts it again where it was. */
  start(): Promise<void>;
  /** Runs another command in its folder, and returns what that says. */
  rkat(...words: string[]): Promise<string>;
}

/** `rkat serve` as it is built, of a fresh folder, on a free port of this machine, with the offline model unless told otherwise. */
export async function serveConsole({ flags = [], env = {} }: ServerOptions = {}): Promise<ConsoleServer> {
  if (!existsSync(DOOR)) throw new Error("nothing is built; run npm run build");
  const folder = mkdtempSync(join(tmpdir(), "rkat-console-"));
  const own = { PATH: process.env.PATH, HOME: folder, RKAT_MODEL: "offline", RKAT_LOG: "off", ...env };
  const begin = (words: readonly string[]): ChildProcess =>
    spawn(process.execPath, [DOOR, ...words], { cwd: folder, env: own, stdio: ["ignore", "pipe", "pipe"] });
  let child: ChildProcess | undefined;
  const start = async (port: string): Promise<string> => {
    const started = begin(["serve", "--port", port, "--json", ...flags]);
    child = started;
    const line = await firstLine(started);
    return (JSON.parse(line) as { url: string }).url; // What `--json` promises.
  };
  const stop = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const closed = new Promise((resolve) => child?.once("close", resolve));
    child.kill("SIGKILL");
    await closed;
  };
  onTestFinished(async () => {
    await stop();
    // A child of the server's, which makes vectors, may still be about to end.
    rmSync(folder, { recursive: true, maxRetries: 10 });
  });
  const url = await start("0");
  return {
    url,
    folder,
    call: createCaller(url),
    stop,
    start: async () => void (await start(new URL(url).port)),
    rkat: async (...words) => {
      const started = begin(words);
      let said = "";
      let failure = "";
      started.stdout?.on("data", (data) => {
        said += data;
      });
      started.stderr?.on("data", (data) => {
        failure += data;
      });
      const code = await new Promise((resolve) => started.once("close", resolve));
      if (code !== 0) throw new Error(`rkat ${words.join(" ")} ended with ${code}: ${failure}`);
      return said;
    },
  };
}

/** The first line of stdout; throws, with what it said of it, for a process that ends without one. */
export function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    child.stdout?.on("data", (data) => {
      stdout += data;
      const [line, rest] = stdout.split("\n", 2);
      if (line !== undefined && rest !== undefined) resolve(line);
    });
    child.stderr?.on("data", (data) => {
      stderr += data;
    });
    child.once("close", () => reject(new Error(`it ended before it listened: ${stderr}`)));
  });
}
