import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createRuntime } from "@rkat/core/create-runtime";
import { loadConfig } from "@rkat/node/config/load-config";
import { readIfThere } from "@rkat/node/config/realm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";

let root: string;
const project = () => join(root, "project");
const home = () => join(root, "home");
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "rkat-skills-"));
  for (const folder of [project(), home()]) mkdirSync(folder);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text: string | Buffer): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

const skillText = (name: string, more = "", body = `Text of ${name}.`) =>
  `---\nname: ${name}\ndescription: About ${name}.\n${more}---\n\n${body}\n`;

function writeSkill(base: string, name: string, more = "", body?: string): string {
  const folder = join(base, name);
  write(join(folder, "SKILL.md"), skillText(name, more, body));
  return folder;
}

const load = (isTrusted = true, cwd = project()) =>
  loadConfig({ cwd, home: home(), env: {}, readFile: readIfThere, isTrusted });

describe("skills that lie in folders", () => {
  it("[M1] come from the project and the user, and of two with one name the nearer holds", async () => {
    for (const kind of [".rkat", ".agents", ".claude"]) {
      writeSkill(join(project(), kind, "skills"), "shared", "", `of project ${kind}`);
      writeSkill(join(home(), kind, "skills"), "shared", "", `of user ${kind}`);
    }
    writeSkill(join(home(), ".claude", "skills"), "mine");
    const { skills, problems, leftOut } = await load(true, join(project(), "deep", "inside"));
    expect([problems, leftOut]).toEqual([[], undefined]);
    const runtime = createRuntime({ skills, env: {}, model: "offline" });
    const listed = (await runtime.listSkills()).skills;
    const active = listed.filter(({ isActive: is_active }) => is_active);
    expect(active.map(({ name, scope }) => `${name} ${scope}`).sort()).toEqual(["mine user", "shared project"]);
    const { key } = active.find(({ name }) => name === "shared") ?? {};
    expect(
      listed.filter(({ isActive: is_active }) => !is_active).map(({ shadowedBy: shadowed_by }) => shadowed_by),
    ).toEqual(Array(5).fill(key));
    expect(new Set(listed.map((row) => row.key.sourceUuid)).size).toBe(6);
    const read = await runtime.readSkill("shared");
    expect(read).toMatchObject({ body: "of project .rkat", scope: "project" });
    const hidden = listed.at(-2);
    expect(await runtime.readSkill("shared", { sourceUuid: hidden?.key.sourceUuid ?? "" })).toMatchObject({
      scope: "user",
    });
    // What code hands in is nearer than any file.
    const inCode = { name: "shared", description: "Of code.", body: "of code" };
    const other = createRuntime({ skills: [...skills, inCode], env: {}, model: "offline" });
    expect(await other.readSkill("shared")).toMatchObject({ body: "of code", scope: "code" });
  });

  it("[M1] have ids that are the same on every machine, and fingerprints that change with any file", async () => {
    const folder = writeSkill(join(project(), ".rkat", "skills"), "one");
    const rows = async () =>
      (await createRuntime({ skills: (await load()).skills, env: {}, model: "offline" }).listSkills()).skills;
    const [first] = await rows();
    expect(first?.source).toMatchObject({
      displayName: join(".rkat", "skills"),
      transportKind: "filesystem",
      status: "active",
    });
    write(join(folder, "more", "notes.md"), "More.");
    const [second] = await rows();
    expect(second?.key).toEqual(first?.key);
    expect(second?.source.fingerprint).not.toBe(first?.source.fingerprint);
  });

  it.each<[why: string, sentence: RegExp, make: (base: string) => void]>([
    [
      "a name that is not its folder's",
      /write name: one into/,
      (base) => write(join(base, "one", "SKILL.md"), skillText("two")),
    ],
    ["no description", /write a description/, (base) => write(join(base, "one", "SKILL.md"), "---\nname: one\n---\n")],
    ["no front matter", /write name: one into/, (base) => write(join(base, "one", "SKILL.md"), "Hello.")],
    [
      "a folder's name of other signs",
      /small letters/,
      (base) => write(join(base, "One Two", "SKILL.md"), skillText("One Two")),
    ],
    ["our own name", /itself/, (base) => void writeSkill(base, "memory-retrieval")],
    [
      "a long description",
      /shorten the description/,
      (base) => write(join(base, "one", "SKILL.md"), `---\nname: one\ndescription: ${"a".repeat(1_025)}\n---\n`),
    ],
    ["a long text", /shorten SKILL\.md/, (base) => void writeSkill(base, "one", "", "a".repeat(65_536))],
    ["bytes that are no text", /UTF-8/, (base) => write(join(base, "one", "SKILL.md"), Buffer.from([0xff, 0xfe, 0]))],
    [
      "too many files",
      /at most 64 files/,
      (base) => {
        const folder = writeSkill(base, "one");
        for (let at = 0; at < 65; at += 1) write(join(folder, `f${at}`), "");
      },
    ],
    [
      "too much in them",
      /1048576 bytes/,
      (base) => write(join(writeSkill(base, "one"), "large"), Buffer.alloc(1_048_577, 97)),
    ],
    [
      "a link that leads out",
      /leads out/,
      (base) => symlinkSync("/etc/hostname", join(writeSkill(base, "one"), "leak")),
    ],
    [
      "a link to a folder that leads out",
      /leads out/,
      (base) => symlinkSync("/etc", join(writeSkill(base, "one"), "leak")),
    ],
    [
      "itself a link out of the project",
      /leads out of the project/,
      (base) => {
        const elsewhere = writeSkill(join(dirname(dirname(dirname(base))), "elsewhere"), "one");
        mkdirSync(base, { recursive: true });
        symlinkSync(elsewhere, join(base, "one"));
      },
    ],
  ])("[M1] with %s is left out with one sentence, and the others are there", async (_why, sentence, make) => {
    const base = join(project(), ".rkat", "skills");
    make(base);
    writeSkill(base, "sound");
    const { skills, problems } = await load();
    expect(skills.map(({ name }) => name)).toEqual(["sound"]);
    expect(problems).toEqual([expect.stringMatching(sentence)]);
  });

  it("[M1] a pattern of allowed-tools that is none of ours is left out, and the skill is not", async () => {
    writeSkill(join(project(), ".rkat", "skills"), "one", "allowed-tools: shell(git *), Bash(ls:*) datetime\n");
    const { skills, problems } = await load();
    expect(problems).toEqual([expect.stringMatching(/allowed-tools is left out: .*names no tool of rkat/)]);
    const runtime = createRuntime({ skills, env: {}, model: "offline" });
    expect(await runtime.readSkill("one")).toMatchObject({ allowedTools: ["shell(git *)", "datetime"] });
  });

  it("[M1] files beside one are read whole by their names, and what is no text is refused", async () => {
    const folder = writeSkill(join(project(), ".rkat", "skills"), "one");
    write(join(folder, "a", "notes.md"), "Notes.");
    write(join(folder, "b.png"), Buffer.from([137, 80, 78, 71, 0]));
    symlinkSync(join("a", "notes.md"), join(folder, "linked.md"));
    const runtime = createRuntime({ skills: (await load()).skills, env: {}, model: "offline" });
    expect(await runtime.readSkill("one")).toMatchObject({ files: ["a/notes.md", "b.png", "linked.md"] });
    expect(await runtime.readSkill("one", { file: "a/notes.md" })).toMatchObject({ body: "Notes." });
    expect(await runtime.readSkill("one", { file: "linked.md" })).toMatchObject({ body: "Notes." });
    await expect(runtime.readSkill("one", { file: "b.png" })).rejects.toMatchObject({
      code: "SKILL_RESOLUTION_FAILED",
      message: expect.stringContaining("is no text"),
    });
    for (const file of ["../one/SKILL.md", "/etc/hostname", "a/../b.png", "a\0", "nope", "SKILL.md", "constructor"]) {
      await expect(runtime.readSkill("one", { file })).rejects.toMatchObject({ code: "SKILL_RESOLUTION_FAILED" });
    }
  });
});

describe("skills of a project and trust", () => {
  it("[M1] are left out and named until somebody trusts them as they are, with the files beside them", async () => {
    const folder = writeSkill(join(project(), ".claude", "skills"), "one", "allowed-tools: [shell(git *)]\n");
    write(join(folder, "run.sh"), "echo 1");
    writeSkill(join(home(), ".claude", "skills"), "mine");
    const before = await load(false);
    expect(before.skills.map(({ name }) => name)).toEqual(["mine"]);
    expect(before.leftOut).toMatch(/^left out until you trust this folder: skill one of .*\.claude.skills \(/);
    expect(before.brought).toMatchObject([
      {
        state: "untrusted",
        requests: [
          { text: expect.stringMatching(/offers the skill one with 1 file beside it.*allows "shell\(git \*\)"/) },
        ],
      },
    ]);
    for (const file of before.brought) before.trust.remember(file);
    const after = await load(false);
    expect([after.skills.map(({ name }) => name), after.leftOut]).toEqual([["one", "mine"], undefined]);
    write(join(folder, "run.sh"), "rm -rf /");
    const changed = await load(false);
    expect(changed.skills.map(({ name }) => name)).toEqual(["mine"]);
    expect(changed.leftOut).toContain("which has changed since it was trusted");
  });

  it("[M1] one that changes while the runtime runs is not loaded until it is trusted again", async () => {
    const folder = writeSkill(join(project(), ".rkat", "skills"), "one");
    const first = await load(false);
    for (const file of first.brought) first.trust.remember(file);
    const { skills, trust } = await load(false);
    const runtime = createRuntime({ skills, env: {}, model: "offline" });
    expect(await runtime.readSkill("one")).toMatchObject({ body: "Text of one." });
    writeSkill(join(project(), ".rkat", "skills"), "one", "", "Other text.");
    const refused = { code: "SKILL_RESOLUTION_FAILED", details: { reason_type: "changed" } };
    await expect(runtime.readSkill("one")).rejects.toMatchObject(refused);
    await expect(runtime.createSession("Hello.", { skillRefs: [{ skillName: "one" }] })).rejects.toMatchObject(refused);
    for (const file of (await load(false)).brought) trust.remember(file);
    expect(await runtime.readSkill("one")).toMatchObject({ body: "Other text." });
    rmSync(folder, { recursive: true });
    await expect(runtime.readSkill("one")).rejects.toMatchObject({ details: { reason_type: "unreadable" } });
  });
});

const TREES = byEffort({ usual: 40, full: 2_000 });

describe("any tree of folders", () => {
  it(`[M1] is read without leaving it, in ${TREES} random trees with hostile names and links`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T; // Within its length.
    const NAMES = [
      "a",
      "b.md",
      "SKILL.md",
      "..x",
      "...",
      ".hidden",
      "sp ace",
      "ünï",
      "new\nline",
      "back\\slash",
      "-rf",
      "x".repeat(200),
      "con\u202etrol",
    ];
    const SECRET = `secret-${seed}`;
    // Nothing of the machine's own: what is written beside a link may be written through it.
    write(join(root, "world", "passwd"), "root:x:0:0\n");
    write(join(root, "outside", "secret.txt"), SECRET);
    write(join(root, "outside", "SKILL.md"), skillText("outside", "", SECRET));
    for (let tree = 0; tree < TREES; tree += 1) {
      const base = join(project(), ".rkat", "skills");
      rmSync(base, { recursive: true, force: true });
      for (let at = 0; at < 4; at += 1) {
        const name = pick(["one", "two-2", "UPPER", "..three", "a b", "new\nline", "outside"]);
        if (random() < 0.2) {
          mkdirSync(base, { recursive: true });
          try {
            symlinkSync(pick([join(root, "outside"), join(root, "world"), "..", "one", "loop"]), join(base, name));
          } catch {
            // It is there.
          }
          continue;
        }
        try {
          if (random() < 0.85) writeSkill(base, name);
          let inside = join(base, name);
          for (let file = 0; file < random() * 5; file += 1) {
            if (random() < 0.3) inside = join(inside, pick(["sub", "sub", "..sub"]));
            const path = join(inside, pick(NAMES));
            if (random() < 0.3) {
              mkdirSync(dirname(path), { recursive: true });
              symlinkSync(
                pick([
                  join(root, "outside", "secret.txt"),
                  "../../../../outside",
                  join(root, "world", "passwd"),
                  "SKILL.md",
                  ".",
                  "nowhere",
                ]),
                path,
              );
            } else if (path.endsWith("SKILL.md") === false) write(path, `${tree}`);
          }
        } catch {
          // A name was taken by something else: the tree is as far as it got.
        }
      }
      const { skills, problems } = await load();
      expect(new Set(problems).size, `seed ${seed}, tree ${tree}`).toBe(problems.length);
      for (const skill of skills) {
        expect(skill.name).toMatch(/^[a-z0-9-]{1,64}$/);
        const texts = [(await skill.read()).body];
        for (const file of [...skill.files, "../../../../outside/secret.txt", join(root, "outside", "secret.txt")]) {
          texts.push(await skill.readFile(file).catch(() => ""));
        }
        expect(texts.join("\n"), `seed ${seed}, tree ${tree}, ${skill.name}`).not.toContain(SECRET);
        expect(texts.join("\n")).not.toContain("root:");
        expect(await skill.fingerprint()).toMatch(/^[0-9a-f]{64}$/);
      }
    }
  });
});
