import { readConfiguration } from "../configuration.ts";
import { interruptedExit, writeJson } from "../io.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { counted, withoutControls } from "../plain-text.ts";

/** Connects to the servers of this folder and shows their tools, or in a sentence why there are none. */
export async function listServers(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io, parts, place } = invocation;
  const { mcpServers } = await readConfiguration(invocation);
  const options = { mcpServers, env: io.env, projectRoot: place().projectRoot, signal: io.interrupt };
  const { servers, warnings } = await parts.inspectMcpServers(options);
  const isHealthy = servers.every(({ state }) => state !== "failed");
  invocation.exitWith(interruptedExit(io) ?? (isHealthy ? 0 : 1));
  if (isJson) return writeJson(io, { servers, warnings });
  const { dim, green, red, yellow } = createPaint(io.stdout, io.env);
  const write = (line: string) => io.stdout.write(`${line}\n`);
  if (servers.length === 0) write("No MCP servers. rkat mcp add NAME -- COMMAND names one in .rkat/mcp.toml");
  const width = Math.max(0, ...servers.map(({ name }) => name.length));
  const marks = { connected: green("✓"), failed: red("✗"), off: dim("–") };
  for (const { name, state, tools, error } of servers) {
    const told = state === "connected" ? counted(tools.length, "tool") : (error ?? "switched off");
    write(`${marks[state]} ${name.padEnd(width)}  ${withoutControls(told)}`);
    for (const tool of tools) write(`${" ".repeat(width + 4)}${dim(tool)}`);
  }
  // That a server failed is said above.
  const others = warnings.filter((sentence) => !servers.some(({ error = "\0" }) => sentence.endsWith(error)));
  for (const sentence of others) io.stderr.write(`${yellow(`! ${withoutControls(sentence)}`)}\n`);
}
