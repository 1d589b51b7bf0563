import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createHandler } from "@rkat/server";
import { expect, it, onTestFinished, vi } from "vitest";
import { openPage, withBrowser } from "../support/browser.ts";

// A browser is started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

withBrowser("the console in an application", () => {
  it("[S1] shows the sessions of the caller that its cookie names, below the path of the handler", async () => {
    const runtime = createRuntime({ env: {}, model: "offline", store: createInMemoryStore() });
    await runtime.createSession("Remember: the launch is at pier 7.");
    const handler = createHandler(runtime, {
      basePath: "/admin/agent",
      authorize: ({ headers }) =>
        headers.get("cookie")?.includes("login=ada") === true && { name: "ada", scopes: ["admin"] },
    });
    const listener = getRequestListener(handler);
    const server = createServer((request, response) => {
      if (request.url !== "/login") return listener(request, response);
      response.writeHead(302, { location: "/admin/agent/", "set-cookie": "login=ada; Path=/; HttpOnly" }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(async () => {
      await handler.close(0);
      await runtime.close();
      server.closeAllConnections();
      server.close();
    });
    // A listening server has an address of this shape.
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect((await fetch(`${url}/admin/agent/`)).status).toBe(401);
    const page = await openPage(`${url}/login`);
    await page.getByText("pier 7").first().waitFor();
  });
});
