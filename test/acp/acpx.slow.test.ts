import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { called, openStage, type Stage, said } from "./editor.ts";

const root = join(import.meta.dirname, "../..");
const require = createRequire(import.meta.url);
const ACPX = require.resolve("acpx");
const AGENT = `${process.execPath} ${join(root, "packages/rkat/dist/cli.js")} acp`;
const PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch";

let stage: Stage;
/** Resolves when the model has been asked what it does not answer. */
let asked = Promise.withResolvers<void>();
beforeAll(async () => {
  stage = await openStage(({ texts, body }) => {
    const last = texts.at(-1) ?? "";
    if (last.includes("CONTEXT COMPACTION")) return said("The heron came.");
    if (JSON.parse(body).messages.at(-1).role === "tool") return said(`It gave: ${last}`);
    if (last === "Wait.") {
      asked.resolve();
      return { kind: "silence", text: ["Half of it."] };
    }
    if (last.includes("Patch it.")) return called("patch-1", "apply_patch", { patch: PATCH });
    return said(`I was told ${texts.filter((text) => text.includes("I saw a heron")).length} times.`);
  }, "[compaction]\nrecent_turn_budget = 1\n");
});
afterAll(() => stage.close());

let agent = AGENT;
/** Each call starts several processes. */
const TIMEOUT_MS = 180_000;
const TRIES_MAX = 20;

/**
 * The headless client. What it starts behind itself ends a second after its last prompt, so that the next one meets
 * another process of ours; one that comes while it ends is refused or cut off by the client, and comes again.
 */
async function acpx(...args: readonly string[]): Promise<string> {
  const words = [ACPX, "--cwd", stage.project, "--agent", agent, "--ttl", "1", ...args];
  for (let tries = 1; ; tries += 1) {
    try {
      return (await promisify(execFile)(process.execPath, words, { env: stage.env })).stdout;
    } catch (failure) {
      const isEnding = /Queue owner is shutting down|read ECONNRESET/.test(
        String(Object(failure).stdout) + String(failure),
      );
      if (!isEnding || tries === TRIES_MAX) throw failure;
    }
  }
}

describe("rkat acp with acpx", () => {
  it(
    "[K1] answers a prompt, and edits a file only when it may",
    async () => {
      writeFileSync(join(stage.project, "a.txt"), "one\n");
      await acpx("--deny-all", "exec", "Patch it.").catch(() => {});
      expect(readFileSync(join(stage.project, "a.txt"), "utf8")).toBe("one\n");
      expect(await acpx("--approve-all", "exec", "Patch it.")).toContain("[done] end_turn");
      expect(readFileSync(join(stage.project, "a.txt"), "utf8")).toBe("two\n");
    },
    TIMEOUT_MS,
  );

  it(
    "[K1] goes on with a session in another process, and compacts it",
    async () => {
      await acpx("sessions", "new");
      expect(
        await acpx("prompt", `I saw a heron. ${"It stood in the reeds and waited for its fish. ".repeat(60)}`),
      ).toContain("told 1 times");
      expect(await acpx("prompt", "I saw a heron again.")).toContain("told 2 times");
      expect(await acpx("prompt", "/compact")).toMatch(/Compacted: \d+ messages became \d+/);
      expect(await acpx("sessions", "list")).toContain("I saw a heron");
    },
    TIMEOUT_MS,
  );

  it(
    "[K1] cancels a turn, has a prompt wait for it, and goes on after its process was killed",
    async () => {
      const script = join(stage.home, "agent.sh");
      const pidFile = join(stage.home, "agent.pid");
      writeFileSync(script, `#!/bin/sh\necho $$ > ${pidFile}\nexec ${AGENT}\n`, { mode: 0o755 });
      agent = script;
      await acpx("sessions", "new");
      const first = acpx("prompt", "Wait.").catch(String);
      await asked.promise;
      const second = acpx("prompt", "I saw a heron.");
      await acpx("cancel");
      expect(await first).toMatch(/cancelled/);
      expect(await second).toContain("told 1 times");

      asked = Promise.withResolvers();
      const third = acpx("prompt", "Wait.").catch(String);
      await asked.promise;
      process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
      await third;
      expect(await acpx("prompt", "I saw a heron again.")).toContain("told 2 times");
    },
    TIMEOUT_MS,
  );
});
