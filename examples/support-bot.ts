// A support bot: two tools, one of which the customer approves, and a page with `useChat`. Open the address it prints.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { createInMemoryStore, createRuntime, defineTool } from "rkat";
import { createHandler } from "rkat/server";
import { rolldown } from "rolldown";
import { z } from "zod";

const orders = new Map([["A-17", { item: "lamp", state: "packed" }]]);
const input = z.object({ order: z.string().describe("the number of the order, such as A-17") });
const cancel = { name: "cancel_order", description: "Cancels an order.", needsApproval: true } as const;
const tools = [
  defineTool({ name: "find_order", description: "Finds an order.", input, run: ({ order }) => orders.get(order) }),
  defineTool({ ...cancel, input, run: ({ order }) => (orders.delete(order) ? "cancelled" : "no such order") }),
];
const model = process.env.RKAT_MODEL ?? "claude-sonnet-4-5";
const runtime = createRuntime({ model, systemPrompt: "You work in a lamp shop.", tools, store: createInMemoryStore() });
// In an application this is its login; a random name in a cookie is enough for customers without one.
const customerOf = ({ headers }: Request) => /\bcustomer=([\w-]{36})/.exec(headers.get("cookie") ?? "")?.[1];
const authorize = (request: Request) => {
  const name = customerOf(request);
  return name && ({ name, scopes: ["read", "run", "approve"], labels: { customer: name } } as const);
};
const agent = createHandler(runtime, { basePath: "/agent", authorize });
const page = await rolldown({ input: `${import.meta.dirname}/support-bot/page.jsx`, platform: "browser" });
const [{ code }] = (await page.generate({ codeSplitting: false })).output;
const html = '<title>Support</title><main id="root"></main><script type="module" src="/page.js"></script>';
const app = new Hono()
  .all("/agent/*", (context) => agent(context.req.raw))
  .get("/page.js", (context) => context.body(code, 200, { "content-type": "text/javascript" }))
  .get("/", (context) => {
    const name = customerOf(context.req.raw) ?? crypto.randomUUID();
    return context.html(html, 200, { "set-cookie": `customer=${name}; HttpOnly; SameSite=Strict` });
  });
const port = Number(process.env.PORT ?? 3_000);
serve({ fetch: app.fetch, hostname: "127.0.0.1", port }, (at) => console.log(`http://127.0.0.1:${at.port}/`));
