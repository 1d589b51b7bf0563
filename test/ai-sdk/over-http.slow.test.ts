import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { type CompactionReport, createCompaction } from "@rkat/core/ai-sdk";
import { generateText, wrapLanguageModel } from "ai";
import { expect, it } from "vitest";
import { isSummaryRequest, LOOP, tokensOf, WINDOW } from "./scripted-agent.ts";

const STEPS = 300;

/** What a server that speaks OpenAI's format is asked for. */
interface Body {
  readonly messages: readonly {
    readonly role: string;
    readonly tool_call_id?: string;
    readonly tool_calls?: { id: string }[];
  }[];
  readonly stream?: boolean;
}

/** Refuses what a real one refuses: more than its window, and results whose calls are not there. */
function refusalOf(text: string, { messages }: Body): string | undefined {
  const tokens = tokensOf(JSON.parse(text));
  if (tokens > WINDOW) return `This model's maximum context length is ${WINDOW} tokens, but there are ${tokens}.`;
  const asked = messages.flatMap(({ tool_calls }) => tool_calls?.map(({ id }) => id) ?? []);
  const answered = messages.flatMap(({ tool_call_id }) => tool_call_id ?? []);
  return asked.join() === answered.join() ? undefined : "calls and results do not belong together";
}

it("[G9] an agent of the AI SDK runs 300 steps over HTTP against a window of 8,000 tokens", async () => {
  let step = 0;
  let summaries = 0;
  let tokensMax = 0;
  const refused: string[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const body: Body = JSON.parse(text);
    tokensMax = Math.max(tokensMax, tokensOf(body));
    const refusal = refusalOf(text, body);
    if (refusal !== undefined) {
      refused.push(refusal);
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: refusal, type: "invalid_request_error", code: null } }));
      return;
    }
    const isSummary = isSummaryRequest(text);
    if (isSummary) summaries += 1;
    else step += 1;
    const call = { name: "readBatch", arguments: JSON.stringify({ batch: step }) };
    const isCall = !isSummary && step <= STEPS;
    const said = isCall
      ? {
          role: "assistant",
          content: null,
          tool_calls: [{ index: 0, id: `c${step}`, type: "function", function: call }],
        }
      : { role: "assistant", content: isSummary ? `Read up to batch ${step}.` : "All batches are read." };
    const choice = { index: 0, finish_reason: isCall ? "tool_calls" : "stop" };
    if (body.stream === true) {
      const frame = { id: "1", object: "chat.completion.chunk", choices: [{ ...choice, delta: said }] };
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`data: ${JSON.stringify(frame)}\n\ndata: [DONE]\n\n`);
      return;
    }
    const usage = { prompt_tokens: tokensOf(body), completion_tokens: 10, total_tokens: tokensOf(body) + 10 };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(
      JSON.stringify({ id: "1", object: "chat.completion", choices: [{ ...choice, message: said }], usage }),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // It listens on a port.
  try {
    const provider = createOpenAICompatible({ name: "local", baseURL: `http://127.0.0.1:${port}/v1` });
    const reports: CompactionReport[] = [];
    const { middleware } = createCompaction({
      contextWindow: WINDOW,
      onCompaction: (report) => void reports.push(report),
    });
    const model = wrapLanguageModel({ model: provider("any"), middleware });
    const { text, steps } = await generateText({ ...LOOP, model });
    expect(text).toBe("All batches are read.");
    expect(steps).toHaveLength(STEPS + 1);
    expect(refused).toEqual([]);
    expect(tokensMax).toBeLessThan(WINDOW);
    expect(reports.filter(({ ok }) => !ok)).toEqual([]);
    expect(summaries).toBe(reports.length);
  } finally {
    server.close();
  }
});
