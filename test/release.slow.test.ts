import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { expectAccessible, openPage, withBrowser } from "./support/browser.ts";

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);
const { version } = JSON.parse(readFileSync(join(root, "packages/rkat/package.json"), "utf8"));

interface Document {
  readonly name: string;
  readonly versions: Record<string, { dist: { tarball: string } }>;
  readonly "dist-tags": Record<string, string>;
  readonly _attachments?: Readonly<Record<string, { readonly data: string }>>;
}

/** A registry for what is published to it; for other packages it redirects to the one that is configured here. */
async function openRegistry(): Promise<{
  readonly server: Server;
  readonly url: string;
  readonly published: Map<string, Document>;
}> {
  const upstream = (await run("npm", ["config", "get", "registry"])).stdout.trim().replace(/\/$/, "");
  const published = new Map<string, Document>();
  const tarballs = new Map<string, Buffer>();
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(request.url ?? "/")
      .slice(1)
      .replace(/\?.*$/, "");
    if (request.method === "PUT") {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part);
      const document: Document = JSON.parse(Buffer.concat(parts).toString());
      for (const [name, { data }] of Object.entries(document._attachments ?? {})) {
        tarballs.set(`${document.name}/-/${name.replace(/^@.*\//, "")}`, Buffer.from(data, "base64"));
      }
      published.set(document.name, { ...document, _attachments: {} });
      response.writeHead(201, { "content-type": "application/json" }).end('{ "ok": true }');
      return;
    }
    const tarball = tarballs.get(path.replace(/(?<=\/-\/)@[^/]*\//, ""));
    if (tarball) response.end(tarball);
    else if (published.has(path))
      response.setHeader("content-type", "application/json").end(JSON.stringify(published.get(path)));
    else response.writeHead(302, { location: `${upstream}${request.url}` }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening server has an address of this shape.
  return { server, published, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

let folder: string;
let registry: Awaited<ReturnType<typeof openRegistry>>;
let env: NodeJS.ProcessEnv;
const files = () => join(folder, "release");
const create = (...args: readonly string[]) =>
  run("npm", ["create", "--yes", "rkat@latest", ...args], { cwd: folder, env, maxBuffer: 1 << 24 });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rkat-release-"));
  await run("node", ["build/release.ts", files()], { cwd: root, maxBuffer: 1 << 26 });
  registry = await openRegistry();
  env = {
    ...process.env,
    NPM_CONFIG_REGISTRY: registry.url,
    NPM_CONFIG_USERCONFIG: join(folder, "npmrc"),
    NPM_CONFIG_CACHE: join(folder, "cache"),
    NPM_CONFIG_PREFER_ONLINE: "true",
  };
  writeFileSync(join(folder, "npmrc"), `${registry.url.replace(/^http:/, "")}:_authToken=local\n`);
}, 900_000);
afterAll(() => {
  registry?.server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("a release", () => {
  it("[V3] has every package, the Python client, a bill of materials, licences, notes and their sums", () => {
    const names = ["client", "core", "node", "postgres", "server"].map((name) => `rkat-${name}-${version}.tgz`);
    const python = [`python/rkat-${version}-py3-none-any.whl`, `python/rkat-${version}.tar.gz`];
    expect(globSync(["*.*", "python/*"], { cwd: files() }).sort()).toEqual(
      [
        ...names,
        ...python,
        `rkat-${version}.tgz`,
        `create-rkat-${version}.tgz`,
        "licences.md",
        "notes.md",
        "order.txt",
        "sbom.cdx.json",
      ].sort(),
    );
    for (const line of readFileSync(join(files(), "SHA256SUMS"), "utf8").trim().split("\n")) {
      const [sum, name = ""] = line.split("  ");
      expect(
        createHash("sha256")
          .update(readFileSync(join(files(), name)))
          .digest("hex"),
        name,
      ).toBe(sum);
    }
    const { components } = JSON.parse(readFileSync(join(files(), "sbom.cdx.json"), "utf8"));
    expect(components.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(["@rkat/core", "zod", "pg"]),
    );
    expect(readFileSync(join(files(), "licences.md"), "utf8")).toMatch(/^\| zod \| [\d.]+ \| MIT \|$/m);
    expect(readFileSync(join(files(), "notes.md"), "utf8")).toContain("### Added");
  });

  it("[V3] has a wheel of this version that Python imports", async () => {
    const wheel = join(files(), "python", `rkat-${version}-py3-none-any.whl`);
    const program =
      "import rkat, zipfile, sys; print([n for n in zipfile.ZipFile(sys.argv[1]).namelist() if n.endswith('METADATA')][0], rkat.__file__)";
    const { stdout } = await run("python3", ["-c", program, wheel], { env: { ...process.env, PYTHONPATH: wheel } });
    expect(stdout).toBe(`rkat-${version}.dist-info/METADATA ${wheel}/rkat/__init__.py\n`);
  });

  it("[V3] is published by the commands of the workflow, in an order in which each package finds its own", async () => {
    const { jobs } = parse(readFileSync(join(root, ".github/workflows/release.yml"), "utf8"));
    const step = (name: string): string => jobs.publish.steps.find((one: { name?: string }) => one.name === name).run;
    await run("bash", ["-ec", step("Check the files")], { cwd: files() });
    // Provenance is proven by the workflow's identity, which a test does not have.
    await run("bash", ["-ec", step("Publish to npm")], {
      cwd: files(),
      env: { ...env, NPM_CONFIG_PROVENANCE: "false" },
      maxBuffer: 1 << 24,
    });
    const order = [...registry.published.keys()];
    expect(order).toHaveLength(7);
    for (const document of registry.published.values()) {
      const { dependencies = {} } = JSON.parse(JSON.stringify(document.versions[version]));
      const ours = Object.keys(dependencies).filter((name) => name.startsWith("@rkat/"));
      expect(
        ours.filter((name) => order.indexOf(name) > order.indexOf(document.name)),
        document.name,
      ).toEqual([]);
    }
  });
});

describe("npm create rkat, from the registry", () => {
  it("[V3] makes an agent that installs, type-checks and passes its tests", async () => {
    const { stdout } = await create("shop", "--", "--template", "agent");
    expect(stdout).toContain("npm install");
    const shop = join(folder, "shop");
    await run("npm", ["install"], { cwd: shop, env, maxBuffer: 1 << 24 });
    await run("npm", ["run", "check"], { cwd: shop, env });
    await run("npm", ["test"], { cwd: shop, env });
  });

  withBrowser("its page", () => {
    it("[V3] answers, and shows the same talk after it is opened again", async () => {
      const server = spawn("node", ["server.ts"], {
        cwd: join(folder, "shop"),
        env: { ...env, PORT: "0", RKAT_MODEL: "offline" },
      });
      onTestFinished(() => void server.kill());
      const address = await new Promise<string>((resolve) => createInterface(server.stdout).once("line", resolve));
      const page = await openPage(address, { expects: [/favicon|404/] });
      await page.getByLabel("Your question").fill("The staging port is 4711.");
      await page.keyboard.press("Enter");
      await page.getByText("Noted: the staging port is 4711.").waitFor();
      await expectAccessible(page);
      await page.reload();
      await page.getByText("Noted: the staging port is 4711.").waitFor();
      await page.getByLabel("Your question").fill("What is the staging port?");
      await page.keyboard.press("Enter");
      await page.getByText("You told me").waitFor();
      const second = run("node", ["server.ts"], {
        cwd: join(folder, "shop"),
        env: { ...env, PORT: new URL(address).port, RKAT_MODEL: "offline" },
      });
      await expect(second).rejects.toMatchObject({
        stderr: expect.stringMatching(/^listen EADDRINUSE.*; PORT sets another port\n$/),
      });
    });
  });

  it("[V3] makes a memory for the agent one uses, whose first command runs", async () => {
    await create("notes", "--", "--template", "memory");
    const notes = join(folder, "notes");
    await run("npm", ["install"], { cwd: notes, env, maxBuffer: 1 << 24 });
    await run("npm", ["test"], { cwd: notes, env: { ...env, HOME: folder } });
  });

  it.each([
    [["shop", "--template", "agent"], /shop is not empty: name a new folder/],
    [["new", "--template", "nonsense"], /there is no template "nonsense": use agent or memory/],
    [["new", "--tempalte", "agent"], /Unknown option '--tempalte'.*--help/],
    [["a", "b"], /name one folder instead of 2/],
  ])("[V3] refuses %j in one sentence and writes nothing", async (args, sentence) => {
    const program = join(root, "packages/create/bin/create-rkat.js");
    const before = globSync("*", { cwd: folder }).sort();
    const failure = await run(process.execPath, [program, ...args], { cwd: folder }).catch((error) => error);
    expect([failure.code, failure.stderr.trim().split("\n").length]).toEqual([2, 1]);
    expect(failure.stderr).toMatch(sentence);
    expect(globSync("*", { cwd: folder }).sort()).toEqual(before);
  });

  it("[V3] [H1] says in one sentence that a Node is too old", async () => {
    const older = `data:text/javascript,Object.defineProperty(process.versions,"node",{value:"20.20.2"})`;
    const program = join(root, "packages/create/bin/create-rkat.js");
    const failure = await run(process.execPath, ["--import", older, program, "new"], { cwd: folder }).catch(
      (error) => error,
    );
    expect(failure).toMatchObject({
      code: 2,
      stderr: "create-rkat: rkat needs Node 22.18 or newer; this is Node 20.20.2\n",
    });
  });
});
