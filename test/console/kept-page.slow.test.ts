import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { HOSTILE } from "../support/console-page.ts";
import { type ConsoleServer, serveConsole } from "../support/console-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

/** What ends scripts, begins comments in them, ends lines of them, and is no letter. */
const BREAKING = `${HOSTILE}</script><script>window.stolen=1</script><!--<script>--></SCRIPT >\u2028\u2029\u0000\ud800 &lt;b&gt; $& $\``;
const FIRST = "We build the service Heron. Never restart the database between 09:00 and 17:00. Marta likes blue ink.";

async function session({ call }: ConsoleServer, prompts: readonly string[]): Promise<string> {
  const compaction = { recent_turn_budget: 1, max_summary_tokens: 60 };
  const [first = "", ...rest] = prompts;
  const { session_id } = (await call("POST /sessions", { prompt: first, compaction, labels: { team: HOSTILE } })).body;
  for (const prompt of rest) {
    expect((await call(`POST /sessions/${session_id}/messages`, { prompt })).status).toBe(200);
  }
  return String(session_id);
}

/** The page of a session whose server is gone. */
async function keptPage(server: ConsoleServer, id: string, hash = ""): Promise<Page> {
  await server.rkat("session", "show", id, "--html", "kept.html");
  await server.stop();
  return openPage(`${pathToFileURL(join(server.folder, "kept.html")).href}${hash}`);
}

withBrowser("a session in a file", () => {
  it("[G8] shows transcript, strip, contexts and compactions without a server, and has no button that writes", async () => {
    const server = await serveConsole();
    const facts = ["The build number is 4711.", "The logs are in heron-logs-eu.", "What is the build number?"];
    const id = await session(server, [FIRST, ...facts]);
    expect((await server.call(`POST /sessions/${id}/compact`, {})).status).toBe(200);
    await server.call(`POST /sessions/${id}/messages`, { prompt: "And where are the logs?" });
    const page = await keptPage(server, id);
    await page.getByRole("feed").getByText("And where are the logs?").waitFor();
    const isAtEnd = "(({ scrollTop, clientHeight, scrollHeight }) => scrollHeight - scrollTop - clientHeight < 2)";
    await page.waitForFunction(`${isAtEnd}(document.querySelector('[role="feed"]'))`);
    expect(await page.locator(".strip-link").count()).toBe(6);
    await expectAccessible(page);
    // What chooses which facts are listed changes nothing.
    const buttons = () => page.locator("button:not(.fact-choice)").allTextContents();
    expect(await buttons()).toEqual(["Skip to content", "Theme: auto"]);
    expect(await page.locator("textarea, input").count()).toBe(0);
    await page.locator(".strip-link").first().click();
    await page.getByRole("heading", { name: /^Context of model call #\d+/ }).waitFor();
    await page.locator(".context").getByText("Never restart the database").waitFor();
    await page.getByRole("link", { name: "Current", exact: true }).click();
    await page.getByText("Summary", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Compactions (1)" }).click();
    await page.locator(".cards a").first().click();
    await page.getByRole("heading", { name: /^Compaction of/ }).waitFor();
    await page.locator(".summary-sentence").first().waitFor();
    expect(await buttons()).toEqual(["Skip to content", "Theme: auto"]);
    await expectAccessible(page);
  });

  it("[G8] leads from any other address to the session, which is all there is", async () => {
    const server = await serveConsole();
    const id = await session(server, [FIRST]);
    const page = await keptPage(server, id, "#/server");
    await page.getByRole("feed").getByText("Never restart the database").first().waitFor();
    const links = await page.getByRole("link").evaluateAll((found) => found.map((one) => one.getAttribute("href")));
    expect(links.filter((link) => !link?.startsWith(`#/sessions/${id}`))).toEqual([]);
  });

  it("[G8] keeps what a session says text, whatever it says", async () => {
    const server = await serveConsole();
    const id = await session(server, [BREAKING, `Again: ${BREAKING}`]);
    const page = await keptPage(server, id);
    await page.getByRole("feed").getByText(BREAKING.slice(0, 60)).first().waitFor();
    expect(await page.getByRole("feed").textContent()).toContain("window.stolen=1</script><!--<script>--></SCRIPT >");
    expect(await page.evaluate("window.stolen")).toBeUndefined();
    expect(await page.locator("script").count()).toBe(2);
    expect(await page.locator("main img, main a[href^='javascript']").count()).toBe(0);
    const html = readFileSync(join(server.folder, "kept.html"), "utf8");
    expect(html.match(/<\/script/gi)).toHaveLength(2);
    expect(html).not.toMatch(/<!--|\u2028/);
  });

  it("[G8] holds a long session in bounded room, and tells what of it is not there", async () => {
    const server = await serveConsole();
    const turns = Array.from(
      { length: 500 },
      (_, index) => `Fact ${index}: the port of machine ${index} is ${index + 1_000}.`,
    );
    const id = await session(server, turns);
    const { file, bytes } = JSON.parse(await server.rkat("session", "show", id, "--html", "long.html", "--json"));
    const { size, mode } = statSync(file);
    expect([size, mode & 0o777]).toEqual([bytes, 0o600]);
    expect(bytes).toBeLessThan(1_000_000);
    await server.stop();
    const page = await openPage(pathToFileURL(file).href);
    await page.getByText("1,000 messages").waitFor();
    await page.getByRole("feed").focus();
    await page.keyboard.press("Home");
    await page.getByText("Fact 0: the port of machine 0 is 1000.").first().waitFor();
    await page.locator(".strip-link").first().focus();
    await page.keyboard.press("Enter");
    await page.getByText(/this saved page has the context of the last 50 model calls only/).waitFor();
  });
});
