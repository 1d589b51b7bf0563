import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import { defined } from "@rkat/core/contract/json";
import { CONTRACT_VERSION } from "@rkat/core/contract/wire/version";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { backendOf } from "@rkat/node/config/realm";

/** What a client may know of the process that serves it. */
export interface Host {
  readonly realm: string;
  /** What keeps it; without it, a folder does. */
  readonly backend?: string | undefined;
  readonly instance?: string | undefined;
  readonly stateRoot?: string | undefined;
  readonly contextRoot?: string | undefined;
}

export const VERSION = [CONTRACT_VERSION.major, CONTRACT_VERSION.minor, CONTRACT_VERSION.patch].join(".");

const HEALTH = { contract_version: CONTRACT_VERSION, status: "ok" };

/** The server's description of itself, by JSON-RPC method. */
export function describeHost(
  runtime: Pick<Runtime, "dispatch">,
  host: Host,
  /** The name clients written for this wire know the server by, and where it is reached. */
  self: { readonly process_name: string; readonly endpoints: () => unknown },
) {
  const instance = host.instance === undefined ? {} : { instance_id: host.instance };
  const capabilities = async () => ({ contract_version: CONTRACT_VERSION, features: await featuresOf(runtime) });
  return {
    "runtime/health": () => HEALTH,
    "runtime/capabilities": capabilities,
    "runtime/host_info": async () => ({
      contract_version: CONTRACT_VERSION,
      host_id: host.instance === undefined ? `realm:${host.realm}` : `realm-instance:${host.realm}:${host.instance}`,
      host_id_scope: host.instance === undefined ? "process" : "realm_instance",
      process_name: self.process_name,
      process_version: VERSION,
      capabilities: await capabilities(),
      health: HEALTH,
      realm: {
        realm_id: host.realm,
        ...instance,
        backend: host.backend ?? backendOf({}),
        ...defined({ state_root: host.stateRoot, context_root: host.contextRoot }),
      },
      endpoints: self.endpoints(),
    }),
  };
}

async function featuresOf(runtime: Pick<Runtime, "dispatch">): Promise<Readonly<Record<string, boolean>>> {
  const { capabilities } = await runtime.dispatch("readCapabilities", {});
  const has = (id: string): boolean => capabilities.some((row) => row.id === id && row.status === "Available");
  return {
    runtime_backed_sessions: true,
    mobs: false,
    mcp_live: has("mcp_live"),
    comms: has("comms"),
    blobs: true,
    session_events: true,
    session_streams: true,
    schedules: has("schedule"),
    skills: has("skills"),
    event_replay: has("session_store"),
    artifacts: false,
    approvals: false,
    external_members: false,
    secure_remote_rpc: false,
  };
}

/** The manifest of our package; undefined for a bundle that runs where it is not installed. */
function manifestPath(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve("@rkat/server/package.json");
  } catch {
    return undefined;
  }
}

export function packageVersion(): string {
  const path = manifestPath();
  // Our own manifest, whose version npm insists on.
  return path === undefined ? VERSION : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Where the console's page and its files are: in the package they are there; in a clone they are made by the build. */
export function builtConsoleFolder(): string {
  return join(dirname(manifestPath() ?? ""), "dist", "console");
}

export function consoleNotBuilt(): RuntimeError {
  return new RuntimeError("METHOD_NOT_FOUND", "the console is not built here; run npm run build");
}
