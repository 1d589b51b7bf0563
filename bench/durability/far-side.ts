import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A moment at which the killer may strike. `model:2:half` is in the middle of the stream of the second call. */
export type Moment = string;

/** What the outside world knows of one turn. */
interface Outside {
  /** Model calls that were begun, by the messages they were shown. */
  readonly calls: Map<string, number>;
  /** Payments by their idempotency key. */
  readonly payments: Map<string, number>;
  readonly moments: Moment[];
}

interface Shown {
  readonly turn: string;
  readonly step: number;
  /** The newest tool result, if there is one. */
  readonly result: string;
}

/** The remote services of the agent: a model that follows a script, and a payment service. */
export interface FarSide {
  readonly url: string;
  outside(turn: string): Outside;
  close(): Promise<void>;
}

/**
 * `at` is called at every moment that only the outside sees, before the next byte is sent; it may kill the process that
 * asked, whose request then ends.
 */
export async function openFarSide(at: (turn: string, moment: Moment) => Promise<void>): Promise<FarSide> {
  const turns = new Map<string, Outside>();
  const outside = (turn: string): Outside => {
    const known = turns.get(turn) ?? { calls: new Map(), payments: new Map(), moments: [] };
    turns.set(turn, known);
    return known;
  };
  const reach = async (turn: string, moment: Moment): Promise<void> => {
    outside(turn).moments.push(moment);
    await at(turn, moment);
  };
  const answer = async (response: ServerResponse, { turn, step, result }: Shown): Promise<void> => {
    const { calls } = outside(turn);
    const key = `${step}:${result}`;
    calls.set(key, (calls.get(key) ?? 0) + 1);
    await reach(turn, `model:${step}:begin`);
    const lines = answerTo(step, result).map((part) => JSON.stringify(part));
    const text = `${lines.join("\n")}\n`;
    const half = Math.floor(text.length / 2);
    response.write(text.slice(0, half));
    await reach(turn, `model:${step}:half`);
    response.end(text.slice(half));
  };
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = JSON.parse(Buffer.concat(parts).toString());
    response.on("error", () => {});
    switch (request.url) {
      case "/model":
        return answer(response, body);
      case "/look":
        await reach(body.turn, "look:begin");
        response.end("one order of 7 dollars");
        return;
      case "/pay": {
        await reach(body.turn, "pay:begin");
        const { payments } = outside(body.turn);
        payments.set(body.key, (payments.get(body.key) ?? 0) + 1);
        await reach(body.turn, "pay:done");
        response.end("paid");
        return;
      }
      default:
        response.end(outside(body.turn).payments.size > 0 ? "paid" : "not paid");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A listening server has an address of this shape.
  return {
    url: `http://127.0.0.1:${port}`,
    outside,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** The script: look, pay, check if the payment is unknown, pay again if it was not made, then report. */
function answerTo(step: number, result: string) {
  const call = (name: string) => [
    { type: "block", block: { block_type: "tool_use", data: { id: `call-${step}`, name, args: {} } } },
    { type: "finish", stopReason: "tool_use", usage: { input_tokens: 10, output_tokens: 5 } },
  ];
  if (step === 1) return call("look");
  if (result.startsWith("one order")) return call("pay");
  if (result.startsWith("unknown")) return call("check");
  if (result === "not paid") return call("pay");
  const text = "The order is paid, and a receipt was sent to the customer.";
  const pieces = text.match(/.{1,8}/gs) ?? [];
  return [
    ...pieces.map((delta) => ({ type: "text_delta", delta })),
    { type: "block", block: { block_type: "text", data: { text } } },
    { type: "finish", stopReason: "end_turn", usage: { input_tokens: 10, output_tokens: 20 } },
  ];
}
