import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { createTools } from "@rkat/server/mcp/tools";
import { chance, pick } from "../compaction/chances.ts";
import { createCases, type Draw, fitting, mutated, nasty } from "./inputs.ts";
import { wronged } from "./lines.ts";

/** What a client of MCP greets with. */
export const GREETING = {
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "hostile", version: "1" } },
} as const;

const GREETING_SCHEMA: JsonSchema = {
  type: "object",
  properties: {
    protocolVersion: { type: "string" },
    capabilities: { type: "object" },
    clientInfo: {
      type: "object",
      properties: { name: { type: "string" }, version: { type: "string" } },
      required: ["name", "version"],
    },
  },
  required: ["protocolVersion", "capabilities", "clientInfo"],
};

const METHODS: Readonly<Record<string, JsonSchema>> = {
  initialize: GREETING_SCHEMA,
  ping: { type: "object" },
  "tools/list": { type: "object", properties: { cursor: { type: "string" } } },
  "logging/setLevel": {
    type: "object",
    properties: { level: { enum: ["debug", "info", "error"] } },
    required: ["level"],
  },
  "resources/read": { type: "object", properties: { uri: { type: "string" } } },
  "prompts/get": { type: "object", properties: { name: { type: "string" } } },
  "tasks/get": { type: "object", properties: { taskId: { type: "string" } } },
  "completion/complete": { type: "object" },
  "no/such_method": { type: "object" },
};
const CALL_SHARE = 0.8;
const WRONG_SHARE = 0.1;

/** Makes messages of MCP with something wrong in them: most call a tool. */
export function createMessages(draw: Draw): (id: number) => unknown {
  const tools = [...createTools({ memoryOnly: false }).values()].map(
    // A tool's schema is a JSON schema.
    ({ tool }) => [tool.name, tool.inputSchema as JsonSchema] as const,
  );
  const nextCase = createCases(tools, draw);
  const others = Object.entries(METHODS);
  const called = (): readonly [string, unknown] => {
    const { row: name, value } = nextCase();
    const params = { name, arguments: value };
    if (chance(draw.random, 1 - WRONG_SHARE)) return ["tools/call", params];
    const field = pick(draw.random, ["name", "arguments", "_meta", "task"]) ?? "";
    return ["tools/call", { ...params, [field]: nasty(draw) }];
  };
  const other = (): readonly [string, unknown] => {
    const [method, schema] = pick(draw.random, others) ?? ["", {}];
    return [method, chance(draw.random, 0.3) ? fitting(schema, draw) : mutated(schema, draw)];
  };
  return (id) => {
    const [method, params] = chance(draw.random, CALL_SHARE) ? called() : other();
    return wronged({ jsonrpc: "2.0", id, method, params }, draw);
  };
}
