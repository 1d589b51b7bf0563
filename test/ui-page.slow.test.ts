import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { Page } from "playwright-core";
import { expect, it, onTestFinished, vi } from "vitest";
import { serveChatPage } from "../examples/use-chat/serve.ts";
import { expectAccessible, openPage, withBrowser } from "./support/browser.ts";
import { usePausedModel } from "./support/paused-model.ts";
import { openUiServer } from "./support/ui-server.ts";

// A page is bundled and a browser is started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const ask = async (page: Page, words: string): Promise<void> => {
  await page.getByLabel("What to ask").fill(words);
  await page.getByRole("button", { name: "Send" }).click();
};
const said = (page: Page, text: string) => page.locator("[data-role=assistant]").getByText(text, { exact: true });
const isStatus = (page: Page, status: string) => page.getByRole("status").getByText(status, { exact: true }).waitFor();

withBrowser("a page with useChat", () => {
  const model = usePausedModel();

  async function serve(grace_ms: number) {
    const runtime = createRuntime({ env: model.env(), model: "openai/m", store: createInMemoryStore() });
    const server = await openUiServer(runtime, { settings: { grace_ms } });
    const page = await serveChatPage(server.url);
    onTestFinished(async () => {
      page.close();
      await server.close();
      await runtime.close();
    });
    return { url: page.url, runtime };
  }
  /** Resolves when the model is not asked any more. */
  const isLetGo = (): Promise<unknown> =>
    new Promise((resolve) => {
      const [answer] = model.asked;
      if (answer === undefined || answer.destroyed) resolve(undefined);
      else answer.once("close", resolve);
    });

  it("[K1] streams, and what was said is there when it is loaded again", async () => {
    const { url } = await serve(600_000);
    const page = await openPage(url);
    await ask(page, "Tell me a story.");
    await said(page, "Once upon").waitFor();
    await isStatus(page, "streaming");
    model.finish();
    await said(page, "Once upon a time.").waitFor();
    await isStatus(page, "ready");
    await expectAccessible(page);
    await page.reload();
    await said(page, "Once upon a time.").waitFor();
    expect(await page.locator("li").count()).toBe(2);
  });

  it("[K1] loaded again in the middle of a turn, it shows the turn from its beginning and goes on", async () => {
    const { url } = await serve(600_000);
    const page = await openPage(url);
    await ask(page, "Tell me a story.");
    await said(page, "Once upon").waitFor();
    await page.reload();
    await said(page, "Once upon").waitFor();
    await isStatus(page, "streaming");
    model.finish();
    await said(page, "Once upon a time.").waitFor();
    await isStatus(page, "ready");
    expect(await page.locator("li").count()).toBe(2);
    expect(model.asked).toHaveLength(1);
  });

  it("[K1] its button stops the turn at once, and the chat goes on", async () => {
    const { url } = await serve(600_000);
    const page = await openPage(url);
    await ask(page, "Tell me a story.");
    await said(page, "Once upon").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await isLetGo();
    await isStatus(page, "ready");
    await ask(page, "Go on.");
    await isStatus(page, "streaming");
    model.finish(model.asked.slice(1));
    await said(page, "Once upon a time.").waitFor();
  });

  it("[K1] that is closed, or only calls stop(), stops its turn once nobody came back within the grace", async () => {
    for (const leave of ["close", "stop"]) {
      const { url, runtime } = await serve(1);
      const page = await openPage(url);
      // Nothing but the connection tells that it was stopped.
      await page.route("**/stream", (route) => route.fulfill({ status: 200, body: "{}" }));
      await ask(page, "Tell me a story.");
      await said(page, "Once upon").waitFor();
      if (leave === "close") await page.close();
      else await page.getByRole("button", { name: "Stop" }).click();
      const { sessions } = await runtime.dispatch("listSessions", {});
      for await (const { event } of runtime.subscribe(sessions[0]?.session_id ?? "", { after: 0 })) {
        if (event.type === "run_failed") break;
      }
    }
  });
});
