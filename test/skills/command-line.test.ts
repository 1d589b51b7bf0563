import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";

const line = useCommandLine();
const project = () => join(line.cwd, "project");
const home = () => join(line.cwd, "home");
beforeEach(() => {
  for (const folder of [project(), home()]) mkdirSync(folder);
  writeSkill(home(), "herons", "Feed them at dusk.");
  writeSkill(project(), "herons", "Feed them at dawn.");
  writeFileSync(join(project(), ".claude", "skills", "herons", "table.md"), "One fish each.");
});

function writeSkill(folder: string, name: string, body: string): void {
  const path = join(folder, ".claude", "skills", name, "SKILL.md");
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `---\nname: ${name}\ndescription: How ${name} are fed.\n---\n\n${body}\n`);
}

const model = createScriptedModel(() => ({ text: "Done." }));
const own = { openRuntime: ((options) => openRuntime({ ...options, model })) as typeof openRuntime };
const run = (args: readonly string[], input?: string) =>
  line.run(args, { cwd: project(), home: home(), env: {}, own, ...(input === undefined ? {} : { input }) });
const lastSaid = () => JSON.stringify(model.requests.at(-1)?.messages);

describe("skills on the command line", () => {
  it("[M1] are listed and shown, the project's once they are trusted", async () => {
    const before = await run(["skill", "list"]);
    expect(before.stderr).toMatch(/left out until you trust this folder: skill herons of .*\.claude.skills/);
    expect(before.stdout).toMatch(/^memory-retrieval .*\nherons +~.\.claude.skills +How herons are fed\.\n$/);
    expect((await run(["skill", "show", "herons"])).stdout).toBe("Feed them at dusk.\n");
    const status = await run(["trust", "--status"]);
    expect([status.code, status.stdout]).toEqual([
      1,
      expect.stringContaining('offers the skill herons with 1 file beside it: "How herons are fed."'),
    ]);
    expect((await run(["trust"])).code).toBe(0);
    const { skills } = JSON.parse((await run(["skill", "list", "--json"])).stdout);
    expect(skills.map((row: { scope: string; is_active: boolean }) => [row.scope, row.is_active])).toEqual([
      ["builtin", true],
      ["project", true],
      ["user", false],
    ]);
    const shown = await run(["skill", "show", "herons"]);
    expect([shown.stdout, shown.stderr]).toEqual(["Feed them at dawn.\n", "Beside it, for --file: table.md\n"]);
    expect((await run(["skill", "show", "herons", "--file", "table.md"])).stdout).toBe("One fish each.\n");
    const hidden = await run(["skill", "show", "herons", "--source", skills[2].key.source_uuid]);
    expect(hidden.stdout).toBe("Feed them at dusk.\n");
    expect(await run(["skill", "show", "none", "--json"])).toMatchObject({ code: 41 });
    expect((await run(["trust", "--revoke"])).code).toBe(1);
  });

  it("[M3] --skill loads one before the prompt, of a new session and of one that goes on", async () => {
    const first = await run(["run", "Hello.", "--skill", "herons", "--json"]);
    expect(first.code).toBe(0);
    expect(lastSaid()).toContain("Feed them at dusk.");
    await run(["run", "Hello."]);
    expect(lastSaid()).not.toContain("Feed them at dusk.");
    const { skills } = JSON.parse((await run(["skill", "list", "--json"])).stdout);
    const named = `${skills[1].key.source_uuid}:herons`;
    expect((await run(["resume", "last", "And now?", "--skill", named])).code).toBe(0);
    expect(lastSaid()).toContain("Feed them at dusk.");
    expect(await run(["run", "Hello.", "--skill", "none"])).toMatchObject({
      code: 41,
      stderr: expect.stringContaining("there is no skill"),
    });
    expect((await run(["run", "Hello.", "--skill", ":"])).code).toBe(2);
  });

  it("[M3] /skill in a chat lists them, and loads one with the next prompt", async () => {
    const { code, stdout, stderr } = await run(["chat"], "/skill\nHello.\n/skill herons\nGo on.\n/quit\n");
    expect([code, stderr]).toEqual([0, expect.stringContaining("herons is loaded with the next prompt.")]);
    expect(stdout).toContain("How herons are fed.");
    const messages = model.requests.at(-1)?.messages ?? [];
    expect(messages.map(({ role }) => role).slice(-2)).toEqual(["system_notice", "user"]);
  });
});
