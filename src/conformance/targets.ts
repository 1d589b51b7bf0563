import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Capability } from "../contract/capability.ts";
import { commandsOf, createCliDriver } from "./drivers/cli-driver.ts";
import type { Driver, Surface } from "./drivers/driver.ts";
import { connectHttp, connectStdio } from "./drivers/mcp-connections.ts";
import { openMcpDriver } from "./drivers/mcp-driver.ts";
import { createRestDriver, lackOfServer } from "./drivers/rest-driver.ts";
import { openRpcDriver } from "./drivers/rpc-driver.ts";
import { openRuntimeDriver, type RuntimeLike } from "./drivers/runtime-driver.ts";
import { firstLine, type Start, startChild } from "./drivers/wire/child.ts";
import { withinTime } from "./drivers/wire/time-limit.ts";
import { conformanceToml } from "./settings.ts";

/** A command and the words it is called with. */
export interface CommandWords {
  readonly command: string;
  readonly args: readonly string[];
}

/** What the scenarios are told to. */
export type Target =
  | { readonly kind: "runtime" }
  | ({ readonly kind: "cli" | "rpc" | "rest" | "mcp" | "mcp-http" } & CommandWords)
  | ({ readonly kind: "rest-url" } & Address)
  | ({ readonly kind: "mcp-url" } & Address);

interface Address {
  readonly url: string;
  readonly token: string | undefined;
}

/** Where targets are started, and with what. */
export interface Stage {
  /** A folder of the run's own; each target works in one inside. */
  readonly folder: string;
  readonly modelUrl: string;
  readonly features: readonly Capability[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Opens a runtime in this process, with the configuration of a folder. */
  openRuntime(folder: string, env: Stage["env"]): Promise<RuntimeLike>;
}

/** The surface a target is a case of. */
export function surfaceOf({ kind }: Target): Surface {
  if (kind === "rest-url") return "rest";
  return kind === "mcp-url" ? "mcp-http" : kind;
}

/** Starts a target in a folder of its own, with the configuration the scenarios need, or connects to it. */
export async function openTarget(target: Target, stage: Stage): Promise<Driver> {
  if (target.kind === "rest-url") return createRestDriver({ ...target, close: async () => {} });
  if (target.kind === "mcp-url") {
    const lacks = (ability: string) => lackOfServer({ restart: undefined }, ability);
    const open = () => connectHttp(target.url, target.token);
    return openMcpDriver({ surface: "mcp-http", lacks, open, restart: async () => {}, close: async () => {} });
  }
  const { folder, env } = await settleFolder(target.kind, stage);
  if (target.kind === "runtime") return openRuntimeDriver("runtime", () => stage.openRuntime(folder, env));
  const start: Start = { command: target.command, args: target.args, cwd: folder, env };
  // A server works on a realm of its own unless it is given one, and after a restart it must be the same.
  const kept = { ...start, args: [...start.args, "--realm", "conformance", "--state-root", join(folder, "state")] };
  switch (target.kind) {
    case "cli":
      return createCliDriver(commandsOf(start));
    case "rpc":
      return openRpcDriver(kept);
    case "rest":
      return openRest(kept);
    case "mcp":
      return openMcpDriver({
        surface: "mcp",
        lacks: () => undefined,
        open: () => connectStdio(kept),
        restart: async () => {},
        close: async () => {},
      });
    case "mcp-http":
      return openMcpOverHttp(kept);
  }
}

/** Makes a folder with the configuration the scenarios need, and the environment to work in it. */
export async function settleFolder(name: string, stage: Omit<Stage, "openRuntime">) {
  const { folder: root, modelUrl, features, env } = stage;
  const folder = join(root, name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "rkat.toml"), conformanceToml(modelUrl, features));
  // What the caller has set for its own sessions is not for these.
  const foreign = Object.entries(env).filter(([name]) => !name.startsWith("RKAT_"));
  const own = { HOME: folder, XDG_DATA_HOME: join(folder, "data"), RKAT_FEATURES: features.join(",") || "none" };
  return { folder, env: { ...Object.fromEntries(foreign), ...own } };
}

const ANY_PORT = ["--port", "0"];

async function openRest(start: Start): Promise<Driver> {
  return createRestDriver(await openRestServer(start));
}

/** Starts a server of REST on a free port. */
export function openRestServer(start: Start) {
  return openServer({ ...start, args: [...start.args, ...ANY_PORT, "--json"] }, "stdout", (line) => {
    const [, url] = /"url":\s*"([^"]+)"/.exec(line) ?? [];
    return url;
  });
}

async function openMcpOverHttp(start: Start): Promise<Driver> {
  const args = [...start.args, "--http", ...ANY_PORT];
  const server = await openServer({ ...start, args }, "stderr", (line) => {
    const [, url] = /listening on (http\S+)/.exec(line) ?? [];
    return url;
  });
  let { url } = server;
  return openMcpDriver({
    surface: "mcp-http",
    lacks: () => undefined,
    open: () => connectHttp(url, undefined),
    restart: async () => {
      url = await server.restart();
    },
    close: server.close,
  });
}

/** Starts a server that says where it listens. */
async function openServer(start: Start, says: "stdout" | "stderr", read: (line: string) => string | undefined) {
  const open = async () => {
    const child = await startChild(start);
    try {
      return { child, url: await withinTime(firstLine(child, says, read), start.command) };
    } catch (thrown) {
      await child.stop();
      throw thrown;
    }
  };
  let server = await open();
  return {
    url: server.url,
    restart: async () => {
      await server.child.stop();
      server = await open();
      return server.url;
    },
    close: () => server.child.stop(),
  };
}
