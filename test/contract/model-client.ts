import type { AssistantBlock, ContentBlock, Message, ToolUseBlock } from "@rkat/core/contract/message";
import type { ModelClient, ModelPart, ModelRequest } from "@rkat/core/ports/model";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Json, Refusal, Scenario, WireFormat } from "../wire/scenario.ts";
import { openWireServer, type WireServer } from "../wire/server.ts";

/** What every client of a model over a network must do, told by the bytes it gets and the bytes it sends. */
export function describeModelClient(format: WireFormat, open: (url: string) => Promise<ModelClient>): void {
  describe(`model client: ${format.name}`, () => {
    let server: WireServer;
    let client: ModelClient;

    beforeEach(async () => {
      server = await openWireServer(format);
      client = await open(server.url);
    });
    afterEach(() => server.close());

    const ask = (request: ModelRequest = HELLO, signal = new AbortController().signal): Promise<ModelPart[]> =>
      partsOf(client.stream(request, signal));
    const failureOf = async (): Promise<ModelPart | undefined> => (await ask()).at(-1);

    it("[A7] streams text as it comes, then its block, then how it finished", async () => {
      server.reply({ kind: "answer", scenario: { text: ["Grüße ", "aus 東京"], usage: { input: 12, output: 5 } } });
      const parts = await ask();
      expect(deltasOf(parts)).toEqual(["Grüße ", "aus 東京"]);
      expect(blocksOf(parts).map(withoutMeta)).toEqual([{ block_type: "text", data: { text: "Grüße aus 東京" } }]);
      expect(parts.at(-1)).toMatchObject({
        type: "finish",
        stopReason: "end_turn",
        usage: { input_tokens: 12, output_tokens: 5 },
      });
    });

    if (format.countsCache !== "nothing") {
      it("[I7] tells what of the input was read from the cache, and what was put into it", async () => {
        const hasWrites = format.countsCache === "reads and writes";
        const usage = { input: 1_000, output: 5, cacheRead: 700, ...(hasWrites ? { cacheWrite: 200 } : {}) };
        server.reply({ kind: "answer", scenario: { text: ["hi"], usage } });
        expect((await ask()).at(-1)).toMatchObject({
          type: "finish",
          usage: {
            input_tokens: 1_000,
            output_tokens: 5,
            cache_read_tokens: 700,
            ...(hasWrites ? { cache_creation_tokens: 200 } : {}),
          },
        });
      });
    }

    it("[A7] says when the output limit cut the answer", async () => {
      server.reply({ kind: "answer", scenario: { text: ["half"], stop: "length" } });
      expect((await ask()).at(-1)).toMatchObject({ type: "finish", stopReason: "max_tokens" });
    });

    it("[B4] an answer without token counts is finished, with none counted", async () => {
      server.reply({ kind: "answer", scenario: { text: ["hi"] } });
      expect((await ask()).at(-1)).toMatchObject({ type: "finish", usage: { input_tokens: 0, output_tokens: 0 } });
    });

    it("[B4] an empty answer is finished, without blocks", async () => {
      server.reply({ kind: "answer", scenario: { usage: { input: 3, output: 0 } } });
      const parts = await ask();
      expect(blocksOf(parts)).toEqual([]);
      expect(parts.at(-1)).toMatchObject({ type: "finish", stopReason: "end_turn" });
    });

    it.each<Refusal>(["rate_limited", "overloaded", "server_error", "context_exceeded", "auth", "model_not_found"])(
      "[B5] a refused call fails as %s, by a part and not an exception",
      async (refusal) => {
        server.reply({ kind: "refuse", refusal });
        const parts = await ask();
        expect(parts).toMatchObject([{ type: "failed", failure: { kind: refusal } }]);
        expect(format.refusals[refusal].status).toBe((parts[0] as { failure: { status: number } }).failure.status);
      },
    );

    it("[B4] Retry-After is passed on", async () => {
      server.reply({ kind: "refuse", refusal: "rate_limited", headers: { "retry-after": "7" } });
      expect(await failureOf()).toMatchObject({ failure: { kind: "rate_limited", retryAfterMs: 7_000 } });
    });

    it.each([
      ["reset", "network"],
      ["truncation", "malformed_stream"],
      ["garbage", "malformed_stream"],
      ["error", format.errorFrame.kind],
    ] as const)("[B5] a stream broken by %s keeps what was said and fails as %s", async (by, kind) => {
      const frames = framesUntil(format, LONG, "one ");
      server.reply({ kind: "break", scenario: LONG, frames, by });
      const parts = await ask();
      expect(deltasOf(parts)).toEqual(["one "]);
      expect(parts.at(-1)).toMatchObject({ type: "failed", failure: { kind } });
      expect(parts.filter(isLast)).toHaveLength(1);
    });

    it("[B5] a stream that breaks before its first word fails the same way", async () => {
      server.reply({ kind: "break", scenario: LONG, frames: 0, by: "garbage" });
      expect(await failureOf()).toMatchObject({ type: "failed", failure: { kind: "malformed_stream" } });
    });

    it("[B5] a stalled stream ends as soon as it is aborted", async () => {
      server.reply({ kind: "break", scenario: LONG, frames: framesUntil(format, LONG, "one "), by: "stall" });
      const abort = new AbortController();
      const parts: ModelPart[] = [];
      for await (const part of client.stream(HELLO, abort.signal)) {
        parts.push(part);
        abort.abort();
      }
      expect(parts.filter(isLast)).toEqual([
        { type: "failed", failure: { kind: "unknown", message: "the call was aborted" } },
      ]);
      await server.hungUp;
    });

    it("[K1] a file, and an image at an address, is sent, or refused in a sentence before anything is", async () => {
      const data = "JVBERi0xLjQgYSBoZXJvbg==";
      const url = "https://example.test/heron.png";
      const blocks: readonly (readonly [ContentBlock, string])[] = [
        [{ type: "file", media_type: "application/pdf", name: "heron.pdf", source: "inline", data }, data],
        [{ type: "image", media_type: "image/*", source: "url", url }, url],
      ];
      for (const [block, mark] of blocks) {
        server.reply({ kind: "answer", scenario: { text: ["A heron."] } });
        const parts = await ask({ messages: [{ role: "user", content: [block], created_at: CREATED }], tools: [] });
        expect(parts.at(-1)).toMatchObject({ type: "finish" });
        const isSent = JSON.stringify(server.requests.at(-1)?.body).includes(mark);
        expect({ block, isSent }).toEqual({ block, isSent: client.refuseContent?.(block) === undefined });
      }
    });

    it("[K1] a call that is forced, and calls one at a time, are sent, or refused in a sentence before anything is", async () => {
      const { forced } = format;
      const tools = [{ name: "look", description: "Looks.", inputSchema: { type: "object" } }];
      const apart = { providerParams: { parallel_tool_calls: false } };
      const sentFor = async (more: Partial<ModelRequest>): Promise<Json | undefined> => {
        server.reply({ kind: "answer", scenario: { text: ["hi"] } });
        await ask({ ...HELLO, ...more });
        return server.requests.at(-1)?.body;
      };
      if (forced === undefined) expect(client.noToolChoice).toMatch(/calls no tools/);
      else {
        expect(client.noToolChoice).toBeUndefined();
        expect(await sentFor({ tools, toolChoice: "required" })).toMatchObject(forced.required);
        expect(await sentFor({ tools, toolChoice: { name: "look" } })).toMatchObject(forced.named);
      }
      const refused = client.refuseParams?.(apart.providerParams);
      if (forced?.apart === undefined) expect(refused).toMatch(/^parallel_tool_calls: /);
      else {
        expect(refused).toBeUndefined();
        expect(await sentFor({ tools, ...apart })).toMatchObject(forced.apart);
        // Without a tool to call, providers refuse it.
        expect(JSON.stringify(await sentFor({ tools: [], ...apart }))).not.toContain("parallel");
      }
    });

    it("[B5] a call that was aborted before it began sends nothing", async () => {
      expect(await ask(HELLO, AbortSignal.abort())).toMatchObject([{ type: "failed" }]);
      expect(server.requests).toEqual([]);
    });

    it("[B5] a listener that stops early closes the connection", async () => {
      server.reply({ kind: "break", scenario: LONG, frames: framesUntil(format, LONG, "one "), by: "stall" });
      for await (const part of client.stream(HELLO, new AbortController().signal))
        if (deltasOf([part]).length > 0) break;
      await server.hungUp;
    });

    it("[A7] calls one after another share connections", async () => {
      const calls = 6;
      for (let call = 0; call < calls; call += 1) {
        server.reply({ kind: "answer", scenario: LONG });
        await ask();
      }
      // Node's own fetch opens a second one when the first is not yet back in its pool.
      expect(server.connections).toBeLessThanOrEqual(2);
    });

    if (format.saysWhenOver) {
      it("[B5] an answer that is over is finished at once, and its connection closed though the server keeps it", async () => {
        server.reply({ kind: "break", scenario: LONG, frames: format.render(LONG).length, by: "stall" });
        expect((await ask()).at(-1)).toMatchObject({ type: "finish", usage: { input_tokens: 1, output_tokens: 3 } });
        await server.hungUp;
      });
    }

    it("[B5] a web page is refused, and is not worth another try", async () => {
      server.reply({ kind: "page" });
      expect(await ask()).toMatchObject([
        {
          failure: {
            kind: "invalid_request",
            message: expect.stringMatching(
              /^(?:the server )?\w+ answered with a web page, not a model: check the base URL$/,
            ),
          },
        },
      ]);
    });

    it("[H5] of a refusal without an end only the beginning is read, and shown", async () => {
      server.reply({ kind: "flood" });
      expect(await ask()).toMatchObject([
        { failure: { kind: "server_error", status: 500, message: expect.stringContaining("(500): boom boom") } },
      ]);
      await server.hungUp;
    });

    if (format.readConversation !== undefined) describeTools(format.readConversation);
    if (format.readSignatures !== undefined) describeReasoning(format.readSignatures);

    function describeTools(readConversation: (body: Json) => object): void {
      it("[A7] parallel tool calls come as blocks, and go back in one message with their results in order", async () => {
        server.reply({ kind: "answer", scenario: TWO_CALLS }, { kind: "answer", scenario: { text: ["done"] } });
        const parts = await ask();
        const blocks = blocksOf(parts);
        expect(blocks.map(withoutMeta)).toEqual([
          { block_type: "text", data: { text: "Looking." } },
          { block_type: "tool_use", data: { id: "call_a", name: "search", args: { query: "tea" } } },
          { block_type: "tool_use", data: { id: "call_b", name: "search", args: { query: "cups" } } },
        ]);
        expect(parts.at(-1)).toMatchObject({ type: "finish", stopReason: "tool_use" });
        await ask({ ...HELLO, messages: [...HELLO.messages, assistant(blocks), resultsOf(blocks)] });
        expect(readConversation(bodyOf(server, 1))).toEqual({
          calls: ["call_a", "call_b"],
          results: ["call_a", "call_b"],
          callMessages: 1,
        });
      });

      it("[A4] of a cancelled answer only the text goes back", async () => {
        server.reply({ kind: "answer", scenario: TWO_CALLS }, { kind: "answer", scenario: { text: ["done"] } });
        const cut = { ...assistant(blocksOf(await ask())), stop_reason: "cancelled" as const };
        await ask({ ...HELLO, messages: [...HELLO.messages, cut, user("go on")] });
        expect(readConversation(bodyOf(server, 1))).toEqual({ calls: [], results: [], callMessages: 0 });
        expect(JSON.stringify(bodyOf(server, 1))).toContain("Looking.");
      });
    }

    function describeReasoning(readSignatures: (body: Json) => readonly string[]): void {
      it.each([
        ["before text", { text: ["Four."] }],
        ["before tool calls", { toolCalls: TWO_CALLS.toolCalls }],
      ])("[A7] a reasoning signature survives the round trip, %s", async (_, rest: Scenario) => {
        const scenario = { reasoning: { text: "Two and two.", signature: "c2lnbmVk" }, ...rest };
        server.reply({ kind: "answer", scenario }, { kind: "answer", scenario: { text: ["yes"] } });
        const blocks = blocksOf(await ask());
        expect(blocks[0]).toMatchObject({ block_type: "reasoning", data: { text: "Two and two." } });
        const hasCalls = blocks.some((block) => block.block_type === "tool_use");
        // Through JSON, as a session's log keeps it.
        const kept = JSON.parse(JSON.stringify(assistant(blocks))) as Message;
        const next = hasCalls ? resultsOf(blocks) : user("sure?");
        await ask({ ...HELLO, messages: [...HELLO.messages, kept, next] });
        expect(readSignatures(bodyOf(server, 1))).toContain("c2lnbmVk");
      });

      it("[A7] another provider's reasoning is not sent", async () => {
        server.reply({ kind: "answer", scenario: { text: ["ok"] } });
        const foreign = { provider: "unknown" as const, metadata: { elsewhere: { signature: "foreign" } } };
        const blocks: AssistantBlock[] = [
          { block_type: "reasoning", data: { text: "secret thoughts", meta: foreign } },
          { block_type: "reasoning", data: { text: "unsigned thoughts" } },
          { block_type: "text", data: { text: "Hello." } },
        ];
        await ask({ ...HELLO, messages: [...HELLO.messages, assistant(blocks), user("go on")] });
        expect(JSON.stringify(bodyOf(server, 0))).not.toMatch(/thoughts|foreign/);
      });
    }
  });
}

const CREATED = "2026-01-01T00:00:00Z";
const SEARCH = {
  name: "search",
  description: "Finds things.",
  inputSchema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
};
const HELLO: ModelRequest = {
  messages: [{ role: "system", content: "Be brief.", created_at: CREATED }, user("hello")],
  tools: [SEARCH],
  maxOutputTokens: 100,
};
const LONG: Scenario = { text: ["one ", "two ", "three"], usage: { input: 1, output: 3 } };
const TWO_CALLS: Scenario & Required<Pick<Scenario, "toolCalls">> = {
  text: ["Look", "ing."],
  toolCalls: [
    { id: "call_a", name: "search", args: '{"query":"tea"}' },
    { id: "call_b", name: "search", args: '{"query":"cups"}' },
  ],
};

function user(content: string): Message {
  return { role: "user", content, created_at: CREATED };
}

function assistant(blocks: readonly AssistantBlock[]): Extract<Message, { role: "block_assistant" }> {
  return { role: "block_assistant", blocks: [...blocks], stop_reason: "end_turn", created_at: CREATED };
}

function resultsOf(blocks: readonly AssistantBlock[]): Message {
  const calls = blocks.filter((block): block is ToolUseBlock => block.block_type === "tool_use");
  const results = calls.map(({ data }) => ({ tool_use_id: data.id, content: `found ${data.id}`, is_error: false }));
  return { role: "tool_results", results, created_at: CREATED };
}

async function partsOf(stream: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

function blocksOf(parts: readonly ModelPart[]): AssistantBlock[] {
  return parts.flatMap((part) => (part.type === "block" ? [part.block] : []));
}

/** What was streamed to show; an empty delta is only a sign of life. */
function deltasOf(parts: readonly ModelPart[]): string[] {
  return parts.flatMap((part) => (part.type === "text_delta" && part.delta !== "" ? [part.delta] : []));
}

function withoutMeta(block: AssistantBlock): object {
  const { meta: _, ...data } = block.data;
  return { block_type: block.block_type, data };
}

function isLast(part: ModelPart): boolean {
  return part.type === "finish" || part.type === "failed";
}

/** How many frames it takes until the answer has said `words`. */
function framesUntil(format: WireFormat, scenario: Scenario, words: string): number {
  return format.render(scenario).findIndex((frame) => frame.includes(words)) + 1;
}

function bodyOf(server: WireServer, index: number): Json {
  const request = server.requests[index];
  if (request === undefined) throw new Error(`there was no request ${index}`);
  return request.body;
}
