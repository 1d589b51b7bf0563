import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { join } from "node:path";
import { createRpcClient, type RpcClient } from "./rpc-client.ts";

const DOOR = join(import.meta.dirname, "../../packages/rkat/dist/rpc.js");

export interface RpcProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly client: RpcClient;
  readonly exited: Promise<{ readonly code: number | null; readonly stderr: string }>;
}

/** The real server, started as the clients of the 0.6 line do: directly, with pipes, in a home of its own. */
export function startRpc(
  home: string,
  args: readonly string[] = [],
  { env = {}, door = [DOOR] }: { env?: Record<string, string>; door?: readonly string[] } = {},
): RpcProcess {
  const child = spawn(process.execPath, [...door, ...args], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, ...env },
  });
  child.stdin.on("error", () => {}); // A server that refuses its flags, or is killed, closes it early.
  let stderr = "";
  child.stderr.on("data", (data) => {
    stderr += data;
  });
  const exited = new Promise<{ code: number | null; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, stderr })),
  );
  return { child, client: createRpcClient(child.stdin, child.stdout), exited };
}
