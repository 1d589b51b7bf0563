import { spawn } from "node:child_process";
import { once } from "node:events";
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
const PROCESS_MS_MAX = 60_000;

const ENDS = byEffort({ usual: 10, full: 1_000 });
const ENDS_AT_ONCE = 2;
/** Loading takes half a second, a text a tenth: the last of them end in the midst of a text. */
const ENDS_AFTER_MS_MAX = 1_500;
const ENDINGS = {
  exit: { code: 7, signal: null, errors: "" },
  error: { code: 1, signal: null, errors: expect.stringContaining("the heron flew away") },
  signal: { code: null, signal: "SIGTERM", errors: "" },
  close: { code: 0, signal: null, errors: "" },
  "end of the script": { code: 0, signal: null, errors: "" },
};

/** How a process of this folder ends, and what it writes. */
async function runToEnd(script: string, args: readonly string[]) {
  const child = spawn(process.execPath, [join(import.meta.dirname, script), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [said, errors] = ["", ""];
  child.stdout.on("data", (data) => {
    said += data;
  });
  child.stderr.on("data", (data) => {
    errors += data;
  });
  const [code, signal] = await once(child, "close");
  return { code, signal, errors, said };
}

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
      const end = await runToEnd("double-open-process.ts", [mkdtempSync(join(root, "twice-")), String(DOUBLE_OPENS)]);
      const rounds = new Array<string>(DOUBLE_OPENS).fill("hybrid hybrid\n").join("");
      expect(end).toEqual({ code: 0, signal: null, errors: "", said: rounds });
    },
    DOUBLE_OPENS * PROCESS_MS_MAX,
  );

  it(
    `[D5] is as it should be in ${ENDS} processes that end while the model is loaded or embeds`,
    async () => {
      const endings = Object.entries(ENDINGS);
      const due = Array.from({ length: ENDS }, (_, at) => at);
      const endSome = async (): Promise<void> => {
        for (let at = due.shift(); at !== undefined; at = due.shift()) {
          const [ending, expected] = endings[at % endings.length] ?? [];
          const afterMs = Math.round((ENDS_AFTER_MS_MAX * at) / ENDS);
          const end = await runToEnd("ending-process.ts", [String(ending), String(afterMs)]);
          expect({ ending, afterMs, ...end }).toEqual({ ending, afterMs, ...expected, said: "" });
        }
      };
      await Promise.all(Array.from({ length: ENDS_AT_ONCE }, endSome));
    },
    ENDS * PROCESS_MS_MAX,
  );
});
