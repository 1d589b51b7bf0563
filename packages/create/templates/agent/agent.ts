import { defineTool, openRuntime } from "rkat";
import { z } from "zod";

const orders = new Map([["A-17", { item: "lamp", state: "packed" }]]);
const input = z.object({ order: z.string().describe("The number of the order, such as A-17") });

const findOrder = defineTool({
  name: "find_order",
  description: "Finds an order by its number.",
  input,
  effects: "none",
  run: ({ order }) => orders.get(order) ?? `There is no order ${order}.`,
});

const cancelOrder = defineTool({
  name: "cancel_order",
  description: "Cancels an order. The customer approves it first.",
  input,
  needsApproval: true,
  run: ({ order }) => (orders.delete(order) ? `Order ${order} is cancelled.` : `There is no order ${order}.`),
});

/** `offline` until a key of a provider is set: deterministic, no network, and it calls no tools of yours. */
export const model = process.env.RKAT_MODEL ?? (process.env.ANTHROPIC_API_KEY ? "claude-sonnet-4-5" : "offline");

export const openAgent = (options: Partial<Parameters<typeof openRuntime>[0]> = {}) =>
  openRuntime({
    stateFolder: ".state",
    model,
    systemPrompt: "You help the customers of a lamp shop.",
    tools: [findOrder, cancelOrder],
    ...options,
  });

export default openAgent;
