// The page at http://127.0.0.1:3000 and the agent behind it. Every browser is a customer with sessions of its own.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { createHandler } from "rkat/server";
import { model, openAgent } from "./agent.ts";

const runtime = await openAgent();
// Replace this by the login of your application.
const customerOf = ({ headers }: Request) => /\bcustomer=([\w-]{36})/.exec(headers.get("cookie") ?? "")?.[1];

const agent = createHandler(runtime, {
  basePath: "/agent",
  authorize: (request) => {
    const name = customerOf(request);
    return name && { name, scopes: ["read", "run", "approve"], labels: { customer: name } };
  },
});

const page = readFileSync(new URL("page.html", import.meta.url), "utf8");
// The client of rkat for browsers is one file without dependencies.
const manifest = import.meta.resolve("@rkat/client/package.json");
const client = readFileSync(fileURLToPath(new URL("dist/browser.js", manifest)), "utf8");

const app = new Hono()
  .all("/agent/*", (context) => agent(context.req.raw))
  .get("/client.js", (context) => context.body(client, 200, { "content-type": "text/javascript" }))
  .get("/", (context) => {
    const name = customerOf(context.req.raw) ?? randomUUID();
    return context.html(page, 200, { "set-cookie": `customer=${name}; HttpOnly; SameSite=Strict; Path=/` });
  });

const port = Number(process.env.PORT ?? 3000);
const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port }, (at) => {
  console.log(`http://127.0.0.1:${at.port}/`);
  if (model === "offline")
    console.log("The model is offline, which calls no tools; set ANTHROPIC_API_KEY or RKAT_MODEL.");
});
server.once("error", ({ message }) => {
  console.error(`${message}; PORT sets another port`);
  process.exit(1);
});
process.once("SIGINT", () => server.close(() => void runtime.close()));
