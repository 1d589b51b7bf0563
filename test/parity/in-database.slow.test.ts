import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openRestServer, SCENARIOS, settleFolder, TOKEN } from "@rkat/conformance/conformance";
import { type Driver, openRuntimeDriver } from "@rkat/conformance/driver";
import { type ModelServer, openModelServer } from "@rkat/conformance/model-server";
import { createRestDriver } from "@rkat/conformance/rest-driver";
import { readPresent } from "@rkat/conformance/run-scenario";
import { loadConfig } from "@rkat/node/config/load-config";
import { readIfThere } from "@rkat/node/config/realm";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, beforeAll, expect, it } from "vitest";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { essenceOf, type Opened, playScenario, useStage } from "./stage.ts";
import { ALL } from "./surfaces.ts";

const DOOR = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");
const MS_MAX = 120_000;

withPostgres("every scenario with the realm in a database", () => {
  const root = mkdtempSync(join(tmpdir(), "rkat-parity-database-"));
  const openInFolder = useStage();
  const drivers: Driver[] = [];
  let models: ModelServer;
  let reference: Opened;
  let ways: readonly { readonly way: string; readonly opened: Opened }[] = [];

  const settle = async (name: string) => {
    const url = await databaseFor(name);
    const stage = { folder: root, modelUrl: models.url, features: ALL, env: { PATH: process.env.PATH } };
    const { folder, env } = await settleFolder(name, stage);
    return { folder, env: { ...env, RKAT_STORE_URL: url } };
  };
  const openRuntimeThere = async (): Promise<Driver> => {
    const { folder, env } = await settle("runtime");
    const { config, skills } = await loadConfig({ cwd: folder, home: folder, env, readFile: readIfThere });
    return openRuntimeDriver("runtime", () => openRuntime({ config, skills, env, projectRoot: folder }));
  };
  const openRestThere = async (): Promise<Driver> => {
    const { folder, env } = await settle("rest");
    const start = { command: process.execPath, args: [DOOR, "serve"], cwd: folder, env };
    return createRestDriver({ ...(await openRestServer(start)), token: TOKEN });
  };

  beforeAll(async () => {
    models = await openModelServer(0);
    reference = await openInFolder("runtime", ALL);
    const opened = Object.entries({ runtime: await openRuntimeThere(), rest: await openRestThere() });
    drivers.push(...opened.map(([, driver]) => driver));
    ways = await Promise.all(
      opened.map(async ([way, driver]) => ({ way, opened: { driver, present: await readPresent(driver) } })),
    );
  }, MS_MAX);
  afterAll(async () => {
    await Promise.all(drivers.map((driver) => driver.close()));
    await models.close();
    rmSync(root, { recursive: true, force: true });
  });

  for (const { name, title } of SCENARIOS) {
    it(`[F11] [G7] ${name}: ${title}`, { timeout: MS_MAX }, async () => {
      const scenarioRun = await playScenario(reference, name);
      for (const { way, opened } of ways) {
        const same = await playScenario(opened, name);
        expect({ way, verdict: same.verdict }).toEqual({ way, verdict: { kind: "ok" } });
        expect({ way, reported: essenceOf(same) }).toEqual({ way, reported: essenceOf(scenarioRun) });
      }
    });
  }
});
