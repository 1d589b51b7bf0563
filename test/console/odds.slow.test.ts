import type { Page } from "playwright-core";
import { expect, it, vi } from "vitest";
import { openPage, withBrowser } from "../support/browser.ts";
import { serveConsole } from "../support/console-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

/** As if one looked at another tab, or at this one again. */
const show = (page: Page, state: "hidden" | "visible"): Promise<unknown> =>
  page.evaluate(`Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
    document.dispatchEvent(new Event("visibilitychange"))`);

withBrowser("the console against the odds", () => {
  it("[G8] says why a screen cannot be shown when the server answers something else", async () => {
    const { url } = await serveConsole();
    const page = await openPage(url);
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    await page.route(/\/agents$/, (route) => route.fulfill({ json: {} }));
    await page.getByRole("link", { name: "Agents" }).click();
    await page.getByRole("alert").getByText("This screen cannot be shown").waitFor();
    await page.getByRole("link", { name: "Memory" }).click();
    await page.getByRole("heading", { name: "Memory", exact: true }).waitFor();
  });

  it("[G8] is not blank where its files are gone", async () => {
    const { url } = await serveConsole();
    const page = await openPage(url, { expects: [/status of 404/] });
    await page.route(/\/assets\//, (route) => route.fulfill({ status: 404 }));
    await page.reload();
    await page.getByText("reload the page").waitFor();
  });

  it("[G8] takes a token out of the address whatever is in it", async () => {
    const { url } = await serveConsole({ flags: ["--token", "a/s3&cret"] });
    const page = await openPage(`${url}/#token=a/s3&cret`);
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    expect(page.url()).toBe(`${url}/`);
    expect(await page.title()).toBe("Sessions · rkat");
    await page.evaluate("location.hash = 'token='");
    await expect.poll(() => page.url()).toBe(`${url}/`);
    await page.getByRole("button", { name: "Log out" }).waitFor();
  });

  it("[G8] is as wide as its window whatever a label says", async () => {
    const { url, call } = await serveConsole();
    const { session_id } = (await call("POST /sessions", { prompt: "Hello", labels: { team: "x".repeat(200) } })).body;
    const page = await openPage(url, { viewport: { width: 900, height: 700 } });
    for (const screen of ["sessions", `sessions/${session_id}`, "sessions?label=team%3Dx"]) {
      await page.goto(`${url}/#/${screen}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.locator(".spinner").first().waitFor({ state: "detached" });
      const beyond = await page.evaluate("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(main)");
      expect({ screen, beyond }).toEqual({ screen, beyond: 0 });
    }
  });

  it("[G8] holds no connection in a tab nobody looks at, and tells what happened when one looks again", async () => {
    const { url, call } = await serveConsole();
    const { session_id } = (await call("POST /sessions", { prompt: "Say hello" })).body;
    const page = await openPage(url);
    const opened = page.waitForRequest(/\/sessions\/[^/]+\/events$/);
    await page.goto(`${url}/#/sessions/${session_id}`);
    const stream = await opened;
    await page.getByRole("feed").waitFor();
    const ended = page.waitForEvent("requestfailed", (request) => request === stream);
    await show(page, "hidden");
    await ended;
    await call(`POST /sessions/${session_id}/messages`, { prompt: "The port is 7443." });
    await show(page, "visible");
    await page.locator(".message.user", { hasText: "The port is 7443." }).waitFor();
  });
});
