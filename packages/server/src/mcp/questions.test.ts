import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { AskUser, type Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { connectMcp } from "../../../../test/support/mcp-connection.ts";

const TASK = { calls: [{ id: "c1", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } }] };

/** A client whose person says this, and what the person was asked. */
async function connect(word: ElicitResult) {
  const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
  const asked: string[] = [];
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push(params.message);
    return word;
  });
  const model = createScriptedModel([TASK, TASK, { text: "Done." }]);
  return { ...(await connectMcp({ model }, { client })), asked, model };
}

const run = { prompt: "Go.", tool_preset: "safe", permissions: { ask: ["task_create"] } };

describe("a client that can ask the person in front of it", () => {
  it("[I2] is handed the question, and the word counts for as long as it says", async () => {
    const { call, asked, close } = await connect({ action: "accept", content: { decision: "session" } });
    expect(await call("meerkat_run", run)).toMatchObject({ isError: false, payload: { content: [{ text: "Done." }] } });
    expect(asked).toEqual([expect.stringMatching(/^May it run\?\ntask_create .*Feed the heron/)]);
    await close();
  });

  it("[T1] is handed the form of an MCP server that asks, one call after the other", async () => {
    const schema = { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] };
    const paint: Tool = {
      name: "paint",
      description: "Paints.",
      inputSchema: { type: "object" },
      execute: (_, { answered }) =>
        answered === undefined
          ? new AskUser({ server: "walls", message: "Which colour?", schema }, {})
          : JSON.stringify(answered.answer),
    };
    const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
    const asked: unknown[] = [];
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      asked.push(params);
      return asked.length === 1 ? { action: "accept", content: { colour: "red" } } : { action: "decline" };
    });
    const calls = ["c1", "c2"].map((id) => ({ id, name: "paint", args: {} }));
    const model = createScriptedModel([{ calls }, { text: "Done." }]);
    const { call, close } = await connectMcp({ model, tools: [paint] }, { client });
    await call("meerkat_run", { prompt: "Go.", tool_preset: "safe" });
    const form = { mode: "form", message: "MCP server walls asks: Which colour?", requestedSchema: schema };
    expect(asked).toEqual([form, form]);
    const results = JSON.stringify(model.requests.at(-1)?.messages.at(-1));
    expect(results).toContain(JSON.stringify('{"action":"accept","content":{"colour":"red"}}'));
    expect(results).toContain(JSON.stringify('{"action":"decline"}'));
    await close();
  });

  it("[I2] says no for a person who declines, with the reason", async () => {
    const { call, model, close } = await connect({ action: "decline" });
    await call("meerkat_run", run);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("not run: the user denied it");
    await close();
  });
});
