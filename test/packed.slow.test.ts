import { execFile } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { publint } from "publint";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const packed = join(root, "build/packed/node_modules");
const PACKAGES = ["@rkat/core", "@rkat/node", "@rkat/postgres", "@rkat/server", "@rkat/client", "rkat"];
const run = promisify(execFile);

/** A program for each entry, and what it prints. */
const PROGRAMS: Readonly<Record<string, readonly [program: string, output: string]>> = {
  "@rkat/core": [
    `import { createRuntime } from "@rkat/core";
     const runtime = createRuntime({ model: "offline", env: {} });
     console.log((await runtime.createSession("What is 2 + 3?")).text); await runtime.close();`,
    "2 + 3 = 5\n",
  ],
  "@rkat/core/ai-sdk": [
    `import * as entry from "@rkat/core/ai-sdk"; console.log(Object.keys(entry).length > 0);`,
    "true\n",
  ],
  "@rkat/node": [
    `import { openRuntime } from "@rkat/node";
     const runtime = await openRuntime({ stateFolder: "state", model: "offline", env: {} });
     const session = await runtime.createSession("The kettle is blue.");
     const { results } = await runtime.searchMemory("kettle", { everything: true });
     const { receipt } = await runtime.forget({ queryExact: "kettle is blue" });
     console.log(session.text !== "", results.length > 0, receipt.scan.matches); await runtime.close();`,
    "true true 0\n",
  ],
  "@rkat/client": [
    `import { connect } from "@rkat/client";
     const client = await connect({ args: ["--isolated"] });
     console.log((await client.createSession("What is 2 + 4?", { model: "offline" })).text); await client.close();`,
    "2 + 4 = 6\n",
  ],
  rkat: [
    `import { openRuntime, createRuntime, RuntimeError } from "rkat";
     import { connect } from "rkat/client"; import * as loop from "rkat/ai-sdk"; import * as core from "@rkat/core";
     console.log(typeof openRuntime, typeof connect, Object.keys(loop).length > 0, core.RuntimeError === RuntimeError);`,
    "function function true true\n",
  ],
};

/** Programs that lack an optional package, and the sentence they get. */
const LACKING: Readonly<Record<string, readonly [program: string, sentence: string]>> = {
  "@rkat/postgres": [
    `const { openRuntime } = await import("@rkat/node");
     await openRuntime({ store: "postgres://u@127.0.0.1:1/x", model: "offline", env: {} }).catch(({ code, message }) => console.log(code, message));`,
    "SESSION_STORE_ERROR a realm in a database needs a package that is not installed; run npm install @rkat/postgres\n",
  ],
  "@modelcontextprotocol/client": [
    `const { createRuntime } = await import("@rkat/core");
     const runtime = createRuntime({ model: "offline", env: {}, mcpServers: [{ name: "x", command: "true" }], warn: console.log });
     await runtime.createSession("Hi."); await runtime.close();`,
    "MCP server x is left out: MCP servers need a package that is not installed; run npm install @modelcontextprotocol/client\n",
  ],
};
const without = (name: string) => `import { registerHooks } from "node:module";
  registerHooks({ resolve: (specifier, context, next) => {
    if (!specifier.startsWith(${JSON.stringify(name)})) return next(specifier, context);
    throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
  } });\n`;

const TYPED = `import { openRuntime, type Session } from "@rkat/node";
import { connect } from "@rkat/client";
const runtime = await openRuntime({ stateFolder: "state", model: "offline" });
const session: Session = await runtime.createSession("Hi.");
const text: string = session.text;
const client = await connect({ runtime });
const other: string = (await client.createSession("Hi.")).text;
console.log(text, other);
`;

const IMPORTS = /(?:^|[;\s}])(?:import|export)[^"'();]*?from\s*"([^"]+)"|import\(\s*"([^"]+)"\s*\)/g;

/** The oldest line of Node that is supported, as its package on npm. */
const OLDEST = `node-${process.platform}-${process.arch}`;

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rkat-packed-"));
  for (const name of PACKAGES) await run("npm", ["pack", join(packed, name), "--pack-destination", folder]);
  writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }');
  const tarballs = globSync("*.tgz", { cwd: folder }).map((name) => `./${name}`);
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", `${OLDEST}@22`, ...tarballs], {
    cwd: folder,
  });
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true }));

describe("the packages, installed from their tarballs into an empty folder", () => {
  it.each(PACKAGES)("%s has a manifest that names what is there, and starts nothing at install", async (name) => {
    const manifest = JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8"));
    expect(manifest).not.toHaveProperty("scripts");
    expect(manifest).not.toHaveProperty("devDependencies");
    const { messages } = await publint({ pkgDir: join(folder, "node_modules", name), strict: true });
    expect(messages.filter(({ type }) => type === "error")).toEqual([]);
  });

  it.each(PACKAGES)("[V3] %s names every package that its code imports: an installer may hide all others", (name) => {
    const home = join(folder, "node_modules", name);
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
    const texts = globSync("dist/**/*.js", { cwd: home }).map((path) => readFileSync(join(home, path), "utf8"));
    const imported = texts.flatMap((text) =>
      [...text.matchAll(IMPORTS)].map(([, first, other]) => first ?? other ?? ""),
    );
    const packages = imported.flatMap((specifier) => /^(?:@[^/]+\/)?[^./@][^/]*/.exec(specifier)?.[0] ?? []);
    const named = new Set([name, ...Object.keys({ ...dependencies, ...peerDependencies })]);
    expect(packages.filter((one) => !named.has(one) && !isBuiltin(one))).toEqual([]);
  });

  it.each(Object.entries(PROGRAMS))("%s runs a program in Node 22 and in this one", async (name, [program, output]) => {
    const file = join(folder, `${name.replaceAll("/", "-")}.mjs`);
    writeFileSync(file, program);
    for (const node of [join(folder, "node_modules", OLDEST, "bin/node"), process.execPath]) {
      const env = { PATH: `${join(node, "..")}:${process.env.PATH}`, HOME: folder };
      expect(await run(node, [file], { cwd: folder, env })).toEqual({ stdout: output, stderr: "" });
    }
  });

  it.each(Object.entries(LACKING))(
    "[H1] a program without %s is told what to install",
    async (name, [program, sentence]) => {
      const file = join(folder, "lacking.mjs");
      writeFileSync(file, without(name) + program);
      const { stdout } = await run(process.execPath, [file], {
        cwd: folder,
        env: { PATH: process.env.PATH, HOME: folder },
      });
      expect(stdout).toBe(sentence);
    },
  );

  it("rkat has its commands and its console", async () => {
    const bin = (name: string) => join(folder, "node_modules/.bin", name);
    for (const name of ["rkat", "rkat-rpc", "rkat-rest", "rkat-mcp", "rkat-acp"])
      expect(existsSync(bin(name))).toBe(true);
    const env = { PATH: `${join(process.execPath, "..")}:${process.env.PATH}`, HOME: folder };
    const answer = run(bin("rkat"), ["What is 5 + 4?", "-m", "offline"], { cwd: folder, env });
    answer.child.stdin?.end(); // A piped text would be part of the prompt.
    expect((await answer).stdout).toContain("9");
    expect(existsSync(join(folder, "node_modules/@rkat/server/dist/console/index.html"))).toBe(true);
  });

  it("have types that a program compiles with", async () => {
    writeFileSync(join(folder, "typed.ts"), TYPED);
    const options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2024", "--types", "node"];
    const types = ["--typeRoots", join(root, "node_modules/@types")];
    const compiled = run(join(root, "node_modules/.bin/tsc"), [...options, ...types, "typed.ts"], { cwd: folder });
    expect(await compiled.catch(({ stdout }) => stdout)).toMatchObject({ stdout: "" });
  });
});
