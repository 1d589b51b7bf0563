import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What the outside world knows of one order. */
interface Outside {
  /** Model calls that were begun, by what they were shown. */
  readonly calls: Map<string, number>;
  /** Requests to pay, by their key. */
  readonly payments: Map<string, number>;
}

/** A model that follows a script, and a payment service, in this process. */
export interface Orders {
  readonly url: string;
  /** Begins a new order. `at` is called at each moment before the next byte is sent; it may kill the process that asked. */
  begin(at: (moment: string) => void): Outside;
  close(): Promise<void>;
}

export const MOMENTS = [
  "model 1 begins",
  "model 1 half sent",
  "look begins",
  "model 2 half sent",
  "pay begins",
  "pay done",
  "model 3 begins",
  "model 3 half sent",
] as const;
export const PAID = "The order is paid, and a receipt was sent to the customer.";

export async function openOrders(): Promise<Orders> {
  let outside: Outside = { calls: new Map(), payments: new Map() };
  let at: (moment: string) => void = () => {};
  const count = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = JSON.parse(Buffer.concat(parts).toString());
    response.on("error", () => {});
    const own = outside;
    switch (request.url) {
      case "/v1/chat/completions": {
        const { step, result } = shownIn(body.messages);
        count(own.calls, `${step}:${result}`);
        at(`model ${step} begins`);
        answer(response, answerTo(step, result), () => at(`model ${step} half sent`));
        return;
      }
      case "/look":
        at("look begins");
        response.end("one order of 7 dollars");
        return;
      case "/pay":
        at("pay begins");
        count(own.payments, body.key);
        at("pay done");
        response.end("paid");
        return;
      default:
        response.end(own.payments.size > 0 ? "paid" : "not paid");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A listening server has an address of this shape.
  return {
    url: `http://127.0.0.1:${port}`,
    begin: (onMoment) => {
      outside = { calls: new Map(), payments: new Map() };
      at = onMoment;
      return outside;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Message {
  readonly role: string;
  readonly content: unknown;
}

/** The number of the call in its turn, and the newest result. */
function shownIn(messages: readonly Message[]): { readonly step: number; readonly result: string } {
  const own = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
  const results = own.filter(({ role }) => role === "tool");
  return { step: results.length + 1, result: JSON.stringify(results.at(-1)?.content ?? "") };
}

/** The script: look, pay, check if the payment is unknown, pay again if it was not made, then report. */
function answerTo(step: number, result: string): { readonly call: string } | { readonly text: string } {
  if (step === 1) return { call: "look" };
  if (result.includes("one order") || result.includes("not paid")) return { call: "pay" };
  if (result.includes("unknown")) return { call: "check" };
  return { text: PAID };
}

function answer(response: ServerResponse, said: ReturnType<typeof answerTo>, atHalf: () => void): void {
  // Some projects take the answer's id as that of the message.
  const id = `chatcmpl-${crypto.randomUUID()}`;
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "local",
    choices: [{ index: 0, delta, finish_reason }],
  });
  const call = `call_${crypto.randomUUID().slice(0, 8)}`;
  const deltas =
    "text" in said
      ? (said.text.match(/.{1,8}/gs) ?? []).map((content) => chunk({ content }))
      : [
          chunk({
            tool_calls: [{ index: 0, id: call, type: "function", function: { name: said.call, arguments: "" } }],
          }),
          chunk({ tool_calls: [{ index: 0, function: { arguments: '{"order":"7"}' } }] }),
        ];
  const chunks = [
    chunk({ role: "assistant", content: null }),
    ...deltas,
    chunk({}, "text" in said ? "stop" : "tool_calls"),
    { ...chunk({}), choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } },
  ];
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const [index, part] of chunks.entries()) {
    if (index === chunks.length >> 1) atHalf();
    response.write(`data: ${JSON.stringify(part)}\n\n`);
  }
  response.end("data: [DONE]\n\n");
}
