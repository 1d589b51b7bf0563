import { describe, expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

// The calls that were promised on every surface before there was any, word for word; only the model is ours.

const MEMORY = { prompt: "Analyze the full codebase", enable_memory: true, enable_builtins: true };
const BUDGET = { prompt: "Research this topic", budget_limits: { max_tokens: 10_000, max_tool_calls: 5 } };

const frame = (message: object): string => JSON.stringify({ jsonrpc: "2.0", ...message });
const piped = (command: string, lines: readonly object[]): string =>
  `${command} <<'END'\n${lines.map(frame).join("\n")}\nEND\n`;
const initialize = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "test", version: "1" },
};
const tool = (id: number, args: object) => ({
  id,
  method: "tools/call",
  params: { name: "meerkat_run", arguments: args },
});
const curl = (body: object): string =>
  `curl -sf -X POST http://127.0.0.1:8080/sessions \\\n  -H "Content-Type: application/json" \\\n  -d '${JSON.stringify(body)}'\n`;

const CALLS: Readonly<Record<string, readonly [language: string, text: string, answers: RegExp]>> = {
  "command line": [
    "sh",
    `rkat run "Analyze the full codebase" \\
  --tools full
rkat run "Research this topic" \\
  --max-tokens 10000 \\
  --max-duration 30s \\
  --max-tool-calls 5
`,
    /\w+[\s\S]*\n[\s\S]*\w+/,
  ],
  "JSON-RPC": [
    "sh",
    piped("rkat-rpc", [
      { id: 1, method: "session/create", params: MEMORY },
      { id: 2, method: "session/create", params: BUDGET },
    ]),
    /"id":1,"result":\{"session_id"|"id":2,"result":\{"session_id"/,
  ],
  REST: [
    "sh",
    `rkat-rest --port 8080 2> /dev/null &
curl -s --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:8080/health
${curl(MEMORY)}${curl(BUDGET)}`,
    /ok\{"session_id".*\{"session_id"/,
  ],
  MCP: [
    "sh",
    piped("rkat-mcp", [
      { id: 1, method: "initialize", params: initialize },
      { method: "notifications/initialized" },
      tool(2, { prompt: "Analyze the full codebase", enable_builtins: true, enable_memory: true }),
      tool(3, { ...BUDGET, enable_builtins: true }),
    ]),
    /"structuredContent".*"id":[23]\}\n.*"structuredContent".*"id":[23]\}/,
  ],
  Python: [
    "python",
    `import asyncio
from rkat import connect

async def main():
    client = await connect(command="rkat-rpc")
    result = await client.create_session(
        "Analyze the full codebase",
        enable_memory=True,
        enable_builtins=True,
    )
    print(len(result.text) > 0)
    result = await client.create_session(
        "Research this topic",
        budget_limits={
            "max_tokens": 10000,
            "max_tool_calls": 5,
        },
    )
    print(len(result.text) > 0)
    await client.close()

asyncio.run(main())
`,
    /^True\nTrue\n$/,
  ],
  TypeScript: [
    "ts",
    `import { connect } from "rkat/client";
const client = await connect({ command: "rkat-rpc" });
const result = await client.createSession("Analyze the full codebase", {
  enableMemory: true,
  enableBuiltins: true,
});
const limited = await client.createSession("Research this topic", {
  budgetLimits: {
    max_tokens: 10000,
    max_tool_calls: 5,
  },
});
console.log(result.text.length > 0, limited.text.length > 0);
await client.close();
`,
    /^true true\n$/,
  ],
};

describe("the first calls of every surface", () => {
  it.each(Object.entries(CALLS))(
    "[G5] [G6] %s: run as they were written down",
    async (_, [language, text, answers]) => {
      const { code, output } = await runBlock(language, text);
      expect(code, output).toBe(0);
      expect(output).toMatch(answers);
    },
    90_000,
  );
});
