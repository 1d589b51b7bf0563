import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { join } from "node:path";

interface Usage {
  /** CPU of the process so far, all threads. */
  readonly cpuMs: number;
  readonly rssBytes: number;
  /** CPU of the longest block of the event loop since it was asked the last time, and how many were too long. */
  readonly longestMs: number;
  readonly longBlocks: number;
}

/** A server in a process of its own, which tells what it has used. */
interface ServerProcess {
  readonly child: ChildProcess;
  usage(): Promise<Usage>;
  close(): Promise<void>;
}

/** Where a server is started, and with which variables. */
interface Place {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** For Node. */
  readonly flags?: readonly string[];
}

const root = join(import.meta.dirname, "..");

/** Starts one of the built servers, such as `rest`, in a folder; its stdin and stdout are pipes. */
export function startServer(door: string, args: readonly string[], place: Place): ServerProcess {
  const report = join(import.meta.dirname, "usage-report.ts");
  const file = join(root, "packages/rkat/dist", `${door}.js`);
  const child = spawn(process.execPath, ["--import", report, ...(place.flags ?? []), file, ...args], {
    cwd: place.cwd,
    env: { PATH: process.env.PATH, HOME: place.cwd, ...place.env },
    stdio: ["pipe", "pipe", "ignore", "ipc"],
  });
  return {
    child,
    usage: async () => {
      child.send("usage");
      const [usage] = await once(child, "message");
      return usage;
    },
    close: async () => {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

/** Starts `rkat-rest` on a free port and waits until it listens. */
export async function startRest(place: Place): Promise<ServerProcess & { readonly url: string }> {
  const server = startServer("rest", ["--port", "0", "--json", "--realm", "bench", "--state-root", place.cwd], place);
  const { stdout } = server.child;
  if (stdout === null) throw new Error("its stdout is no pipe");
  const ended = once(server.child, "exit").then(() => {
    throw new Error("rkat-rest ended before it listened");
  });
  const [line] = await Promise.race([once(stdout, "data"), ended]);
  const { url }: { url: string } = JSON.parse(String(line));
  return { ...server, url };
}

/** What a server answers that the benches look at; they fail on what they do not find in it. */
interface Report {
  readonly session_id: string;
  readonly text: string;
  readonly cursor: { readonly sequence: number };
}

/** Asks a server with JSON over connections that are kept; anything but a success is thrown. */
export function createAsker(url: string, connections: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const ask = (route: string, body?: object): Promise<Report> =>
    new Promise((resolve, reject) => {
      const [method, path] = route.split(" ");
      const headers = { "content-type": "application/json" };
      const sent = request(`${url}${path}`, { method, agent, headers }, async (response) => {
        const parts: Buffer[] = [];
        for await (const part of response) parts.push(part);
        const text = Buffer.concat(parts).toString("utf8");
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`${route} was answered ${response.statusCode}: ${text.slice(0, 200)}`));
      });
      sent.on("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  return { ask, close: () => agent.destroy() };
}
