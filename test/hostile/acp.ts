import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { serveStdio } from "@rkat/server/acp/serve-stdio";
import type { Attack, AttackOptions } from "./attack.ts";
import { createCases } from "./inputs.ts";
import { attackLines, type LineSurface, wronged } from "./lines.ts";
import { attackTarget } from "./target.ts";

const text: JsonSchema = { type: "string" };
const sessionId: JsonSchema = { type: "string", format: "uuid" };
const servers: JsonSchema = {
  type: "array",
  items: {
    type: "object",
    properties: {
      type: { enum: ["http", "sse"] },
      name: text,
      command: text,
      args: { type: "array", items: text },
      env: { type: "array" },
      url: text,
      headers: { type: "array" },
    },
    required: ["name"],
  },
};
const block: JsonSchema = {
  type: "object",
  properties: {
    type: { enum: ["text", "image", "audio", "resource", "resource_link"] },
    text,
    data: text,
    mimeType: text,
    uri: text,
    name: text,
    resource: { type: "object", properties: { uri: text, text, blob: text } },
  },
  required: ["type", "text"],
};
const cwd: JsonSchema = { enum: ["/", "/tmp", "here", ""] };

const object = (properties: Readonly<Record<string, JsonSchema>>, required: string[] = []): JsonSchema => ({
  type: "object",
  properties,
  required,
});

/** The methods of the protocol, with what they take. */
const METHODS: Readonly<Record<string, JsonSchema>> = {
  initialize: object({ protocolVersion: { type: "integer" }, clientCapabilities: { type: "object" } }, [
    "protocolVersion",
  ]),
  authenticate: object({ methodId: text }),
  "session/new": object({ cwd, mcpServers: { type: "array", maxItems: 0 } }, ["cwd", "mcpServers"]),
  "session/load": object({ sessionId, cwd, mcpServers: servers }, ["sessionId", "cwd", "mcpServers"]),
  "session/resume": object({ sessionId, cwd }, ["sessionId", "cwd"]),
  "session/list": object({ cursor: text }),
  "session/close": object({ sessionId }, ["sessionId"]),
  "session/delete": object({ sessionId }, ["sessionId"]),
  "session/set_mode": object({ sessionId, modeId: { enum: ["none", "safe", "workspace", "wild"] } }, [
    "sessionId",
    "modeId",
  ]),
  "session/set_config_option": object({ sessionId, configId: { enum: ["model", "tools", "x"] }, value: text }, [
    "sessionId",
    "configId",
    "value",
  ]),
  "session/prompt": object({ sessionId, prompt: { type: "array", items: block } }, ["sessionId", "prompt"]),
  "session/cancel": object({ sessionId }, ["sessionId"]),
  "$/cancel_request": object({ requestId: { type: "integer" } }),
  "no/such_method": { type: "object" },
};

/** Numbers that this protocol has for codes; every other is that of a failure of the agent. */
const NUMBERS: Readonly<Record<string, number>> = {
  INVALID_PARAMS: -32_602,
  SESSION_NOT_FOUND: -32_002,
  REQUEST_CANCELLED: -32_800,
  PARSE_ERROR: -32_700,
  INVALID_REQUEST: -32_600,
  PAYLOAD_TOO_LARGE: -32_010,
};
const OPEN_MAX = 16;

/** Messages with something wrong in them, to an agent on a pipe. */
export function attackAcp(options: AttackOptions): Promise<Attack> {
  const clock = createSystemClock();
  return attackTarget(options, (target) => {
    const { draw, runtime } = target;
    const nextCase = createCases(Object.entries(METHODS), draw);
    const open: string[] = [];
    const openServers = async () => ({
      prepare: async () => {},
      tools: () => [],
      report: () => [],
      close: async () => {},
    });
    const place = {
      root: "/project",
      runtime,
      most: "workspace",
      openServers,
      placeOf: async (path: string) => path,
      keyless: [],
    } as const;
    const surface: LineSurface = {
      serve: (streams) =>
        serveStdio({
          ...streams,
          clock,
          version: "1.2.3",
          folderOf: async () => place,
          knownFolders: async () => [place],
        }),
      probe: { method: "session/list", params: {} },
      numberOf: (code) => NUMBERS[code] ?? -32_603,
      request: (id) => {
        const { row: method, value: params } = nextCase();
        return wronged({ jsonrpc: "2.0", id, method, params }, draw);
      },
      followUp: ({ sessionId: made }) => {
        if (typeof made !== "string") return undefined;
        target.know(made);
        open.push(made);
        const [oldest] = open.length > OPEN_MAX ? open.splice(0, 1) : [];
        if (oldest === undefined) return undefined;
        return { jsonrpc: "2.0", id: 1, method: "session/close", params: { sessionId: oldest } };
      },
    };
    return attackLines(target, surface, options.inputs);
  });
}
