import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { conformanceToml } from "@rkat/conformance/conformance";
import { afterAll, describe, expect, it } from "vitest";
import { startRkat } from "./support/rkat-process.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-conformance-command-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const DOOR = join(import.meta.dirname, "../packages/rkat/dist/cli.js");
const MS_MAX = 120_000;

describe("rkat conformance", () => {
  it(
    "[G7] starts a server as it is told, and says what came of each scenario",
    async () => {
      const server = `"${process.execPath}" ${DOOR} rpc`;
      const words = ["conformance", "--rpc", server, "--only", "create", "--only", "restart", "--json"];
      const { code, stdout } = await startRkat(root, words).ended;
      const ok = { kind: "ok" };
      expect(JSON.parse(stdout)).toMatchObject({
        reports: [
          { surface: "rpc", scenario: "create", verdict: ok },
          { surface: "rpc", scenario: "restart", verdict: ok },
        ],
        summary: { ok: 2, failed: 0, not_applicable: 0 },
      });
      expect(code).toBe(0);
    },
    MS_MAX,
  );

  it(
    "[G7] names the first difference of a server that keeps another contract, and ends with 1",
    async () => {
      const liar = join(root, "liar.mjs");
      writeFileSync(liar, LIAR);
      const words = ["conformance", "--rpc", `"${process.execPath}" ./liar.mjs`];
      const { code, stdout } = await startRkat(root, [...words, "--only", "create"]).ended;
      expect(stdout).toMatch(
        /rpc +create +failed: step 1, createSession: it failed with SESSION_BUSY with the number -32000/,
      );
      expect(stdout).toMatch(/0 scenarios as expected, 1 not\./);
      expect(code).toBe(1);
    },
    MS_MAX,
  );

  it(
    "[G7] says which configuration a running server needs, and whether it has it",
    async () => {
      const port = await freePort();
      const started = async (name: string, toml: string) => {
        const folder = mkdtempSync(join(root, name));
        writeFileSync(join(folder, "rkat.toml"), toml);
        const server = startRkat(folder, ["serve", "--port", "0", "--json"]);
        await server.saw('"url"');
        return server;
      };
      const toml = conformanceToml(`http://127.0.0.1:${port}/v1`, ["session-store"]);
      for (const [name, text] of [
        ["right", toml],
        ["wrong", '[agent]\nmodel = "offline"\n'],
      ] as const) {
        const server = await started(name, text);
        const url = server.said().match(/"url":"([^"]+)"/)?.[1] ?? "";
        const words = [
          "conformance",
          "--rest",
          url,
          "--model-port",
          String(port),
          "--only",
          "create",
          "--only",
          "restart",
        ];
        const { code, stdout, stderr } = await startRkat(root, words).ended;
        expect(stderr).toContain(`base_url = "http://127.0.0.1:${port}/v1"`);
        if (name === "right") {
          expect(stdout).toMatch(/create +ok\n.*not applicable: a server that was started elsewhere is not restarted/);
          expect(code).toBe(0);
        } else {
          expect(stderr).toMatch(
            /was not started with the configuration above \(it says: .*\); start it with that file/,
          );
          expect(code).toBe(2);
        }
        server.child.kill("SIGTERM");
        await server.ended;
      }
    },
    MS_MAX,
  );

  it(
    "[G7] [H1] refuses what it cannot reach or does not know",
    async () => {
      const refused = async (...words: readonly string[]) => {
        const { code, stderr } = await startRkat(root, ["conformance", ...words]).ended;
        return `${code} ${stderr.trim().split("\n").at(-1)}`;
      };
      expect(await refused("--only", "nothing")).toMatch(/^2 Error: there is no scenario nothing; .* --list/);
      expect(await refused("--rpc", "no-such-command")).toMatch(/^2 Error: no-such-command cannot be started/);
      const free = await freePort();
      expect(await refused("--rest", `http://127.0.0.1:${free}`)).toMatch(
        /^2 Error: http:.* cannot be reached: .*ECONNREFUSED/,
      );
    },
    MS_MAX,
  );
});

/** A server that says it has a store, and refuses everything with a number that is not the table's. */
const LIAR = `
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  const capabilities = [{ id: "session_store", description: "", status: "Available" }];
  const error = { code: -32000, message: "busy", data: { code: "SESSION_BUSY", message: "busy" } };
  const answer = method === "session/create" ? { error } : { result: { capabilities } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
}
`;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("a server that listens on a port has one");
  return address.port;
}
