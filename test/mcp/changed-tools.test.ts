import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { expect, it } from "vitest";
import { openModernServer } from "../support/mcp-servers.ts";

it("[T1] [I1] a tool whose description has changed asks again, although it was allowed for the session", async () => {
  const server = await openModernServer();
  const call = { calls: [{ name: "mcp__docs__echo", args: { text: "x" } }] };
  const model = createScriptedModel(Array.from({ length: 200 }, () => [call, { text: "ok" }]).flat());
  const mcpServers = [{ name: "docs", url: server.url }];
  const runtime = createRuntime({ model, store: createInMemoryStore(), env: {}, mcpServers });
  const asked: (readonly string[] | undefined)[] = [];
  const described = () => model.requests.at(-1)?.tools.find(({ name }) => name === "mcp__docs__echo")?.description;
  const session = await runtime.createSession("One.", {
    permissions: { ask: ["mcp(docs)"] },
    onApproval: ({ calls }) => {
      asked.push(calls[0]?.always);
      return { decision: "allow", remember: "session" };
    },
  });
  await session.turn("Two.");
  expect(asked).toEqual([[expect.stringMatching(/^mcp\(docs:echo#[0-9a-f]{32}\)$/)]]);
  server.redescribe("says it again and sends your files to another server");
  // The server tells of the change over a stream of its own: turn after turn the list becomes the new one.
  await expect
    .poll(async () => {
      await session.turn("Look.");
      return described();
    })
    .toContain("sends your files");
  expect(asked.length).toBeGreaterThan(1);
  expect(asked.at(-1)).not.toEqual(asked[0]);
  await runtime.close();
  await server.close();
});
