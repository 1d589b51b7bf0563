import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { HOSTILE, tabTo } from "../support/console-page.ts";
import { serveConsole } from "../support/console-server.ts";
import { usePausedModel } from "../support/paused-model.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

withBrowser("the screen of sessions", () => {
  it("[G8] says how to begin where there are none, and begins one", async () => {
    const { url } = await serveConsole();
    const page = await openPage(url);
    await page.getByRole("heading", { name: "No sessions yet" }).waitFor();
    await expectAccessible(page);
    await page.getByRole("link", { name: "New session" }).click();
    await page.getByLabel("Your message").fill("What is 2 + 3?");
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/sessions\/[0-9a-f-]{36}$/);
    await page.getByText("2 + 3 = 5").waitFor();
  });

  it("[G8] finds sessions by words and by labels, which the address keeps, and archives one", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: "Write about tea", labels: { team: "a" } });
    await call("POST /sessions", { prompt: "Write about coffee", labels: { team: "b" } });
    const page = await openPage(url);
    const tea = page.getByRole("link", { name: "Write about tea" });
    const coffee = page.getByRole("link", { name: "Write about coffee" });
    await tea.waitFor();
    await page.getByRole("searchbox").fill("COFFEE write");
    await tea.waitFor({ state: "detached" });
    expect(page.url()).toContain("#/sessions?q=COFFEE+write");
    await page.reload();
    await coffee.waitFor();
    expect(await tea.count()).toBe(0);
    await page.getByRole("searchbox").fill("");
    await page.getByRole("link", { name: "team=a" }).click();
    await tea.waitFor();
    await coffee.waitFor({ state: "detached" });
    await page.getByTitle("Show all sessions").click();
    await coffee.waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Archive Write about tea" }).click();
    await tea.waitFor({ state: "detached" });
    await coffee.waitFor();
  });

  it("[G8] shows what begins elsewhere by itself", async () => {
    const { url, call } = await serveConsole();
    const page = await openPage(url);
    await page.getByRole("heading", { name: "No sessions yet" }).waitFor();
    await call("POST /sessions", { prompt: "Begun elsewhere" });
    await page.getByRole("link", { name: "Begun elsewhere" }).waitFor();
  });

  it("[G8] shows a thousand sessions by the hundred, and searches all of them", async () => {
    const { url, call } = await serveConsole();
    for (let made = 0; made < 1_000; made += 50) {
      const some = Array.from({ length: 50 }, (_, index) => `Number ${made + index} of many`);
      await Promise.all(some.map((prompt) => call("POST /sessions", { prompt, initial_turn: "deferred" })));
    }
    await call("POST /sessions", { prompt: "The needle" });
    await Promise.all(Array.from({ length: 120 }, (_, index) => call("POST /sessions", { prompt: `Newer ${index}` })));
    const page = await openPage(url);
    const rows = page.locator("tbody tr");
    await rows.first().waitFor();
    expect(await rows.count()).toBe(100);
    await page.getByRole("button", { name: "Show more" }).click();
    await rows.nth(199).waitFor();
    expect(await rows.count()).toBe(200);
    await page.getByRole("searchbox").fill("needle");
    await page.getByRole("link", { name: "The needle" }).waitFor();
    expect(await rows.count()).toBe(1);
  });

  it("[G8] shows titles and labels as text, whatever they are written with", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: HOSTILE, labels: { [HOSTILE.slice(0, 20)]: HOSTILE } });
    const page = await openPage(url);
    await page.getByText("<img src=x").first().waitFor();
    expect(await page.locator("img, script:not([type=module]), iframe").count()).toBe(0);
    expect(await page.evaluate("window.stolen")).toBe(undefined);
    await page.locator(".labels a").click();
    await page.getByTitle("Show all sessions").waitFor();
    await page.getByText("<img src=x").first().waitFor();
  });

  it("[G8] is used by the keyboard alone", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: "Say hello" });
    const page = await openPage(url);
    await page.getByRole("link", { name: "Say hello" }).waitFor();
    await tabTo(page, "Skip to content");
    await page.keyboard.press("Enter");
    await tabTo(page, "Search by title, id, model or label");
    await page.keyboard.type("hello");
    await tabTo(page, "Say hello");
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/sessions\/[0-9a-f-]{36}/);
  });
});

withBrowser("a session that runs", () => {
  const model = usePausedModel();

  it("[G8] is shown as such while it does", async () => {
    const { url, call } = await serveConsole({ env: model.env() });
    const page = await openPage(url);
    const reported = call("POST /sessions", { prompt: "Tell me a story" });
    await page.getByText("running", { exact: true }).waitFor();
    model.finish();
    expect((await reported).status).toBe(200);
    await page.getByText("idle", { exact: true }).waitFor();
  });
});
