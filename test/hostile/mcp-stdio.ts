import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createServers } from "@rkat/server/mcp/server";
import { serveStdio } from "@rkat/server/mcp/start";
import type { Attack, AttackOptions } from "./attack.ts";
import { attackLines } from "./lines.ts";
import { createMessages } from "./mcp-messages.ts";
import { attackTarget, REALM } from "./target.ts";

/** Messages with something wrong in them, to a server of MCP on a pipe. */
export function attackMcpStdio(options: AttackOptions): Promise<Attack> {
  const clock = createSystemClock();
  return attackTarget(options, (target) => {
    const { runtime } = target;
    const createServer = createServers({ runtime, realm: REALM, version: "1.2.3", memoryOnly: false, clock });
    const surface = {
      serve: (streams: Omit<Parameters<typeof serveStdio>[0], "createServer" | "clock">) =>
        serveStdio({ createServer, clock, ...streams }),
      probe: { method: "tools/call", params: { name: "meerkat_run", arguments: { prompt: "Are you there?" } } },
      request: createMessages(target.draw),
    };
    return attackLines(target, surface, options.inputs);
  });
}
