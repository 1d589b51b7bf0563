import type { Page } from "playwright-core";
import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { type ConsoleServer, serveConsole } from "../support/console-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const FIRST =
  "We build the service Heron. Never restart the database between 09:00 and 17:00. The painter left a ladder in the hall. Marta likes her reports in blue ink on Fridays.";
const message = (page: Page, seq: number) => page.locator(`.message[data-seq="${seq}"]`);
const REMOVED = "removed from context";

/** A session whose first turns are out of the context, with a summary too short for all they said. */
async function compactedSession({ call }: ConsoleServer): Promise<string> {
  const compaction = { recent_turn_budget: 1, max_summary_tokens: 60 };
  const { session_id } = (await call("POST /sessions", { prompt: FIRST, compaction })).body;
  const facts = [
    "The build number is 4711 and the release branch is release/24.3.",
    "The load balancer is lb-7.internal and its health check is GET /healthz every 15 s.",
    "The logs are kept for 30 days in the bucket heron-logs-eu.",
    "The job warm-cache runs at 04:30 and keeps 9000 entries.",
    "What is the build number?",
  ];
  for (const prompt of facts) await call(`POST /sessions/${session_id}/messages`, { prompt });
  const { status } = await call(`POST /sessions/${session_id}/compact`, {});
  expect(status).toBe(200);
  return String(session_id);
}

withBrowser("a compaction in the console", () => {
  it("[G8] [R2] leads from a removed message to the verdict and to its facts that are not in view, and brings it back", async () => {
    const server = await serveConsole();
    const id = await compactedSession(server);
    const page = await openPage(`${server.url}/#/sessions/${id}`);
    await page.getByRole("feed").focus();
    await page.keyboard.press("Home");
    await message(page, 2).getByRole("link", { name: REMOVED }).click();
    await page.getByRole("heading", { name: /^Compaction of/ }).waitFor();
    await expectAccessible(page);
    const verdict = page.locator(".compaction h2").first();
    await expect
      .poll(() => verdict.textContent())
      .toMatch(/^Nothing lost\. \d+ facts are no longer shown to the model/);
    expect(await page.locator(".fact-legend dt").allTextContents()).toEqual([" in view", " recoverable", " lost"]);
    expect(await page.getByRole("heading", { name: /^Compaction of/ }).textContent()).toMatch(/:\d\d:\d\d/);
    expect(await page.locator(".compaction .badge:is(.bad, .warn)", { hasText: "recoverable" }).count()).toBe(0);
    const source = page.locator(".summary-sentence", { hasText: "Never restart" }).getByRole("link");
    await source.click();
    await page.locator('.found[data-seq="2"]').waitFor();
    const only = page.getByLabel(/^Only messages with facts that are not in view \([1-9]\d*\)/);
    await only.check();
    await message(page, 2).waitFor({ state: "detached" });
    await page.locator(".message .fact-list", { hasText: "recoverable" }).first().waitFor();
    await only.uncheck();
    await page.getByRole("button", { name: "Bring back message 2", exact: true }).click();
    await page.getByText(/Back in the context: #2/).waitFor();
    await message(page, 2).getByText("back in context").waitFor();
    const { messages } = (await server.call(`GET /sessions/${id}/context`)).body;
    expect(JSON.stringify(messages)).toContain("The painter left a ladder in the hall.");
    await page.getByRole("link", { name: "Transcript" }).click();
    await page.getByRole("feed").focus();
    await page.keyboard.press("Home");
    await message(page, 2).waitFor();
    await message(page, 2).getByText(REMOVED).waitFor({ state: "detached" });
  });

  it("[G8] shows the effect of an undo, and brings the messages back", async () => {
    const server = await serveConsole();
    const id = await compactedSession(server);
    const page = await openPage(`${server.url}/#/sessions/${id}/compactions`);
    await page.locator(".cards a").first().click();
    await page.getByRole("button", { name: "Undo …" }).click();
    await page.getByText(/the context grows by about/).waitFor();
    await page.getByRole("button", { name: "Undo compaction" }).click();
    await page.getByText(/^undone/).waitFor();
    await page.getByText(/^The next model call sends about [\d,.]+ tokens/).waitFor();
    await page.getByRole("link", { name: "Transcript" }).click();
    await page.getByRole("feed").waitFor();
    await page.keyboard.press("Home");
    await page.getByText(REMOVED).waitFor({ state: "detached" });
    const { messages } = (await server.call(`GET /sessions/${id}/context`)).body;
    expect(JSON.stringify(messages)).toContain("a ladder in the hall");
  });

  it("[G8] shows the effect and the cost of a compaction before it compacts", async () => {
    const server = await serveConsole();
    const compaction = { recent_turn_budget: 1 };
    const { session_id } = (await server.call("POST /sessions", { prompt: FIRST, compaction })).body;
    for (const prompt of ["What is 1 + 1?", "What is 2 + 2?", "What is 3 + 3?"]) {
      await server.call(`POST /sessions/${session_id}/messages`, { prompt });
    }
    const page = await openPage(`${server.url}/#/sessions/${session_id}/compactions`);
    await page.getByLabel(/must include/).fill("keep what the painter left");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText(/This would remove \d+ of \d+ messages/).waitFor();
    expect(((await server.call(`GET /sessions/${session_id}/compactions`)).body.compactions as unknown[]).length).toBe(
      0,
    );
    await page.getByRole("button", { name: "Compact", exact: true }).click();
    await page.getByRole("heading", { name: /^Compaction of/ }).waitFor();
    await page.getByText("keep what the painter left").waitFor();
  });

  it("[G8] shows the figures of a bar by keyboard, and opens the context of that call", async () => {
    const server = await serveConsole();
    const id = await compactedSession(server);
    const page = await openPage(`${server.url}/#/sessions/${id}`);
    await page.locator(".strip-link").nth(3).waitFor();
    await page.locator('.strip-link[tabindex="0"]').focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    const caption = await page.locator(".strip-caption").textContent();
    expect(caption).toMatch(/^Call #\d+ [\d,]+ tokens in context · turn 2/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /^Context of model call #\d+/ }).waitFor();
    await message(page, 2).getByText("removed since").waitFor();
    await page.getByRole("link", { name: "Current", exact: true }).click();
    await page.getByRole("heading", { name: "Current context" }).waitFor();
    await page.getByText("Summary", { exact: true }).waitFor();
    await expectAccessible(page);
  });
});
