import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { openRuntime } from "@rkat/node/open-runtime";
import { browserWords, createBrowserOpener } from "@rkat/server/rest/start";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { DOOR, firstLine, serveConsole } from "../support/console-server.ts";

// Each test starts a server, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const BYTES_MAX = 130_000;
const folder = join(import.meta.dirname, "../../packages/server/dist/console");

describe("what serves the console", () => {
  it("[G8] gives the page to anybody, with a policy that lets nothing else in, and asks for it again each time", async () => {
    const { url } = await serveConsole({ flags: ["--token", "s3cret"] });
    const page = await fetch(url);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("cache-control")).toBe("no-cache");
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    const policy = (page.headers.get("content-security-policy") ?? "").split("; ");
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy.join(" ")).not.toMatch(/unsafe|https?:|\*/);
    const head = await fetch(url, { method: "HEAD" });
    expect({ status: head.status, text: await head.text() }).toEqual({ status: 200, text: "" });
  });

  it("[G8] gives its files for ever, by names of their content, and says what is not there", async () => {
    const { url } = await serveConsole();
    const html = await (await fetch(url)).text();
    const names = [...html.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map(([, name]) => name);
    expect(names).toHaveLength(3);
    for (const name of names) {
      const file = await fetch(`${url}/${name}`);
      expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(file.headers.get("content-encoding")).toBe("gzip");
      expect(file.headers.get("x-content-type-options")).toBe("nosniff");
      const plain = await fetch(`${url}/${name}`, { headers: { "accept-encoding": "identity" } });
      expect(plain.headers.get("content-encoding")).toBe(null);
      expect(await plain.text()).toBe(await file.text());
      const refused = await fetch(`${url}/${name}`, { headers: { "accept-encoding": "gzip;q=0, identity" } });
      expect(refused.headers.get("content-encoding")).toBe(null);
    }
    for (const path of [
      "assets/nothing.js",
      "assets/..%2f..%2fpackage.json",
      "assets/%2e%2e/index.html",
      "index.html",
    ]) {
      expect({ path, status: (await fetch(`${url}/${path}`)).status }).toEqual({ path, status: 404 });
    }
  });

  it("[G8] leads from the page of the operations to the console's, and has its plain one without a console", async () => {
    const served = await serveConsole();
    const moved = await fetch(`${served.url}/docs`, { redirect: "manual" });
    expect({ status: moved.status, to: moved.headers.get("location") }).toEqual({ status: 302, to: "./#/api" });
    const without = await serveConsole({ flags: ["--no-console"] });
    expect((await fetch(without.url)).status).toBe(404);
    expect(await (await fetch(`${without.url}/docs`)).text()).toContain("<h1>");
  });

  it("[G8] is under its bound of bytes, as a browser fetches it", () => {
    const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
    const sizes = names.map(({ parentPath, name }) => gzipSync(readFileSync(join(parentPath, name))).length);
    const sum = sizes.reduce((total, size) => total + size, 0);
    expect(sum).toBeGreaterThan(0);
    expect(sum).toBeLessThan(BYTES_MAX);
  });
});

/** `rkat console` in a folder of its own, ended with the test; returns the first line it says. */
async function startConsole(...flags: string[]): Promise<string> {
  const project = mkdtempSync(join(tmpdir(), "rkat-console-"));
  const env = { PATH: process.env.PATH, HOME: project, RKAT_MODEL: "offline", DISPLAY: ":99" };
  const child = spawn(process.execPath, [DOOR, "console", ...flags], { cwd: project, env });
  onTestFinished(async () => {
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await closed;
    rmSync(project, { recursive: true, maxRetries: 10 });
  });
  return firstLine(child);
}

describe("rkat console", () => {
  it("[G8] prints the address of a page on a free port, with a token made for its run that may approve", async () => {
    const address = await startConsole();
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#token=rkat_[\w-]+$/);
    expect((await fetch(address)).headers.get("content-type")).toContain("text/html");
    const [url, token] = address.split("#token=");
    const scopesWith = async (headers: Record<string, string>) => fetch(`${url}access`, { headers });
    expect((await scopesWith({})).status).toBe(401);
    const access = await (await scopesWith({ authorization: `Bearer ${token}` })).json();
    expect(access).toMatchObject({ scopes: expect.arrayContaining(["approve"]) });
    const other = await startConsole();
    expect(other.split("#token=")[1]).not.toBe(token);
  });

  it("[G8] hands the browser a file that only its user can read, and no token on a command line", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rkat-browser-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const said = join(folder, "said");
    writeFileSync(join(folder, "xdg-open"), `#!/bin/sh\nprintf %s "$*" > ${said}.part && mv ${said}.part ${said}\n`, {
      mode: 0o700,
    });
    const env = { PATH: `${folder}:${process.env.PATH}`, DISPLAY: ":0" };
    createBrowserOpener({ platform: "linux", env, isTerminal: true })?.("http://127.0.0.1:1/#token=s3cret");
    await expect.poll(() => existsSync(said)).toBe(true);
    const opened = readFileSync(said, "utf8");
    expect(opened).toMatch(/^file:.*\.html$/);
    const path = fileURLToPath(opened);
    onTestFinished(() => rmSync(dirname(path), { recursive: true }));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
    expect(readFileSync(path, "utf8")).toContain('content="0;url=http://127.0.0.1:1/#token=s3cret"');
  });

  it("[S2] opens the state folder of a program that runs", async () => {
    const stateFolder = mkdtempSync(join(tmpdir(), "rkat-console-state-"));
    onTestFinished(() => rmSync(stateFolder, { recursive: true, maxRetries: 10 }));
    const runtime = await openRuntime({ stateFolder, model: "offline", env: {} });
    const { id } = await runtime.createSession("The staging port is 4711.");
    const [address = "", token] = (await startConsole(stateFolder, "--no-open")).split("#token=");
    expect((await fetch(address)).headers.get("content-type")).toContain("text/html");
    const headers = { authorization: `Bearer ${token}` };
    const { sessions } = (await (await fetch(`${address}sessions`, { headers })).json()) as { sessions: unknown };
    expect(sessions).toMatchObject([{ session_id: id }]);
    await runtime.close();
  });

  it("[G8] prints a token behind the number sign, also as JSON", async () => {
    const { url } = JSON.parse(await startConsole("--json", "--no-open", "--token", "s3/cret"));
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#token=s3%2Fcret$/);
  });

  it("[G8] opens a browser at a terminal with a display alone", () => {
    const seat = { platform: "linux", env: { DISPLAY: ":0" }, isTerminal: true };
    expect(browserWords(seat)).toEqual(["xdg-open"]);
    expect(browserWords({ ...seat, env: { WAYLAND_DISPLAY: "wayland-0" } })).toEqual(["xdg-open"]);
    expect(browserWords({ ...seat, platform: "darwin", env: {} })).toEqual(["open"]);
    expect(browserWords({ ...seat, env: { DISPLAY: "" } })).toBe(undefined);
    expect(browserWords({ ...seat, isTerminal: false })).toBe(undefined);
  });
});
