import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { type JsonSchema, operationSchema } from "@rkat/core/contract/wire/requests";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { serveRpc } from "@rkat/server/rpc/serve";
import type { Attack, AttackOptions } from "./attack.ts";
import { createCases } from "./inputs.ts";
import { attackLines, type LineSurface, wronged } from "./lines.ts";
import { attackTarget, REALM } from "./target.ts";

const ONE_SESSION: JsonSchema = {
  type: "object",
  properties: { session_id: { type: "string", format: "uuid" } },
  required: ["session_id"],
};
const TOOLS: JsonSchema = {
  type: "array",
  items: {
    type: "object",
    properties: { name: { type: "string" }, description: { type: "string" }, input_schema: { type: "object" } },
    required: ["name"],
  },
};

/** The methods that are no operations of the table, with what they take. */
const OTHERS: Readonly<Record<string, JsonSchema>> = {
  initialize: { type: "object" },
  "runtime/host_info": { type: "object" },
  "runtime/capabilities": { type: "object" },
  "config/get": { type: "object" },
  "skills/list": { type: "object" },
  "events/snapshot": operationSchema("readEventCursor", "input"),
  "tools/register": { type: "object", properties: { tools: TOOLS }, required: ["tools"] },
  "session/stream_open": ONE_SESSION,
  "session/stream_close": { type: "object", properties: { stream_id: { type: "string" } }, required: ["stream_id"] },
  cancel: { type: "object", properties: { request_id: { type: "integer" } } },
  "no/such_method": { type: "object" },
};

/** Frames with something wrong in them, to a server of JSON-RPC. */
export function attackRpc(options: AttackOptions): Promise<Attack> {
  // The keys of OPERATIONS are the names of operations.
  const rows = (Object.keys(OPERATIONS) as OperationName[]).map(
    (name) => [OPERATIONS[name].rpc, operationSchema(name, "input")] as const,
  );
  const methods = [...rows, ...Object.entries(OTHERS)];
  const about = { log: () => {}, host: { realm: REALM, config: {} }, clock: createSystemClock() };
  return attackTarget(options, (target) => {
    const { draw, runtime } = target;
    const nextCase = createCases(methods, draw);
    const surface: LineSurface = {
      serve: (streams) => serveRpc({ ...streams, ...about, runtime }),
      probe: { method: "session/create", params: { prompt: "Are you there?" } },
      request: (id) => {
        const { row: method, value: params } = nextCase();
        return wronged({ jsonrpc: "2.0", id, method, params }, draw);
      },
      followUp: ({ opened, stream_id }) =>
        opened === true ? { jsonrpc: "2.0", id: 1, method: "session/stream_close", params: { stream_id } } : undefined,
    };
    return attackLines(target, surface, options.inputs);
  });
}
