import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { afterAll, beforeAll, expect, it } from "vitest";

const client = join(import.meta.dirname, "../sdks/python");
const SUITE_MS_MAX = 600_000;
const OUTPUT_BYTES_MAX = 64 * 1_024 * 1_024;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-python-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs Python to its end; what it printed, with the failure when there was one. */
function run(program: string, args: readonly string[], cwd = client): Promise<{ output: string; failure?: string }> {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, maxBuffer: OUTPUT_BYTES_MAX }, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`;
      resolve(error === null ? { output } : { output, failure: `${error.message}\n${output}` });
    });
  });
}

async function python(...args: readonly string[]): Promise<string> {
  const { output, failure } = await run("python3", args);
  if (failure !== undefined) throw new Error(failure);
  return output;
}

it("[G6] the Python client passes its suite over stdio and over HTTP", { timeout: SUITE_MS_MAX }, async () => {
  const output = await python("-m", "unittest", "discover", "-s", "tests", "-t", ".");
  const [, ran] = /^Ran (\d+) tests? in/m.exec(output) ?? [];
  expect(Number(ran), output).toBeGreaterThan(0);
  expect(output).toMatch(/^OK$/m); // With something skipped it would say so here.
});

it("[G6] the Python client's table of operations is the table", async () => {
  const print =
    "import json, rkat.contract.operations as o; print(json.dumps({k: v._asdict() for k, v in o.OPERATIONS.items()}))";
  const rows = Object.entries(OPERATIONS).map(([name, { rpc, http }]) => [name, { rpc, http }]);
  expect(JSON.parse(await python("-c", print))).toEqual(Object.fromEntries(rows));
});

it("[G6] the Python client installs without a network", { timeout: SUITE_MS_MAX }, async () => {
  const [source, home] = [join(folder, "source"), join(folder, "venv")];
  const installed = join(home, "bin/python");
  cpSync(client, source, { recursive: true });
  // Debian keeps pip apart from Python. Where it is missing, the wheel is unpacked, which is what pip would do with it.
  const withPip = await run("python3", ["-m", "venv", home]);
  if (withPip.failure === undefined) {
    const pip = await run(installed, ["-m", "pip", "install", "--no-index", source], folder);
    expect(pip.failure).toBeUndefined();
  } else {
    await python("-m", "venv", "--clear", "--without-pip", home);
    const unpack =
      "import build_backend, sysconfig, zipfile; zipfile.ZipFile(build_backend.build_wheel('.')).extractall(sysconfig.get_path('purelib'))";
    expect((await run(installed, ["-c", unpack], source)).failure).toBeUndefined();
  }
  const print = "import importlib.metadata, rkat; print(importlib.metadata.version('rkat'), rkat.__file__)";
  const { output } = await run(installed, ["-c", print], folder);
  expect(output).toMatch(/^\d+\.\d+\.\d+ .*\/venv\/lib\/.*\/rkat\/__init__\.py\n$/);
});
