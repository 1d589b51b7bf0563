import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { findProgram } from "./find-program.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
const path = findProgram(NAMES);
// There it must be: tests that leave themselves out would be taken for tests that pass.
if (path === undefined && process.env.CI === "true") throw new Error(`no browser: none of ${NAMES.join(", ")} in PATH`);

let browser: Browser | undefined;

/** Tests in a real browser, one for the file: left out, with the reason in their name, where there is none. */
export function withBrowser(name: string, tests: () => void): void {
  if (path === undefined) {
    describe(`${name} (left out: none of ${NAMES.join(", ")} in PATH)`, () => it.skip("needs a browser", () => {}));
    return;
  }
  describe(name, () => {
    beforeAll(async () => {
      // In a container there is nothing to build a sandbox of, and its shared memory is small.
      const args = ["--no-sandbox", "--disable-dev-shm-usage"];
      browser ??= await chromium.launch({ executablePath: path, args });
    }, 120_000);
    afterAll(async () => {
      await browser?.close();
      browser = undefined;
    });
    tests();
  });
}

interface PageOptions extends BrowserContextOptions {
  /** What is said on the browser's console in the course of the test, and is no fault: such as an answer 401. */
  readonly expects?: readonly RegExp[];
}

/**
 * A page of its own, without anything another has kept. It fails the test, when that ends, by whatever it said as an error,
 * threw, was refused by its policy, or asked of anybody but the server it came from.
 */
export async function openPage(url: string, { expects = [], ...options }: PageOptions = {}): Promise<Page> {
  if (browser === undefined) throw new Error("pages are opened inside of withBrowser");
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const faults: string[] = [];
  const report = (fault: string): void => {
    if (!expects.some((expected) => expected.test(fault))) faults.push(fault);
  };
  // A file has nobody to ask but itself.
  const own = url.startsWith("file:") ? url.replace(/#.*$/, "") : `${new URL(url).origin}/`;
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") report(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => report(`thrown: ${error.message}`));
  context.on("request", (request) => {
    if (!request.url().startsWith(own)) report(`asked elsewhere: ${request.url()}`);
  });
  await page.exposeFunction("tellViolation", (violation: string) => report(`policy: ${violation}`));
  await page.addInitScript(`document.addEventListener("securitypolicyviolation", (event) => {
    window.tellViolation(event.violatedDirective + " " + event.blockedURI);
  })`);
  onTestFinished(async () => {
    await context.close();
    expect(faults).toEqual([]);
  });
  await page.goto(url);
  return page;
}

/** Fails on what keeps somebody from using the page, as far as a program can tell. */
export async function expectAccessible(page: Page): Promise<void> {
  // By the debugger: the page's policy lets no further script in.
  await page.evaluate(axe.source);
  const run = "axe.run(document, { resultTypes: ['violations'] })";
  const { violations } = (await page.evaluate(run)) as axe.AxeResults; // What axe promises.
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(grave.map(({ id, nodes }) => ({ id, at: nodes.map(({ html }) => html) }))).toEqual([]);
}

/** Whether a screen is accessible and fits its window, light and wide, dark and narrow. */
export async function expectUsable(page: Page): Promise<void> {
  for (const [colorScheme, width] of [
    ["light", 1_600],
    ["dark", 360],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await expectAccessible(page);
    expect(await page.evaluate("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(main)")).toBe(0);
  }
}
