import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { serveConsole } from "../support/console-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const REFUSED = [/status of 401/];
const SECRET = /rkat_[\w-]+/;

/** A proxy that has the server under a prefix, ended with the test. */
async function serveUnder(prefix: string, url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const proxy = createServer((asked, answer) => {
    if (!asked.url?.startsWith(`${prefix}/`)) {
      answer.writeHead(404).end();
      return;
    }
    const { method, headers } = asked;
    const passed = request({ hostname, port, method, headers, path: asked.url.slice(prefix.length) }, (reported) => {
      answer.writeHead(reported.statusCode ?? 502, reported.headers);
      reported.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    asked.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  // A listening server has an address of this shape.
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${prefix}/`;
}

withBrowser("the login of the console", () => {
  it("[G8] asks for the token, says when it is wrong, and keeps the right one for the tab", async () => {
    const { url } = await serveConsole({ flags: ["--token", "s3cret"] });
    const page = await openPage(url, { expects: REFUSED });
    await page.getByLabel("Token").fill("wrong");
    await expectAccessible(page);
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("not valid for this server").waitFor();
    await page.getByLabel("Token").fill("wörong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("not valid for this server").waitFor();
    await page.getByLabel("Token").fill("s3cret");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    const other = await page.context().newPage();
    await other.goto(url);
    await other.getByLabel("Token").waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
    expect(await page.evaluate("sessionStorage.length + ' ' + document.cookie")).toBe("0 ");
  });

  it("[G8] takes the token from the address, and takes it out of there", async () => {
    const { url } = await serveConsole({ flags: ["--token", "s3/cret"] });
    const page = await openPage(`${url}/#token=s3%2Fcret`, { expects: REFUSED });
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    expect(page.url()).toBe(`${url}/`);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.evaluate("location.hash = 'token=%E0%A4%A'");
    await page.getByRole("alert").waitFor();
    expect(page.url()).toBe(`${url}/`);
    await page.evaluate("location.hash = 'token=s3%2Fcret'");
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    expect(page.url()).toBe(`${url}/`);
  });

  it("[G8] leads back to the login, with a sentence, when the token is no longer valid", async () => {
    const server = await serveConsole();
    const [secret] = (await server.rkat("token", "create", "--name", "ada", "--scope", "read,run")).match(SECRET) ?? [];
    const page = await openPage(`${server.url}/#token=${secret}`, { expects: REFUSED });
    await page.getByRole("link", { name: "New session" }).waitFor();
    await server.rkat("token", "revoke", "ada");
    await page.getByRole("alert").getByText("no longer valid").waitFor();
    await page.getByLabel("Token").waitFor();
  });

  it("[G8] has no button for what the token may not do", async () => {
    const server = await serveConsole();
    await server.call("POST /sessions", { prompt: "Say hello" });
    const [secret] = (await server.rkat("token", "create", "--name", "reader", "--scope", "read")).match(SECRET) ?? [];
    const page = await openPage(`${server.url}/#token=${secret}`);
    await page.getByRole("link", { name: "Say hello" }).waitFor();
    expect(await page.getByRole("link", { name: "New session" }).count()).toBe(0);
    expect(await page.getByRole("button", { name: "Archive" }).count()).toBe(0);
  });

  it("[G8] asks for another token in place of one that may not read", async () => {
    const server = await serveConsole();
    const [secret] = (await server.rkat("token", "create", "--name", "runner", "--scope", "run")).match(SECRET) ?? [];
    const page = await openPage(`${server.url}/#token=${secret}`, { expects: [/status of 403/] });
    await page.getByRole("alert").getByText("needs the scope read").waitFor();
    await page.getByLabel("Token").waitFor();
  });

  it("[G8] works under a prefix that a proxy puts before it", async () => {
    const server = await serveConsole({ flags: ["--token", "s3cret"] });
    const url = await serveUnder("/tools/rkat", server.url);
    const page = await openPage(`${url}#token=s3cret`);
    await page.getByRole("link", { name: "New session" }).click();
    await page.getByLabel("Your message").fill("Hello");
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/sessions\/[0-9a-f-]{36}/);
    expect(page.url().startsWith(`${url}#/sessions/`)).toBe(true);
    await page.goto(`${url}docs`);
    await page.waitForURL(`${url}#/api`);
  });

  it("[G8] says when the server does not answer, and tries again", async () => {
    const server = await serveConsole();
    const page = await openPage(server.url, { expects: [/ERR_CONNECTION/] });
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    await server.stop();
    await page.getByRole("link", { name: "New session" }).click();
    await page.getByLabel("Your message").fill("Hello");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("Not sent").waitFor();
    await server.start();
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/sessions\/[0-9a-f-]{36}/);
  });
});
