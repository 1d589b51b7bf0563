import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { BUILDS, CAPABILITY_ABSENT, type Capability } from "@rkat/core/contract/capability";
import type { Runtime } from "@rkat/core/create-runtime";
import { loadConfig } from "@rkat/node/config/load-config";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";

const root = mkdtempSync(join(tmpdir(), "rkat-capabilities-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function openBuild(features: readonly Capability[], stateFolder = mkdtempSync(join(root, "state-"))) {
  const env = { RKAT_FEATURES: features.length === 0 ? "none" : features.join(",") };
  const { config } = await loadConfig({ cwd: root, home: root, env, readFile: async () => undefined });
  return openRuntime({ stateFolder, config, env: {}, model: "offline" });
}

/** What a method of the SDK says to whoever opened the runtime; surfaces say it in the words of the table. */
function advised(capability: Capability) {
  const { code, message } = CAPABILITY_ABSENT[capability];
  return { code, message: message.replace(/ \(.*/, `: add ${capability} to the features of the configuration`) };
}

describe("builds", () => {
  for (const [build, features] of Object.entries(BUILDS)) {
    const hasStore = features.includes("session-store");

    it(`[F2] [C19] ${build}: create and turn work, and it says what it has`, async () => {
      const runtime = await openBuild(features);
      const session = await runtime.createSession("My name is Ada.");
      expect((await session.turn("What is my name?")).text).toContain("Ada");
      const { capabilities } = await runtime.dispatch("readCapabilities", {});
      const statusOf = (id: string) => capabilities.find((row) => row.id === id)?.status;
      expect(statusOf("session_store")).toEqual(hasStore ? "Available" : { NotCompiled: { feature: "session-store" } });
      const compacts = features.includes("session-compaction");
      expect(statusOf("session_compaction")).toEqual(
        compacts ? "Available" : { NotCompiled: { feature: "session-compaction" } },
      );
      if (compacts) expect(await session.compact()).toMatchObject({ compacted: false });
      else await expect(session.compact()).rejects.toMatchObject(advised("session-compaction"));
      await runtime.close();
    });

    const remembers = features.includes("memory-store");
    it(`[F2] [D11] ${build}: ${remembers ? "what was said is found, after a restart, too" : "memory is refused in the same words everywhere"}`, async () => {
      const stateFolder = mkdtempSync(join(root, "state-"));
      const first = await openBuild(features, stateFolder);
      const { id } = await first.createSession("The heron is called Ada.", { toolPreset: "none" });
      const query = { query: "what is the heron called" };
      const said = expect.objectContaining({ session_id: id, content: "The heron is called Ada." });
      const found = { results: expect.arrayContaining([said]) };
      const search = async (runtime: Runtime): Promise<void> => {
        const searches = [
          () => runtime.dispatch("searchHistory", query),
          () => runtime.dispatch("searchMemory", query),
          () => runtime.dispatch("readMemoryStatus", {}),
        ];
        const create = () => runtime.createSession("Hello.", { enableMemory: true });
        if (remembers) {
          expect(await searches[0]?.()).toMatchObject(found);
          for (const operation of searches.slice(1)) await operation();
          await create();
          return;
        }
        for (const operation of searches) {
          await expect(operation()).rejects.toMatchObject(CAPABILITY_ABSENT["memory-store"]);
        }
        await expect(create()).rejects.toMatchObject(advised("memory-store"));
      };
      await search(first);
      await first.close();
      const second = await openBuild(features, stateFolder);
      await search(second);
      await second.close();
      expect(existsSync(join(stateFolder, "memory"))).toBe(remembers);
    });

    it(`[F3] [F5] ${build}: ${hasStore ? "a stored session is there after a restart" : "persistence is refused in the same words everywhere"}`, async () => {
      const stateFolder = mkdtempSync(join(root, "state-"));
      const first = await openBuild(features, stateFolder);
      const { id } = await first.createSession("My name is Ada.");
      await first.close();
      const second = await openBuild(features, stateFolder);
      const session_id = id;
      const methods = [
        () => second.listSessions(),
        () => second.readSession(id),
        () => second.session(id).history(),
        () => second.session(id).archive(),
      ];
      const dispatched = [
        () => second.dispatch("resumeSession", { session_id, prompt: "What is my name?" }),
        () => second.dispatch("readContext", { session_id }),
        () => second.dispatch("forkSession", { session_id, message_index: 1 }),
        () => second.dispatch("readRevision", { session_id, revision: "current" }),
        () => second.dispatch("listRewrites", { session_id }),
      ];
      for (const operation of dispatched) {
        if (hasStore) await operation();
        else await expect(operation()).rejects.toMatchObject(CAPABILITY_ABSENT["session-store"]);
      }
      for (const method of methods) {
        if (hasStore) await method();
        else await expect(method()).rejects.toMatchObject(advised("session-store"));
      }
      await second.close();
    });
  }

  it("[F2] what is absent is not loaded", async () => {
    const script = `
      import { registerHooks } from "node:module";
      const urls = [];
      registerHooks({ load: (url, context, next) => (urls.push(url), next(url, context)) });
      const { openRuntime, defaultConfig } = await import(${JSON.stringify(join(import.meta.dirname, "../packages/node/src/index.ts"))});
      const config = { ...defaultConfig(), features: [] };
      const runtime = await openRuntime({ stateFolder: ${JSON.stringify(join(root, "absent"))}, config, env: {}, model: "offline" });
      await runtime.createSession("Hello.");
      await runtime.close();
      console.log(JSON.stringify(urls));
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    const loaded: readonly string[] = JSON.parse(stdout);
    expect(
      loaded.filter((url) => /stores\/embedded|projections\/|(?:compaction\/(?:run-|grammar)|grounding)/.test(url)),
    ).toEqual([]);
    expect(existsSync(join(root, "absent"))).toBe(false);
  });

  it("[F2] [H1] a capability that does not exist is refused by name", async () => {
    const places = { cwd: root, home: root, env: { RKAT_FEATURES: "session-stor" }, readFile: async () => undefined };
    await expect(loadConfig(places)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringContaining("session-stor"),
    });
  });
});

describe("the state folder", () => {
  it("[H2] is for its owner alone", async () => {
    const stateFolder = join(root, "private");
    const runtime = await openBuild(["session-store"], stateFolder);
    await runtime.createSession("Hello.");
    await runtime.close();
    const inside = readdirSync(stateFolder, { recursive: true, withFileTypes: true });
    const modes = inside.map((entry) => {
      const mode = statSync(join(entry.parentPath, entry.name)).mode & 0o777;
      return [entry.name, mode === (entry.isDirectory() ? 0o700 : 0o600)];
    });
    expect(modes.filter(([, isPrivate]) => !isPrivate)).toEqual([]);
    expect(statSync(stateFolder).mode & 0o777).toBe(0o700);
  });

  it("[F9] 200 sessions of 5 turns at once keep their order, each its own", async () => {
    const runtime = await openBuild(["session-store"]);
    const talk = async (number: number): Promise<readonly string[]> => {
      const session = await runtime.createSession(`My number is ${number}.`);
      for (let turn = 1; turn < 5; turn += 1) await session.turn(`Turn ${turn} of ${number}.`);
      const { messages } = await session.history();
      return messages.flatMap((message) => (message.role === "user" ? [String(message.content)] : []));
    };
    const talks = await Promise.all(Array.from({ length: 200 }, (_, number) => talk(number)));
    for (const [number, said] of talks.entries()) {
      const turns = [1, 2, 3, 4].map((turn) => `Turn ${turn} of ${number}.`);
      expect(said).toEqual([`My number is ${number}.`, ...turns]);
    }
    expect(await runtime.listSessions()).toHaveLength(200);
    await runtime.close();
  });
});
