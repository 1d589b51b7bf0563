import { join } from "node:path";
import { ERRORS } from "@rkat/core/contract/error";
import { AgentEvent } from "@rkat/core/contract/event";
import { z } from "@rkat/core/contract/schema";
import { openApiDocument } from "@rkat/server/rest/openapi";
import { expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { connectMcp } from "./support/mcp-connection.ts";
import { connectRpc } from "./support/rpc-connection.ts";

// A chosen difference is written with `npx vitest run test/seen-by-clients.test.ts -u`, and read in the diff of the commit.
const fixture = (name: string): string => join(import.meta.dirname, "fixtures/seen-by-clients", name);
const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
const line = useCommandLine();

it("[G1] the OpenAPI document is what clients have seen", async () => {
  await expect(json(openApiDocument("1.2.3")("http://localhost"))).toMatchFileSnapshot(fixture("openapi.json"));
});

it("[G1] the methods of JSON-RPC are what clients have seen", async () => {
  const { client } = connectRpc();
  const { methods } = await client.request("initialize");
  client.end();
  await expect(json(methods)).toMatchFileSnapshot(fixture("rpc-methods.json"));
});

it("[G1] the list of MCP tools is what clients have seen", async () => {
  const { client, close } = await connectMcp({}, { allTools: true });
  const { tools } = await client.listTools();
  await close();
  await expect(json(tools)).toMatchFileSnapshot(fixture("mcp-tools.json"));
});

it("[G1] errors and events are what clients have seen", async () => {
  await expect(json(ERRORS)).toMatchFileSnapshot(fixture("errors.json"));
  await expect(json(z.toJSONSchema(AgentEvent))).toMatchFileSnapshot(fixture("events.json"));
});

it("[G1] the help of every command is what people have seen", async () => {
  const pages: string[] = [];
  const read = async (words: readonly string[]): Promise<void> => {
    const { stdout } = await line.run([...words, "--help"]);
    pages.push(`$ rkat ${[...words, "--help"].join(" ")}\n${stdout}`);
    const [, list = ""] = stdout.split("\nCommands\n");
    const names = [...(list.split("\nOptions\n")[0] ?? "").matchAll(/^ {2}([a-z][a-z-]*) {2,}\S/gm)].map(
      ([, name = ""]) => name,
    );
    if (words.length < 2) for (const name of names) await read([...words, name]);
  };
  await read([]);
  await expect(pages.join("\n")).toMatchFileSnapshot(fixture("help.txt"));
});
