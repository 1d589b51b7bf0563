import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { serveConsole } from "../support/console-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

withBrowser("the console's page", () => {
  it("[G8] is served at the root, shows the sessions, and keeps to its policy", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: "Say hello" });
    const page = await openPage(url);
    await page.getByRole("heading", { name: "Sessions" }).waitFor();
    await page.getByRole("link", { name: "Say hello" }).waitFor();
    expect(await page.title()).toContain("rkat");
    await expectAccessible(page);
  });
});
