import type { BroughtFile } from "../../../config/load-config.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { readConfiguration } from "../configuration.ts";
import { interruptedExit, writeJson } from "../io.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { counted } from "../plain-text.ts";

/** Connects to the servers of this folder that are trusted and shows their tools, or in a sentence why there are none. */
export async function listServers(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io, parts, place } = invocation;
  const { mcpServers, brought } = await readConfiguration(invocation);
  const options = { mcpServers, env: io.env, projectRoot: place().projectRoot, signal: io.interrupt };
  const { servers, warnings } = await parts.inspectMcpServers(options);
  const isHealthy = servers.every(({ state }) => state !== "failed");
  invocation.exitWith(interruptedExit(io) ?? (isHealthy ? 0 : 1));
  const rows = [...servers, ...untrusted(brought)];
  if (isJson) return writeJson(io, { servers: rows, warnings });
  const { dim, green, red, yellow } = createPaint(io.stdout, io.env);
  if (rows.length === 0) io.stdout.write("No MCP servers. rkat mcp add NAME -- COMMAND names one in .rkat/mcp.toml\n");
  const width = Math.max(0, ...rows.map(({ name }) => name.length));
  const marks = { connected: green("✓"), failed: red("✗"), off: dim("–"), untrusted: yellow("–") };
  for (const { name, state, tools, error } of rows) {
    const told = state === "connected" ? counted(tools.length, "tool") : (error ?? "switched off");
    io.stdout.write(`${marks[state]} ${withoutControls(`${name.padEnd(width)}  ${told}`)}\n`);
    for (const tool of tools) io.stdout.write(`${" ".repeat(width + 4)}${dim(withoutControls(tool))}\n`);
  }
  // That a server failed is said above.
  const others = warnings.filter((sentence) => !servers.some(({ error = "\0" }) => sentence.endsWith(error)));
  for (const sentence of others) io.stderr.write(`${yellow(`! ${withoutControls(sentence)}`)}\n`);
}

/** Servers that were not tried: nobody trusted the file that names them. */
function untrusted(brought: readonly BroughtFile[]) {
  const wishes = brought.filter(({ isObeyed }) => !isObeyed).flatMap((file) => file.wishes);
  return wishes.flatMap(({ server: name, text }) => {
    if (name === undefined) return [];
    return [{ name, state: "untrusted" as const, tools: [], error: `not tried, since nobody trusted it: it ${text}` }];
  });
}
