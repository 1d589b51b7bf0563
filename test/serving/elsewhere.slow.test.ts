import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { BASE_PATH, describeHandler, fetchOver, SECRET } from "../contract/handler.ts";
import { firstLine } from "../support/console-server.ts";
import { findRuntime } from "../support/other-runtimes.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";

// A process is started for each test, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const root = join(import.meta.dirname, "../..");

for (const name of ["bun", "deno"] as const) {
  const found = findRuntime(name);
  if ("missing" in found) {
    describe(`a handler under ${name} (left out: ${found.missing})`, () => it.skip("needs it", () => {}));
    continue;
  }
  const start = (file: string, env: Record<string, string>): ChildProcess =>
    spawn(found.command, [...found.args, file], {
      cwd: root,
      env: { PATH: process.env.PATH, HOME: tmpdir(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });

  describeHandler(`a handler under ${name}`, async (env) => {
    const child = start(join(import.meta.dirname, "served-elsewhere.ts"), { ...env, SECRET });
    const { port } = JSON.parse(await firstLine(child)) as { port: number }; // What it prints.
    const close = async (): Promise<void> => {
      const closed = new Promise((resolve) => child.once("close", resolve));
      child.kill("SIGKILL");
      await closed;
    };
    return { fetch: fetchOver, url: `http://127.0.0.1:${port}${BASE_PATH}`, close };
  });

  const store = async (env: Record<string, string>): Promise<unknown> =>
    JSON.parse(await firstLine(start(join(import.meta.dirname, "stored-elsewhere.ts"), env)));

  it(`[S1] ${name} opens a state folder, or refuses it in a sentence if it cannot lock its files`, async () => {
    const folder = mkdtempSync(join(tmpdir(), `rkat-${name}-`));
    onTestFinished(() => rmSync(folder, { recursive: true, maxRetries: 10 }));
    const failure =
      "a state folder cannot be used: Deno cannot load its native addon for file locks; run the program with Node";
    expect(await store({ STATE_FOLDER: folder })).toEqual(name === "bun" ? { sessions: 1 } : { failure });
  });

  withPostgres(`a database under ${name}`, () => {
    it("[S1] keeps sessions", async () => {
      const STORE = await databaseFor(name);
      expect(await store({ STORE })).toEqual({ sessions: 1 });
      expect(await store({ STORE })).toEqual({ sessions: 2 });
    });
  });
}
