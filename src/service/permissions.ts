import type { JsonObject } from "../contract/session.ts";
import type { Judged, Permit } from "../core/approval.ts";
import type { SessionState } from "../core/session-state.ts";
import type { Tool } from "../ports/tool.ts";

const ALLOWED: Judged = { verdict: "allow", why: "" };

/** What the calls of a session's tools are judged by. */
export function createPermits(): (state: SessionState, tools: ReadonlyMap<string, Tool>) => Permit {
  return (_state, tools) =>
    async ({ name, args }) => {
      const isAsked = await needsApproval(tools.get(name), args);
      return isAsked ? { verdict: "ask", why: `${name} is a tool that asks before it runs`, always: [name] } : ALLOWED;
    };
}

async function needsApproval(tool: Tool | undefined, args: JsonObject): Promise<boolean> {
  const { needsApproval: needed = false } = tool ?? {};
  return typeof needed === "function" ? await needed(structuredClone(args)) : needed;
}
