import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { serveConsole } from "../support/console-server.ts";
import { byEffort } from "../support/effort.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 180_000 });

const FEW = ["sessions", "memory?q=staging+host", "api/createSession"];
const ALL = [...FEW, "schedules", "memory", "agents", "agents/ada?q=port", "server", "api", "nothing"];
const SCREENS = byEffort({ quick: FEW, usual: ALL, full: ALL });

withBrowser("the console's page", () => {
  it("[G8] is served at the root, shows the sessions, and keeps to its policy", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: "Say hello" });
    const page = await openPage(url);
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    await page.getByRole("link", { name: "Say hello" }).waitFor();
    expect(await page.title()).toBe("Sessions · rkat");
    await expectAccessible(page);
  });

  it("[G8] has every screen under an address of its own, in light and dark, wide and narrow", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: "The staging host listens at port 7443.", labels: { team: "a" } });
    await call("POST /agents/ada/memories", { content: "The staging host listens at port 7443." });
    await call("POST /schedules", { prompt: "Look at the staging host.", cron: "0 9 * * 1-5" });
    const page = await openPage(`${url}/`);
    for (const screen of SCREENS) {
      await page.setViewportSize({ width: 1_600, height: 900 });
      await page.goto(`${url}/#/${screen}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.locator(".spinner").first().waitFor({ state: "detached" });
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        await expectAccessible(page);
      }
      await page.setViewportSize({ width: 360, height: 740 });
      await expectAccessible(page);
      const beyond = await page.evaluate("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(main)");
      expect({ screen, beyond }).toEqual({ screen, beyond: 0 });
    }
  });

  it("[G8] shows on a narrow page too which screen one is on", async () => {
    const { url } = await serveConsole();
    const page = await openPage(`${url}/#/api`, { viewport: { width: 360, height: 740 } });
    const link = page.getByRole("link", { name: "API", exact: true });
    await link.waitFor();
    const isWhole =
      "(({ left, right }) => left >= 0 && right <= innerWidth)(document.querySelector('.nav [aria-current]').getBoundingClientRect())";
    await expect.poll(() => page.evaluate(isWhole)).toBe(true);
  });

  it("[G8] keeps the colours one has chosen", async () => {
    const { url } = await serveConsole();
    const page = await openPage(url, { colorScheme: "light" });
    const ground = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
    await page.getByRole("button", { name: "Theme: auto" }).click();
    const light = await ground();
    await page.getByRole("button", { name: "Theme: light" }).click();
    await page.getByRole("button", { name: "Theme: dark" }).waitFor();
    expect(await ground()).not.toBe(light);
    await page.reload();
    await page.getByRole("button", { name: "Theme: dark" }).waitFor();
    expect(await ground()).not.toBe(light);
  });
});
