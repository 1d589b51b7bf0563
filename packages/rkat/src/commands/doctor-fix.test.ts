import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";
import { answering, modelParts, useOllama } from "../../../../test/support/local-models.ts";

const line = useCommandLine();
const ollama = useOllama();
/** On a terminal that nothing can be drawn on, lists are numbered. */
const NOWHERE = { OLLAMA_HOST: "127.0.0.1:1", NO_COLOR: "1", TERM: "dumb" };
const UUID = "0191d5a0-0000-7000-8000-000000000000";

/** The project in which commands are run; the folder of the test is the user's home. */
let project: string;
beforeEach(() => {
  project = join(line.cwd, "project");
  mkdirSync(project);
});

const at = (env: Record<string, string> = NOWHERE) => ({ env, cwd: project, home: line.cwd, own: modelParts(env) });
const doctor = (...words: string[]) => line.run(["doctor", "--fix", ...words], at());
const doctorAsks = (...answers: string[]) =>
  line.run(["doctor", "--fix"], { ...at(), stdin: answering(...answers), isTerminal: true });
const settings = (text: string) => writeFileSync(join(project, "rkat.toml"), text);
const written = () => readFileSync(join(project, "rkat.toml"), "utf8");
/** A file that was last touched two days ago. */
const old = (path: string): string => {
  writeFileSync(path, "half");
  const then = Date.now() / 1_000 - 2 * 24 * 60 * 60;
  utimesSync(path, then, then);
  return path;
};

/** A folder that keeps a session, as a first turn makes it. */
async function keptFolder(): Promise<string> {
  expect(await line.run(["run", "hello", "there", "-m", "offline"], at())).toMatchObject({ code: 0 });
  const realms = join(project, ".rkat", "realms");
  const [name = ""] = readdirSync(realms).filter((one) => one.startsWith("ws-"));
  return join(realms, name);
}

describe("[G5] rkat doctor --fix", () => {
  it("asks before it fixes anything, and wants --yes where nobody can be asked", async () => {
    settings('[agent]\nmodle = "offline" # ours\n');
    expect(await doctor()).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: no person can be asked here;/),
    });
    const declined = await doctorAsks("n");
    expect(declined.code).toBe(1);
    expect(declined.stdout).toMatch(/^Left: rkat\.toml: agent\.modle is not a known key; rename it to agent\.model,/);
    expect(written()).toBe('[agent]\nmodle = "offline" # ours\n');
    const agreed = await doctorAsks("y");
    expect(agreed.code).toBe(0);
    expect(agreed.stdout).toMatch(/^Fixed: renamed agent\.modle to agent\.model in rkat\.toml\n/);
    expect(written()).toBe('[agent]\nmodel = "offline" # ours\n');
    expect(await doctor("--yes")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^There is nothing to fix\.\n/),
    });
  });

  it("renames keys and sections that are a slip away, and keeps the rest of the file", async () => {
    const before = [
      '# top\nagent.modle = "offline"\n',
      "[buget] # spelled so\nmax_tokens = 5_000\n\n",
      '[self_hosted.servers.box]\nbase_ulr = "http://127.0.0.1:1/v1"\n',
      '[compaction]\n"evict" = true\n',
    ].join("");
    settings(before);
    const { code, stdout } = await doctor("--yes", "--json");
    const after = before.replace("modle", "model").replace("buget", "budget").replace("ulr", "url");
    expect({ code, text: written() }).toEqual({ code: 0, text: after });
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      fixed: expect.arrayContaining([expect.stringMatching(/^renamed buget to budget/)]),
    });
    expect(readdirSync(project).sort()).toEqual(["rkat.toml"]);
  });

  it("leaves what it could get wrong: strangers, names that are taken, quoted keys and links", async () => {
    for (const text of [
      "[agent]\nfrobnicate = 1\n",
      '[agent]\nmodel = "offline"\nmodle = "gpt"\n',
      '[agent]\n"modle" = "offline"\n',
      'text = """\n[agent]\nmodle = 1\n"""\n',
    ]) {
      settings(text);
      expect(await doctor("--yes")).toMatchObject({ code: 1, stdout: expect.stringContaining("✗ configuration") });
      expect(written()).toBe(text);
    }
    const target = join(line.cwd, "elsewhere.toml");
    writeFileSync(target, "[agent]\nmax_turnz = 2\n");
    const linked = join(project, "linked");
    mkdirSync(linked);
    symlinkSync(target, join(linked, "rkat.toml"));
    const { stdout } = await doctor("--yes", "--context-root", "linked");
    expect(stdout).toMatch(/^Left: linked\/rkat\.toml is a link, and is not written through/);
    expect(readFileSync(target, "utf8")).toBe("[agent]\nmax_turnz = 2\n");
  });

  it("two at once rename a key once, and neither leaves anything behind", async () => {
    settings('[agent]\nmodle = "offline"\nmax_turnz = 3\n');
    const [one, two] = await Promise.all([doctor("--yes"), doctor("--yes")]);
    expect([one.code, two.code]).toEqual([0, 0]);
    expect(written()).toBe('[agent]\nmodel = "offline"\nmax_turns = 3\n');
    expect(readdirSync(project)).toEqual(["rkat.toml"]);
  });

  it("makes what is kept its owner's alone, and writable, and follows no link", async () => {
    settings('[agent]\nmodel = "offline"\n');
    const folder = await keptFolder();
    const log = join(folder, "log", "00000001.log");
    chmodSync(join(folder, ".."), 0o755);
    chmodSync(folder, 0o755);
    chmodSync(join(folder, "log"), 0o500);
    chmodSync(log, 0o444);
    const elsewhere = join(line.cwd, "elsewhere");
    writeFileSync(elsewhere, "", { mode: 0o644 });
    symlinkSync(elsewhere, join(folder, "link"));
    expect((await doctor("--yes")).stdout).toMatch(/^Fixed: made 4 places of .* yours alone\n/);
    const modes = [join(folder, ".."), folder, join(folder, "log"), log, elsewhere].map(
      (path) => lstatSync(path).mode & 0o777,
    );
    expect(modes).toEqual([0o700, 0o700, 0o700, 0o600, 0o644]);
  });

  it("removes what killed writes left over, of that only what is old and its own", async () => {
    settings('[agent]\nmodel = "offline"\n');
    const folder = await keptFolder();
    mkdirSync(join(folder, "blobs", "ab"), { recursive: true, mode: 0o700 });
    mkdirSync(join(line.cwd, ".rkat", "trust"), { recursive: true });
    const gone = [
      join(folder, "blobs", "ab", `${UUID}.tmp`),
      join(folder, `index.db.${UUID}.new`),
      join(project, `rkat.toml.${UUID}`),
      join(project, "rkat.toml.lock"),
      join(line.cwd, ".rkat", "trust", `${"a".repeat(64)}.json.${UUID}.new`),
    ].map(old);
    const kept = [join(project, "notes.tmp"), join(project, "rkat.toml.bak"), join(folder, "mine.tmp")].map(old);
    const fresh = join(folder, "blobs", "ab", `${UUID.replace("0191", "0192")}.tmp`);
    writeFileSync(fresh, "being written", { mode: 0o600 });
    const { code, stdout } = await doctor("--yes");
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Fixed: removed 5 unfinished files of killed commands\n/m),
    });
    expect(gone.filter((path) => existsSync(path))).toEqual([]);
    expect([...kept, fresh].filter((path) => !existsSync(path))).toEqual([]);
  });

  it("touches nothing behind a link in the place of the state folder", async () => {
    settings('[agent]\nmodel = "offline"\n');
    const elsewhere = join(line.cwd, "elsewhere");
    mkdirSync(elsewhere, { mode: 0o755 });
    chmodSync(elsewhere, 0o755);
    const left = old(join(elsewhere, `index.db.${UUID}.new`));
    mkdirSync(join(elsewhere, "mine"), { mode: 0o755 });
    mkdirSync(join(project, ".rkat"));
    symlinkSync(elsewhere, join(project, ".rkat", "realms"));
    await doctor("--yes", "--realm", "mine");
    symlinkSync(elsewhere, join(line.cwd, "linked"));
    await line.run(["doctor", "--fix", "--yes", "--realm", "linked", "--state-root", ".."], at());
    expect([existsSync(left), lstatSync(elsewhere).mode & 0o777]).toEqual([true, 0o755]);
  });

  it("says what to do about an Ollama that is down or lacks the model, and about trust", async () => {
    settings('[agent]\nmodel = "ollama/qwen3:8b"\n[tools]\nshell_enabled = true\n');
    const down = await doctor("--yes");
    expect(down.stdout).toMatch(
      /^Left: Ollama does not answer; start it with: ollama serve\nLeft: some files of this project are not trusted: rkat trust/,
    );
    const { url } = await ollama([{ name: "llama3.2:latest" }, { name: "qwen3:14b" }]);
    const env = { OLLAMA_HOST: url, NO_COLOR: "1" };
    const up = await line.run(["doctor", "--fix", "--yes", "--json"], at(env));
    expect(JSON.parse(up.stdout)).toMatchObject({
      ok: true,
      fixed: [],
      left: [
        "Ollama has no qwen3:8b; get it with: ollama pull qwen3:8b, or use ollama/qwen3:14b, which it has",
        expect.anything(),
      ],
    });
    settings('[agent]\nmodel = "ollama/llama3.2"\n');
    const fine = await line.run(["doctor", "--fix", "--yes"], at(env));
    expect(fine.stdout).toMatch(/^There is nothing to fix\./);
  });

  it("asks for a model where there is none, and says so where nobody chooses", async () => {
    expect((await doctor("--yes")).stdout).toMatch(/^Left: no model is set up: /);
    const { code, stdout } = await doctorAsks("2", "1");
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Fixed: model = "offline" is written to rkat\.toml\n/),
    });
    expect(written()).toBe('[agent]\nmodel = "offline"\n');
  });

  it("[G5] asks for a model in a list that is drawn where that can be", async () => {
    const env = { ...NOWHERE, TERM: "xterm" };
    const { ended, pressed, type, saw, screen } = typedTo(line.run, ["doctor", "--fix"], { ...at(env), env });
    await saw("❯ a provider's model");
    await pressed("offline", "❯ offline");
    await type("", "❯ for this project");
    await type("", "Fixed:");
    expect(await ended).toMatchObject({ code: 0 });
    expect(screen()).toContain('Fixed: model = "offline" is written to rkat.toml\n');
    expect(written()).toBe('[agent]\nmodel = "offline"\n');
  });
});
