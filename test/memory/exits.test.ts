import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { startRpc } from "../support/rpc-process.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-exits-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const DOUBLE_OPENS = byEffort({ usual: 4, full: 200 });
/** What the slowest of machines needs for one; more is a hang. */
const DOUBLE_OPEN_MS_MAX = 60_000;

describe("the end of a process that uses the local model", () => {
  it("[D5] [G2] comes at the end of the input, also in the middle of a search, which is answered or cancelled", async () => {
    const home = mkdtempSync(join(root, "rpc-"));
    const words = "The heron stood in the pond while the rain fell on the hills. ".repeat(12);
    // More to embed than the time between the end of the input and that of the process allows.
    const prompt = Array.from({ length: 400 }, (_, at) => `## Day ${at}\n\n${words}`).join("\n\n");
    const { client, child, exited } = startRpc(home, [], { env: { RKAT_MODEL: "offline" } });
    await client.request("session/create", { prompt });
    const search = client.start("memory/search_history", { query: "which bird was it?" });
    child.stdin.end();
    const answer = await search.result.then(
      () => "answered",
      ({ data }) => data.code,
    );
    const { code, stderr } = await exited;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(["answered", "REQUEST_CANCELLED"]).toContain(answer);
  }, 60_000);

  it(
    `[D5] ${DOUBLE_OPENS} double opens of a folder end none of it and hang nowhere`,
    async () => {
      const script = join(import.meta.dirname, "double-open-process.ts");
      const child = spawn(process.execPath, [script, mkdtempSync(join(root, "twice-")), String(DOUBLE_OPENS)], {
        stdio: ["ignore", "pipe", "pipe"],
      });
      let [said, errors] = ["", ""];
      child.stdout.on("data", (data) => {
        said += data;
      });
      child.stderr.on("data", (data) => {
        errors += data;
      });
      const end = await new Promise((resolve) => child.on("close", (code, signal) => resolve({ code, signal })));
      const rounds = new Array<string>(DOUBLE_OPENS).fill("hybrid hybrid\n").join("");
      expect({ end, errors, said }).toEqual({ end: { code: 0, signal: null }, errors: "", said: rounds });
    },
    DOUBLE_OPENS * DOUBLE_OPEN_MS_MAX,
  );
});
