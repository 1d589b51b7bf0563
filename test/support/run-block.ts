import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const project = join(import.meta.dirname, "../..");
const root = mkdtempSync(join(tmpdir(), "rkat-block-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** How a block of a language is run, as a script of bash; its text lies in the file. */
const RUN: Readonly<Record<string, (file: string) => string>> = {
  sh: (file) => `trap 'trap "" TERM; kill 0; wait' EXIT; . ./${file}`,
  ts: (file) => `node ./${file}`,
  python: (file) => `PYTHONPATH=${join(project, "sdks/python")} python3 ./${file}`,
};

const BINS = ["rkat", "rkat-rpc", "rkat-rest", "rkat-mcp", "rkat-acp"];

/** A folder in which rkat is installed, as `npm install` would. */
function installed(): string {
  const folder = mkdtempSync(join(root, "folder-"));
  mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
  const packed = join(project, "build/packed/node_modules");
  for (const name of ["rkat", "@rkat"]) symlinkSync(join(packed, name), join(folder, "node_modules", name));
  symlinkSync(join(project, "node_modules/zod"), join(folder, "node_modules/zod"));
  for (const bin of BINS) symlinkSync(join(packed, `rkat/bin/${bin}.js`), join(folder, "node_modules/.bin", bin));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  return folder;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("a listening server has a port");
  return address.port;
}

/** Runs a block as somebody would who has installed rkat, with the built-in model; port 8080 is a free one. */
export async function runBlock(language: string, text: string): Promise<{ code: number | null; output: string }> {
  const folder = installed();
  const file = `block.${language}`;
  writeFileSync(join(folder, file), text.replaceAll("8080", String(await freePort())));
  const path = [join(folder, "node_modules/.bin"), join(project, "node_modules/.bin"), process.env.PATH].join(":");
  const env = { PATH: path, HOME: folder, RKAT_MODEL: "offline", NO_COLOR: "1" };
  return new Promise((resolve) => {
    const script = `set -euo pipefail; ${RUN[language]?.(file)}`;
    // A group of its own, which the script ends with itself: a server it started must not outlive it.
    const child = spawn("bash", ["-c", script], {
      cwd: folder,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 60_000,
      detached: true,
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (data) => {
      stdout += data;
    });
    child.stderr.on("data", (data) => {
      stderr += data;
    });
    child.on("close", (code) => resolve({ code, output: code === 0 ? stdout : `${stdout}\n${stderr}` }));
  });
}
