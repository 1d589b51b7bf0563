import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openApp } from "./app-runtime.ts";

it("[S1] a watched module that cannot be looked at for a while ends nothing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rkat-app-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "agent.mjs");
  const write = (version: number) =>
    writeFileSync(
      path,
      `export default { dispatch: async () => ${version}, subscribe: () => [], close: async () => {} };`,
    );
  write(1);
  const [left, loaded] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const log = (sentence: string): void => (sentence.includes("loaded again") ? loaded : left).resolve(sentence);
  const app = await openApp({ path, watches: true, log });
  onTestFinished(() => app.close());
  rmSync(path);
  symlinkSync("agent.mjs", path);
  expect(await left.promise).toContain("the version before is still served");
  expect(await app.dispatch("listSessions", {})).toBe(1);
  rmSync(path);
  write(2);
  await loaded.promise;
  expect(await app.dispatch("listSessions", {})).toBe(2);
});
