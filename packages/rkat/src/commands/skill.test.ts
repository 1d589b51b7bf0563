import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ERRORS } from "@rkat/core/contract/error";
import { expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { answering } from "../../../../test/support/local-models.ts";

const line = useCommandLine();

function write(folder: string, name: string, text: string): void {
  mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, name, "SKILL.md"), text);
}
const skill = (name: string, more = "") =>
  `---\nname: ${name}\ndescription: About ${name}.\n${more}---\nAll of ${name}.\n`;

/** A project with two broken skills and one that hides one of the user's. */
function useSkills() {
  const project = join(line.cwd, "project");
  write(join(project, ".rkat", "skills"), "notes", skill("notes", "allowed-tools: [shell(git log *)]\n"));
  write(join(line.cwd, ".rkat", "skills"), "notes", skill("notes").replace("All of", "Mine of"));
  write(join(project, ".rkat", "skills"), "broken-one", "nothing");
  write(join(project, ".rkat", "skills"), "broken-two", "nothing");
  const given = { cwd: project, home: line.cwd, env: { RKAT_TRUST: "1", RKAT_MODEL: "offline" } };
  return (...words: string[]) => line.run(words, given);
}

it("[G5] broken skills are told in one line, and each by those who were asked about them", async () => {
  const run = useSkills();
  const { stderr } = await run("session", "list");
  expect(stderr).toMatch(/^! .*broken-one is left out: .* \(and 1 more; rkat doctor lists them\)\n$/);
  for (const words of [["skill", "list"], ["doctor"]]) {
    const { stdout, stderr } = await run(...words);
    for (const name of ["broken-one", "broken-two"]) expect(`${stdout}${stderr}`).toContain(`${name} is left out: `);
  }
  expect((await run("doctor")).stdout).toMatch(/– skills +.*broken-two is left out: /);
});

it("[G5] a skill is shown by its source, too, with what it allows", async () => {
  const run = useSkills();
  expect(await run("skill", "show", "notes")).toMatchObject({
    code: 0,
    stdout: "All of notes.\n",
    stderr: expect.stringContaining("Allowed while it is loaded: shell(git log *)\n"),
  });
  expect(await run("skill", "show", "~/.rkat/skills:notes")).toMatchObject({ code: 0, stdout: "Mine of notes.\n" });
  const { skills } = JSON.parse((await run("skill", "list", "--json")).stdout);
  const mine = skills.find((row: { scope: string }) => row.scope === "user");
  expect(await run("skill", "show", `${mine.key.source_uuid}:notes`)).toMatchObject({ stdout: "Mine of notes.\n" });
  expect(await run("skill", "show", "nowhere:notes")).toMatchObject({ code: ERRORS.SKILL_NOT_FOUND.exit });
});

it("[G5] a sentence names flags as they are typed, and the nearest skill", async () => {
  const run = useSkills();
  const cases: readonly (readonly [words: readonly string[], sentence: RegExp])[] = [
    [["--skill", "nots"], /^Error: --skill: there is no skill nots here; did you mean notes\? rkat skill list/m],
    [
      ["--sub-agents", "-t", "none"],
      /^Error: --sub-agents: a session without tools .*; choose another --tools, such as safe$/m,
    ],
    [["--agents", "--sub-agents"], /^Error: option '--agents' cannot be used with option '--sub-agents'; see --help$/m],
    [["--skill", "memory-retrieval", "-t", "none"], /^Error: --skill: there is no skill memory-retrieval here; /m],
    [["-m", "nope"], /^Error: unknown model nope: /m],
  ];
  for (const [words, sentence] of cases)
    expect((await run("run", "hello", "there", ...words)).stderr).toMatch(sentence);
  const wire = await run("run", "hello", "there", "--json", "--skill", "nots");
  expect(JSON.parse(wire.stdout).error.message).toMatch(
    /^skill_refs: there is no skill nots here; did you mean notes\?/,
  );
});

it("[G5] the former --agents works as --sub-agents, with one line of advice and no help", async () => {
  const run = useSkills();
  const asked = ["run", "hello", "there", "-t", "none"] as const;
  const { stderr } = await run(...asked, "--sub-agents");
  expect(await run(...asked, "--agents")).toMatchObject({
    stderr: `! --agents is now --sub-agents\n${stderr}`,
  });
  expect((await run("run", "--help")).stdout).not.toMatch(/--agents/);
});

it("[G5] commands are found by the number that one thinks of, too", async () => {
  const run = useSkills();
  for (const [one, other] of [
    ["hook", "hooks"],
    ["sub-agents", "sub-agent"],
  ] as const) {
    expect(await run(one, "list")).toEqual(await run(other, "list"));
  }
  const { stdout } = await run("run", "--help");
  for (const code of ["HOOK_DENIED", "SKILL_NOT_FOUND", "SKILL_RESOLUTION_FAILED"] as const) {
    expect(stdout).toMatch(new RegExp(`\\b${ERRORS[code].exit} \\w`));
  }
});

it("[G5] a no to rkat trust is told to have changed nothing", async () => {
  const project = join(line.cwd, "project");
  mkdirSync(project);
  writeFileSync(join(project, "rkat.toml"), "[tools]\nshell_enabled = true\n");
  const given = { cwd: project, home: line.cwd, env: { NO_COLOR: "1" }, stdin: answering("n"), isTerminal: true };
  const { code, stderr } = await line.run(["trust"], given);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/\nNothing changed: these files are left out/),
  });
});
