import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const SUITE = fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/dist/index.js"));
const CLIENT = join(import.meta.dirname, "conformance-client-process.ts");

/** What this client does not do, and the scenarios of the suite that want it. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  "client-id metadata documents": ["auth/basic-cimd"],
  "clients that are registered beforehand": ["auth/pre-registration"],
  "asking for more rights within a turn": ["auth/scope-step-up"],
  "defaults of a form, which the runtime gives and not the connection": ["elicitation-sep1034-client-defaults"],
  "a tool that is called with what a list said": ["json-schema-2020-12-preservation"],
};

it.each([
  ["2025-11-25", 14],
  ["2026-07-28", 28],
])("[T1] the client half of the official suite passes for %s, but for what is left out", async (version, passing) => {
  const cwd = mkdtempSync(join(tmpdir(), "rkat-client-conformance-"));
  const args = ["client", "--command", `${process.execPath} ${CLIENT}`, "--suite", "all", "--spec-version", version];
  const child = spawn(process.execPath, [SUITE, ...args, "-o", cwd], {
    cwd,
    env: { PATH: process.env.PATH, HOME: cwd },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (data) => {
      output += data;
    });
  }
  await new Promise((resolve) => child.on("close", resolve));
  rmSync(cwd, { recursive: true });
  const ended = (mark: string) => [...output.matchAll(new RegExp(`^${mark} (\\S+):`, "gm"))].map(([, name]) => name);
  const leftOut = Object.values(LEFT_OUT).flat();
  expect(
    ended("✗").filter((name) => !leftOut.includes(name ?? "")),
    output,
  ).toEqual([]);
  expect(ended("✓").length, output).toBeGreaterThanOrEqual(passing);
});
