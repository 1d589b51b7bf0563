import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { loadConfig } from "@rkat/node/config/load-config";
import { readIfThere } from "@rkat/node/config/realm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";

let root: string;
const project = () => join(root, "project");
const home = () => join(root, "home");
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "rkat-skills-"));
  for (const folder of [project(), home()]) mkdirSync(folder);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function writeSkill(name: string): string {
  const folder = join(project(), ".rkat", "skills", name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "SKILL.md"), `---\nname: ${name}\ndescription: About ${name}.\n---\n\nText.\n`);
  return folder;
}

const load = (isTrusted?: boolean) =>
  loadConfig({ cwd: project(), home: home(), env: {}, readFile: readIfThere, isTrusted });

const READS = byEffort({ usual: 150, full: 20_000 });

/** Swaps a file for another and back, without end. */
const SWAPPING = `
  const { renameSync, writeFileSync } = require("node:fs");
  const { workerData: path } = require("node:worker_threads");
  for (let at = 0; ; at += 1) {
    writeFileSync(path.beside, at % 2 === 0 ? "another text" : "the trusted text");
    renameSync(path.beside, path.file);
  }
`;

describe("a skill that somebody changes", () => {
  it(`[M1] gives no byte that nobody trusted, in ${READS} reads while its file is swapped`, async () => {
    const folder = writeSkill("one");
    const file = join(folder, "notes.md");
    writeFileSync(file, "the trusted text");
    const first = await load();
    for (const brought of first.brought) first.trust.remember(brought);
    const [skill] = (await load()).skills;
    const given = new Set<string>();
    const worker = new Worker(SWAPPING, { eval: true, workerData: { file, beside: join(root, "beside") } });
    try {
      for (let at = 0; at < READS; at += 1) {
        given.add((await skill?.readFile("notes.md").catch(() => "refused")) ?? "none");
      }
    } finally {
      await worker.terminate();
    }
    expect([...given].filter((text) => text !== "refused" && text !== "the trusted text")).toEqual([]);
  });

  it("[M1] has so many folders that looking at them would hold up every start: it is left out", async () => {
    const folder = writeSkill("wide");
    for (let at = 0; at < 2_000; at += 1) mkdirSync(join(folder, "deep", `${at}`), { recursive: true });
    writeSkill("small");
    const { skills, problems } = await load(true);
    expect(skills.map(({ name }) => name)).toEqual(["small"]);
    expect(problems).toEqual([expect.stringMatching(/wide is left out: keep at most \d+ folders/)]);
  });

  it("[M1] is named by a model in a text without an end, with a secret: the event has neither", async () => {
    const name = `hunter2-hunter2 ${"x".repeat(100_000)}`;
    const model = createScriptedModel([
      { calls: [{ id: "1", name: "load_skill", args: { name } }] },
      { text: "Done." },
    ]);
    const skills = [{ name: "one", description: "About one.", body: "Text." }];
    const store = createInMemoryStore();
    const runtime = createRuntime({ model, skills, store, env: { API_TOKEN: "hunter2-hunter2" } });
    const { id: session_id } = await runtime.createSession("Go.");
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id } });
    const [failed] = events.map(({ payload }) => payload).filter(({ type }) => type === "skill_resolution_failed");
    expect(failed).toMatchObject({ reference: expect.stringMatching(/^\[redacted\] x{100,300}$/) });
  });
});
