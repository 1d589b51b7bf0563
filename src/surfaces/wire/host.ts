import { type SkillRow, skillsWith } from "../../contract/memory.ts";
import { CONTRACT_VERSION } from "../../contract/version.ts";
import type { Runtime } from "../../runtime.ts";
import { type Method, withSessionRefs } from "../rpc/operation-methods.ts";
import { BACKEND } from "./realm.ts";

/** What a client may know of the process that serves it. */
export interface Host {
  readonly realm: string;
  readonly instance?: string | undefined;
  readonly stateRoot?: string | undefined;
  readonly contextRoot?: string | undefined;
}

const { major, minor, patch } = CONTRACT_VERSION;
const VERSION = `${major}.${minor}.${patch}`;
// Clients written for this wire know the server by this name.
const SERVER = { name: "meerkat-rpc", version: VERSION };

/** The methods that describe the server rather than work on a session. `methods` lists everything that is served. */
export function createHostMethods(
  runtime: Pick<Runtime, "dispatch">,
  host: Host,
  methods: () => readonly string[],
): Readonly<Record<string, Method>> {
  const instance = host.instance === undefined ? {} : { instance_id: host.instance };
  const health = { contract_version: CONTRACT_VERSION, status: "ok" };
  const capabilities = async () => ({ contract_version: CONTRACT_VERSION, features: await featuresOf(runtime) });
  return {
    initialize: () => ({ server_info: SERVER, contract_version: VERSION, methods: methods() }),
    "runtime/health": () => health,
    "runtime/capabilities": capabilities,
    "runtime/host_info": async () => ({
      contract_version: CONTRACT_VERSION,
      host_id: host.instance === undefined ? `realm:${host.realm}` : `realm-instance:${host.realm}:${host.instance}`,
      host_id_scope: host.instance === undefined ? "process" : "realm_instance",
      process_name: SERVER.name,
      process_version: SERVER.version,
      capabilities: await capabilities(),
      health,
      realm: {
        realm_id: host.realm,
        ...instance,
        backend: BACKEND,
        ...(host.stateRoot === undefined ? {} : { state_root: host.stateRoot }),
        ...(host.contextRoot === undefined ? {} : { context_root: host.contextRoot }),
      },
      endpoints: { rpc_transport: "stdio", rpc_methods: methods() },
    }),
    "skills/list": async () => ({ skills: await skillsOf(runtime) }),
    "events/snapshot": async (params) => {
      const { contract_version, cursor } = await runtime.dispatch("readEventCursor", params);
      const { scope } = cursor;
      const session = await runtime.dispatch("readSession", { session_id: scope.session_id });
      const snapshot = { type: "session", session: withSessionRefs(session, host.realm) };
      return { contract_version, scope, cursor, snapshot };
    },
  };
}

/** The skills sessions of this runtime may be told of. */
export async function skillsOf(runtime: Pick<Runtime, "dispatch">): Promise<readonly SkillRow[]> {
  const { capabilities } = await runtime.dispatch("readCapabilities", {});
  return skillsWith({ memory: capabilities.some(({ id, status }) => id === "memory_store" && status === "Available") });
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
