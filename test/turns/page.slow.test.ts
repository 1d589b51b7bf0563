import type { Page } from "playwright-core";
import { expect, it, onTestFinished, vi } from "vitest";
import { serveChatPage } from "../../examples/use-chat/serve.ts";
import { openPage, withBrowser } from "../support/browser.ts";
import { serveConsole } from "../support/console-server.ts";
import { usePausedModel } from "../support/paused-model.ts";

// Servers and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

/** A fetch that fails is reported in the browser's console. */
const AWAY = [/Failed to load resource|net::ERR|Failed to fetch/];
const said = (page: Page, text: string) => page.locator("[data-role=assistant]").getByText(text, { exact: true });

withBrowser("a page whose server is killed in the middle of an answer", () => {
  const model = usePausedModel();

  it("[P1] the console shows that the turn changed hands, and its answer", async () => {
    const server = await serveConsole({ env: model.env() });
    const { session_id } = (await server.call("POST /sessions", { initial_turn: "deferred" })).body;
    const page = await openPage(`${server.url}/#/sessions/${session_id}`, { expects: AWAY });
    await page.getByLabel("Your message").fill("Tell me a story.");
    await page.keyboard.press("Control+Enter");
    await page.getByText("Once upon", { exact: true }).waitFor();
    await server.stop();
    await page.getByText("Connection lost").waitFor();
    await server.start();
    await vi.waitFor(() => expect(model.asked).toHaveLength(2), { timeout: 60_000 });
    model.finish(model.asked.slice(1));
    await page.getByText("Once upon a time.", { exact: true }).waitFor();
    await page.getByText("idle", { exact: true }).waitFor();
    await page
      .getByText(/turn continued by another process/i)
      .first()
      .waitFor();
    expect(await page.locator(".message").count()).toBe(2);
  });

  it("[P1] [K1] a page with useChat that is loaded again shows the turn continue", async () => {
    const server = await serveConsole({ env: { ...model.env(), RKAT_MODEL: "openai/m" } });
    const chat = await serveChatPage(server.url);
    onTestFinished(() => chat.close());
    const page = await openPage(chat.url, { expects: AWAY });
    await page.getByLabel("What to ask").fill("Tell me a story.");
    await page.getByRole("button", { name: "Send" }).click();
    await said(page, "Once upon").waitFor();
    await server.stop();
    await server.start();
    await vi.waitFor(() => expect(model.asked).toHaveLength(2), { timeout: 60_000 });
    await page.reload();
    await page.getByText("Tell me a story.", { exact: true }).waitFor();
    model.finish(model.asked.slice(1));
    await said(page, "Once upon a time.").waitFor();
    expect(await page.locator("li").count()).toBe(2);
  });
});
