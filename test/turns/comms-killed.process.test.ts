import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openEmbeddedStore, openRuntime } from "@rkat/node/open-runtime";
import { expect, it, onTestFinished } from "vitest";
import { byEffort } from "../support/effort.ts";

const MESSAGES = byEffort({ quick: 2, usual: 6, full: 20 });

it(`[Q4] delivers each of ${MESSAGES} messages once, though the process of each is killed with SIGKILL as it sends`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "rkat-comms-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const here = { stateFolder: folder, model: createScriptedModel([]), env: {}, isShortLived: true };
  const runtime = await openRuntime(here);
  const [ada, bob] = [
    await runtime.createSession({ commsName: "ada" }),
    await runtime.createSession({ commsName: "bob" }),
  ];
  await runtime.close();
  const store = await openEmbeddedStore(folder);
  const running = new Set<ChildProcess>();
  onTestFinished(() => {
    for (const child of running) child.kill("SIGKILL");
  });
  const lines = new Map<string, () => void>();
  const said = (line: string) => new Promise<void>((resolve) => lines.set(line, resolve));
  const start = async () => {
    const script = join(import.meta.dirname, "comms-process.ts");
    const child = spawn(process.execPath, [script, folder, ada.id], { stdio: ["pipe", "pipe", "inherit"] });
    running.add(child);
    const ready = said("ready");
    createInterface({ input: child.stdout }).on("line", (line) => lines.get(line)?.());
    await ready;
    return child;
  };
  const heard = async () => {
    const entries = await store.log.read(bob.id, 1, Number.MAX_SAFE_INTEGER);
    return entries.flatMap(({ body }) =>
      body.kind === "message_delivered" && body.message.role === "system_notice"
        ? [body.message.body?.split("> ").at(-1)]
        : [],
    );
  };
  const all: string[] = [];
  for (let number = 1; number <= MESSAGES; number += 1) {
    const word = `word ${number}`;
    all.push(word);
    const child = await start();
    const asked = said(`asked ${word}`);
    child.stdin?.write(`${word}\n`);
    await asked;
    running.delete(child);
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    const next = await start();
    await expect.poll(heard, { timeout: 60_000 }).toEqual(all);
    await expect.poll(async () => (await store.sessions.get(ada.id))?.has_open_turn, { timeout: 60_000 }).toBe(false);
    running.delete(next);
    next.stdin?.end("\n");
    await once(next, "exit");
  }
  expect(await heard()).toEqual(all);
  await store.close();
}, 300_000);
