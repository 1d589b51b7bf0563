import { invalid, RuntimeError } from "../contract/error.ts";
import type { OperationOutput } from "../contract/operations.ts";
import type { McpServer, SessionSettings } from "../contract/session.ts";
import { appendEntries, type LiveSessions, type LockedWork } from "../sessions/live-sessions.ts";
import type { Configured } from "../sessions/turn-operations.ts";
import type { FixedParts } from "../sessions/turn-runner.ts";
import { requireServerBelow } from "./ceiling.ts";
import type { Service } from "./dispatch.ts";

/** As much of the tools of MCP servers as changing a session's servers needs. */
export interface SessionServerTools {
  /** The field with what gives access in plain text; undefined if there is none. */
  plainSecretOf(server: McpServer): string | undefined;
  /** Ends the connections to servers that the settings do not have any more. */
  drop(before: SessionSettings, now?: SessionSettings): void;
}

interface McpServerParts extends Pick<FixedParts, "store" | "clock" | "redact"> {
  readonly servers: SessionServerTools;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  current(): Pick<Configured, "mcpServersOf" | "defaults">;
}

type Change = OperationOutput<"addMcpServer">;
type Target = Pick<Change, "session_id" | "server_name">;
type Servers = NonNullable<SessionSettings["mcp_servers"]>;

const ADDED_MAX = 16;

/** The operations that change which MCP servers a session has. A running turn keeps those that it began with. */
export function createMcpServerOperations(
  parts: McpServerParts,
): Pick<Service, "addMcpServer" | "removeMcpServer" | "reloadMcpServers"> {
  const { store, clock, redact, servers, live, locked } = parts;
  const change = async (
    operation: Change["operation"],
    { session_id, server_name }: Target,
    decide: (had: Servers, names: readonly string[], settings: SessionSettings) => Servers,
  ): Promise<Change> => {
    const session = await live.find(session_id);
    const { state } = session;
    const apply = async () => {
      const { settings: before, turnsOpened } = state;
      const how = { status: "staged", persisted: false, applied_at_turn: turnsOpened + 1 } as const;
      const payload = { operation, target: server_name ?? "*", ...how, status_info: { kind: how.status } };
      await appendEntries(store.log, session, () => {
        const { settings } = state;
        const mcp_servers = decide(settings.mcp_servers ?? {}, parts.current().mcpServersOf(settings), settings);
        return [
          { kind: "settings_changed", settings: { ...settings, mcp_servers } },
          { kind: "event", event: { type: "tool_config_changed", payload } },
        ];
      });
      servers.drop(before, state.settings);
      return how;
    };
    const how = await (session.isRunning ? apply() : locked.run(session, {}, apply));
    return { session_id, operation, ...(server_name === undefined ? {} : { server_name }), ...how };
  };
  return {
    addMcpServer: async ({ session_id, server_config }, { caller }) => {
      const { name: server_name } = server_config;
      if (Object.keys(caller?.labels ?? {}).length > 0) {
        const why = "it decides what is started and where things are sent, and this token has labels";
        throw new RuntimeError("PERMISSION_DENIED", `server_config: ${why}`);
      }
      requireServerBelow(server_config, parts.current().defaults.ceiling);
      const written = JSON.stringify(server_config);
      const plain = servers.plainSecretOf(server_config);
      if (plain !== undefined || redact(written) !== written) {
        const field = ["server_config", ...(plain === undefined ? [] : [plain])].join(".");
        const why =
          "the session's log would keep what gives access; write the name of a variable of the runtime instead";
        throw invalid(`${field}: ${why}, like \${NAME}`);
      }
      return change("add", { session_id, server_name }, ({ added = [], ...had }, names, { tools }) => {
        if (tools.mcp === false) throw invalid(`session_id: session ${session_id} was created without tools`);
        if (names.includes(server_name))
          throw invalid(`server_config.name: session ${session_id} has a server ${server_name}; remove it first`);
        if (added.length >= ADDED_MAX)
          throw invalid(`server_config: session ${session_id} has ${ADDED_MAX} added servers; remove one first`);
        return { ...had, added: [...added, { ...server_config, id: clock.newId() }] };
      });
    },
    removeMcpServer: (input) =>
      change("remove", input, ({ added = [], removed = [], ...had }, names) => {
        requireServer(input, names);
        const left = added.filter(({ name }) => name !== input.server_name);
        return { ...had, added: left, removed: left.length < added.length ? removed : [...removed, input.server_name] };
      }),
    reloadMcpServers: (input) =>
      change("reload", input, ({ added = [], reloaded = {}, ...had }, names) => {
        if (input.server_name !== undefined) requireServer(input, names);
        const isMeant = (name: string): boolean => name === (input.server_name ?? name);
        const again = added.map((server) => (isMeant(server.name) ? { ...server, id: clock.newId() } : server));
        const others = names.filter((name) => isMeant(name) && !added.some((server) => server.name === name));
        const times = Object.fromEntries(others.map((name) => [name, clock.now()]));
        return { ...had, added: again, reloaded: { ...reloaded, ...times } };
      }),
  };
}

function requireServer({ session_id, server_name = "" }: Target, names: readonly string[]): void {
  if (names.includes(server_name)) return;
  const known = names.length === 0 ? "it has none" : `it has ${names.join(", ")}`;
  throw invalid(`server_name: session ${session_id} has no MCP server ${server_name}; ${known}`);
}
