// An agent of the AI SDK that keeps its own loop: its messages are compacted, and a receipt tells what left them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, tool, wrapLanguageModel } from "ai";
import { type CompactionReport, createCompaction } from "rkat/ai-sdk";
import { z } from "zod";

const [WINDOW, STEPS] = [8_000, 60];

// Stands in for a small local model: it reads pages one by one, and refuses a request that is larger than its window.
let page = 0;
let largest = 0;
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  largest = Math.max(largest, body.length / 4);
  const isSummary = body.includes("CONTEXT COMPACTION");
  if (!isSummary) page += 1;
  const isCall = !isSummary && page <= STEPS;
  const call = {
    index: 0,
    id: `c${page}`,
    type: "function",
    function: { name: "read", arguments: `{"page":${page}}` },
  };
  const text = isSummary ? `Pages up to ${page} are read; the key of page 1 is KX-4711.` : "Every page is read.";
  const message = { role: "assistant", content: isCall ? null : text, ...(isCall ? { tool_calls: [call] } : {}) };
  const choice = { index: 0, finish_reason: isCall ? "tool_calls" : "stop" };
  response.writeHead(largest > WINDOW ? 400 : 200, { "content-type": "text/event-stream" });
  if (JSON.parse(body).stream !== true) response.end(JSON.stringify({ id: "1", choices: [{ ...choice, message }] }));
  else
    response.end(`data: ${JSON.stringify({ id: "1", choices: [{ ...choice, delta: message }] })}\n\ndata: [DONE]\n\n`);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
const local = createOpenAICompatible({ name: "local", baseURL: `http://127.0.0.1:${port}/v1` });

const reports: CompactionReport[] = [];
const { middleware } = createCompaction({ contextWindow: WINDOW, onCompaction: (report) => void reports.push(report) });

const { text } = await generateText({
  model: wrapLanguageModel({ model: local("any-model"), middleware }),
  prompt: "Read every page.",
  stopWhen: isStepCount(STEPS + 1),
  maxRetries: 0,
  tools: {
    read: tool({
      description: "Reads a page.",
      inputSchema: z.object({ page: z.number() }),
      execute: ({ page }) => `Page ${page}. Its key is KX-${4_710 + page}. ${"Nothing else is on it. ".repeat(40)}`,
    }),
  },
});

assert.equal(text, "Every page is read.");
assert.ok(largest < WINDOW, `the largest request had about ${largest} tokens`);
const made = reports.filter((report) => report.ok);
assert.ok(made.length > 2 && made.length === reports.length);
for (const { tokens, receipt } of made) {
  console.log(`${tokens.before} → ${tokens.after} tokens; of ${receipt.total} facts ${receipt.lost} are lost`);
}
const first = made.at(0)?.receipt.items.find((item) => item.text === "KX-4711");
assert.equal(first?.status, "in_summary");
server.close();
