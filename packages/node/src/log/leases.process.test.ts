import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { describeSelf, type Owner, openLeases } from "./leases.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-leases-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const self = describeSelf(process.pid, "this");
let files = 0;

function openAs(owner: Owner, path: string, steadyNow = () => 0) {
  return openLeases({ path, self: owner, steadyNow, signal: () => true });
}

function newFile(): string {
  return join(root, `leases-${++files}.db`);
}

describe("a lease", () => {
  it("[F9] of a process that died is free at once, also when its id is used again", async () => {
    const path = newFile();
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const dead = openAs(describeSelf(child.pid ?? 0, "child"), path);
    expect(dead.take("turn")).toBeTruthy();
    const ours = openAs(self, path);
    expect(ours.take("turn")).toBe(false);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(ours.take("turn")).toBeTruthy();
    // A process of another start time under our own id is not us.
    const reused = openAs({ ...self, started: "1", instance: "other" }, path);
    ours.give("turn");
    expect(reused.take("turn")).toBeTruthy();
    expect(ours.take("turn")).toBeTruthy();
    await Promise.all([dead.close(), ours.close(), reused.close()]);
  });

  it("[F9] of a holder that cannot be looked up is free only after it was silent, whatever the time of day does", async () => {
    const path = newFile();
    const elsewhere = openAs({ host: "another", pid: 1, started: "1", instance: "there" }, path);
    let steadyMs = 0;
    const ours = openAs(self, path, () => steadyMs);
    elsewhere.take("turn");
    expect(ours.take("turn")).toBe(false);
    steadyMs += 29_000;
    elsewhere.beat("turn");
    expect(ours.take("turn")).toBe(false);
    steadyMs += 29_000;
    expect(ours.take("turn")).toBe(false);
    steadyMs += 2_000;
    expect(ours.take("turn")).toBeTruthy();
    // It comes back and hears that what it had is another's.
    expect(elsewhere.isInterrupted("turn")).toBe(true);
    await Promise.all([elsewhere.close(), ours.close()]);
  });

  it("[F9] can be given back only by its owner", async () => {
    const path = newFile();
    const one = openAs({ ...self, instance: "one" }, path);
    const two = openAs({ ...self, instance: "two" }, path);
    one.take("turn");
    two.give("turn");
    expect(two.take("turn")).toBe(false);
    one.give("turn");
    expect(two.take("turn")).toBeTruthy();
    await Promise.all([one.close(), two.close()]);
  });
});
