import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { expectAccessible, openPage, withBrowser } from "./browser.ts";

/** Serves one page with a policy, and returns its address. */
async function servePage(html: string): Promise<string> {
  const headers = { "content-type": "text/html", "content-security-policy": "script-src 'self'; img-src *" };
  const server = createServer((_, response) => response.writeHead(200, headers).end(html));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  // A listening server has an address of this shape.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const titled = (body: string) => `<!doctype html><html lang="en"><title>a page</title><main>${body}</main></html>`;

withBrowser("a page of a test", () => {
  it("is no fault where it does as it should", async () => {
    const page = await openPage(await servePage(titled("<h1>Hello</h1>")));
    await expectAccessible(page);
  });

  it.fails("fails the test by what its policy refuses", async () => {
    await openPage(await servePage(titled("<script>document.title = 'inline'</script>")));
  });

  it.fails("fails the test by what it asks of another server", async () => {
    const other = await servePage("");
    await openPage(await servePage(titled(`<img alt="" src="${other}">`)));
  });

  it("fails on what cannot be used by everybody", async () => {
    const page = await openPage(await servePage(titled("<button></button>")));
    await expect(expectAccessible(page)).rejects.toThrow("button-name");
  });
});
