import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { expectAccessible, openPage, withBrowser } from "./support/browser.ts";

const site = join(import.meta.dirname, "../docs");
const built = join(site, ".vitepress/dist");
const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".md": "text/markdown",
  ".png": "image/png",
  ".svg": "image/svg+xml",
};

/** Serves the built files as a static host does: `/sdk` is `sdk.html`. */
async function serveSite(): Promise<string> {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? "/", "http://site").pathname;
    const file = join(built, path === "/" ? "index.html" : extname(path) === "" ? `${path}.html` : path);
    const body = await readFile(file).catch(() => undefined);
    if (body) response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream").end(body);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  // A listening server has an address of this shape.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const run = promisify(execFile);
  if (!existsSync(join(site, "node_modules"))) {
    await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline"], { cwd: site });
  }
  await run("npm", ["run", "build"], { cwd: site, maxBuffer: 1 << 24 });
}, 900_000);

it("[V2] the site has every page with its source beside it, and llms.txt names them", () => {
  const pages = globSync("*.md", { cwd: site }).filter((name) => name !== "index.md");
  expect(pages.length).toBeGreaterThan(40);
  for (const page of pages) {
    expect(existsSync(join(built, page.replace(/\.md$/, ".html"))), page).toBe(true);
    expect(readFileSync(join(built, page), "utf8"), page).toBe(readFileSync(join(site, page), "utf8"));
  }
  const links = [...readFileSync(join(built, "llms.txt"), "utf8").matchAll(/^- \[.+?\]\(([\w-]+\.md)\)/gm)];
  expect(links.length).toBeGreaterThan(30);
  for (const [, name = ""] of links) expect(existsSync(join(built, name)), name).toBe(true);
  const full = readFileSync(join(built, "llms-full.txt"), "utf8");
  expect(full).toContain(readFileSync(join(site, "tutorial.md"), "utf8"));
});

it("[V2] no page has a link that leads nowhere", () => {
  for (const page of globSync("**/*.html", { cwd: built }))
    expect(readFileSync(join(built, page), "utf8"), page).not.toContain('href="#"');
});

withBrowser("the site", () => {
  it.each(["light", "dark"] as const)("[V2] can be used by everybody, in %s", async (colorScheme) => {
    const url = await serveSite();
    for (const path of ["/", "/tutorial", "/cookbook", "/compared"]) {
      const page = await openPage(`${url}${path}`, { colorScheme });
      await page.getByRole("heading", { level: 1 }).waitFor();
      await expectAccessible(page);
    }
  });

  it("[V2] finds a page by its words, without another server", async () => {
    const page = await openPage(await serveSite());
    // The key works when the page's scripts have run.
    await expect
      .poll(async () => {
        await page.keyboard.press("/");
        return page.getByRole("searchbox").isVisible();
      })
      .toBe(true);
    await page.getByRole("searchbox").fill("idempotency_key");
    await page.getByRole("option").filter({ hasText: "Durable turns" }).first().click();
    await page.getByRole("heading", { level: 1, name: "Durable turns" }).waitFor();
  });
});
