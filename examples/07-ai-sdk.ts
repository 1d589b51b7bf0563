// Any model of the AI SDK can be the model of a runtime. Here one of its providers talks to a local server.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createRuntime, defineTool } from "rkat";
import { z } from "zod";

// Stands in for vLLM, llama.cpp or Ollama: first it calls the tool, then it reads the tool's result out.
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  const last = JSON.parse(body).messages.at(-1);
  const call = { index: 0, id: "c1", type: "function", function: { name: "stock", arguments: '{"item":"bolts"}' } };
  const delta = last.role === "tool" ? { content: `There are ${last.content}.` } : { tool_calls: [call] };
  const finish_reason = last.role === "tool" ? "stop" : "tool_calls";
  const frame = { id: "1", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] };
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(`data: ${JSON.stringify(frame)}\n\ndata: [DONE]\n\n`);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;

const provider = createOpenAICompatible({ name: "local", baseURL: `http://127.0.0.1:${port}/v1` });
const stock = defineTool({
  name: "stock",
  description: "How many of an item are in stock.",
  input: z.strictObject({ item: z.string().describe("The item's name") }),
  run: ({ item }) => `12 ${item}`,
});

const runtime = createRuntime({ model: provider("any-model"), tools: [stock] });
const session = await runtime.createSession("How many bolts do we have?");
console.log(session.text);
assert.equal(session.text, "There are 12 bolts.");

await runtime.close();
server.close();
