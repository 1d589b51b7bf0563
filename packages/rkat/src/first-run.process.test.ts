import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { keysFileOf, storeKey, withStoredKeys } from "@rkat/node/config/keys-file";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "../../../test/support/command-line.ts";
import { typedTo } from "../../../test/support/keyboard.ts";
import { answering, modelParts, useOllama } from "../../../test/support/local-models.ts";
import type { Terminal } from "./io.ts";

const line = useCommandLine();
const ollama = useOllama();
/** On a terminal that nothing can be drawn on, lists are numbered. */
const NOWHERE = { OLLAMA_HOST: "127.0.0.1:1", NO_COLOR: "1", TERM: "dumb" };

/** The project in which commands are run; the folder of the test is the user's home. */
let project: string;
beforeEach(() => {
  project = join(line.cwd, "project");
  mkdirSync(project);
});

/** A command at a terminal whose questions get these answers. */
function type(
  words: readonly string[],
  answers: readonly (string | undefined)[],
  env: Record<string, string> = NOWHERE,
) {
  const given = { env, cwd: project, home: line.cwd, stdin: answering(...answers), isTerminal: true };
  return line.run(words, { ...given, own: modelParts(env) });
}

/** The same at a terminal where lists and chats are drawn. */
function drawn(words: readonly string[], given: Record<string, string> = {}) {
  const env = { ...NOWHERE, TERM: "xterm", ...given };
  return typedTo(line.run, words, { env, cwd: project, home: line.cwd, own: modelParts(env) });
}

const DOWN = "\u001b[B";
const CTRL_D = "\u0004";

const written = (path = join(project, "rkat.toml")): string => readFileSync(path, "utf8");

describe("[G5] the first run", () => {
  it("finds the models of an Ollama, writes the chosen one down, and goes on with the turn", async () => {
    const { url, asked } = await ollama([
      { name: "small:1b", size: 1_000_000_000 },
      { name: "large:70b", size: 40_000_000_000 },
      { name: "nomic-embed-text", size: 50_000_000_000 },
      { name: "\u001b[2Jevil", size: 60_000_000_000 },
    ]);
    const env = { ...NOWHERE, OLLAMA_HOST: url };
    const { code, stdout, stderr } = await type(["run", "hello", "there"], ["2", "1"], env);
    expect(stderr).toMatch(
      /^No model is chosen yet: .*\nChoose a model\n +1 +large:70b +Ollama, 40\.0 GB\n +2 +small:1b +Ollama, 1\.0 GB\n +3 +a provider's model .*\n +4 +offline +built in, .*no intelligence\n/,
    );
    expect({ code, stdout, asked }).toEqual({ code: 0, stdout: "Served locally.\n", asked: ["small:1b"] });
    expect(written()).toBe('[agent]\nmodel = "ollama/small:1b"\n');
    expect(readdirSync(project).sort()).toEqual([".rkat", "rkat.toml"]);
    // The next time nothing is asked, neither for a model nor for trust.
    const again = await type(["run", "once", "more"], [], env);
    expect(again).toMatchObject({ code: 0, stdout: "Served locally.\n", stderr: expect.not.stringContaining("?") });
  });

  it("offers the models of [self_hosted] first, and names them where nobody can be asked", async () => {
    const { url, asked } = await ollama([]);
    const file = join(line.cwd, ".rkat", "config.toml");
    mkdirSync(join(line.cwd, ".rkat"));
    const config = `[self_hosted.servers.local]\nbase_url = "${url}/v1"\n\n[self_hosted.models.mine]\nserver = "local"\nremote_model = "qwen3-32b"\n`;
    writeFileSync(file, config);
    const given = { env: NOWHERE, cwd: project, home: line.cwd, own: modelParts(NOWHERE) };
    expect(await line.run(["run", "hello", "there"], given)).toMatchObject({
      code: 2,
      stderr: "Error: no model is chosen: name one of [self_hosted.models] with --model or [agent] model: mine\n",
    });
    const { code, stdout, stderr } = await type(["run", "hello", "there"], ["1", "1"]);
    expect(stderr).toMatch(
      /^No model is chosen yet: .*\nChoose a model\n +1 +mine +qwen3-32b at local\n +2 +a provider's/,
    );
    expect({ code, stdout, asked }).toEqual({ code: 0, stdout: "Served locally.\n", asked: ["qwen3-32b"] });
    expect(written(file)).toBe(`${config}\n[agent]\nmodel = "mine"\n`);
  });

  it("comes before a chat, which a bare rkat is at a terminal", async () => {
    const { ended, type, pressed, press, saw, screen } = drawn([]);
    await saw("❯ a provider's model");
    await pressed("offline", "❯ offline");
    await type("", "❯ for this project");
    await pressed(DOWN, "❯ for all my projects");
    await type("", "A new session.");
    await type("My name is Ada.", "> My name is Ada.\r\n");
    await press(CTRL_D);
    expect(await ended).toMatchObject({ code: 0 });
    expect(screen()).toMatch(/model = "offline" is written to ~\/\.rkat\/config\.toml\nA new session\./);
    expect(screen()).toMatch(/\n> My name is Ada\.\n[\s\S]*Ada/);
    expect(written(join(line.cwd, ".rkat", "config.toml"))).toBe('[agent]\nmodel = "offline"\n');
  });

  it("leaves everything as it was when nothing is chosen, and says what to do", async () => {
    for (const answers of [[""], [undefined], ["99"], ["x"], ["2", ""], ["2", undefined]]) {
      const { code, stdout, stderr } = await type(["run", "hello", "there"], answers);
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
      expect(stderr).toMatch(/\nNothing was changed\. Name a model with --model, .*\n$/);
    }
    expect(readdirSync(project)).toEqual([]);
    expect(readdirSync(line.cwd)).toEqual(["project"]);
  });

  it("says what to do after Ctrl-C, too", async () => {
    const interrupt = new AbortController();
    const stdin = {
      ...answering(),
      terminal: () => {
        setImmediate(() => interrupt.abort(130));
        return nobody();
      },
    };
    const given = { env: NOWHERE, cwd: project, home: line.cwd, stdin, isTerminal: true, interrupt: interrupt.signal };
    const { code, stderr } = await line.run(["run", "hello", "there"], { ...given, own: modelParts(NOWHERE) });
    expect(code).toBe(130);
    expect(stderr).toMatch(/\nNothing was changed\. .*\nInterrupted\.\n$/);
    expect(readdirSync(project)).toEqual([]);
  });

  it("takes a key, stores it where only its owner can read it, and goes on with the turn", async () => {
    const { url, asked } = await ollama([]);
    const env = (): Record<string, string> => ({ ...NOWHERE, OPENAI_BASE_URL: `${url}/v1` });
    const { code, stdout, stderr } = await type(["run", "hello", "there"], ["1", "2", " sk-test-1 ", "1"], env());
    expect(stderr).toMatch(/\nWhose key\?\n +1 +anthropic .*\n +2 +openai .*\n[\s\S]*\nthe key is stored in .*keys\n/);
    expect({ code, stdout, asked: asked.length }).toEqual({ code: 0, stdout: "Served locally.\n", asked: 1 });
    const path = keysFileOf(line.cwd);
    expect({ text: written(path), mode: statSync(path).mode & 0o777 }).toEqual({
      text: "OPENAI_API_KEY=sk-test-1\n",
      mode: 0o600,
    });
    expect(stdout + stderr).not.toContain("sk-test-1");
    // Used for one run, it is written nowhere.
    const once = await type(["run", "hello", "there"], ["1", "2", "sk-test-2", "2"], env());
    expect(once).toMatchObject({ code: 0, stdout: "Served locally.\n" });
    expect(written(path)).toBe("OPENAI_API_KEY=sk-test-1\n");
    expect(readdirSync(project)).toEqual([".rkat"]);
  });

  it("[G5] stores no key over a file that is left out, whose keys would be lost", () => {
    storeKey(line.cwd, "OPENAI_API_KEY", "sk-first");
    chmodSync(keysFileOf(line.cwd), 0o644);
    expect(() => storeKey(line.cwd, "ANTHROPIC_API_KEY", "sk-second")).toThrow("run: chmod 600");
    expect(readFileSync(keysFileOf(line.cwd), "utf8")).toBe("OPENAI_API_KEY=sk-first\n");
  });

  it("reads stored keys below the environment, and leaves out a file that others can read", () => {
    storeKey(line.cwd, "OPENAI_API_KEY", "sk-a");
    storeKey(line.cwd, "GEMINI_API_KEY", "sk-b");
    const warnings: string[] = [];
    const read = (env: Record<string, string>) => withStoredKeys(env, line.cwd, (one) => warnings.push(one));
    expect(read({ OPENAI_API_KEY: "sk-c" })).toEqual({ OPENAI_API_KEY: "sk-c", GEMINI_API_KEY: "sk-b" });
    chmodSync(keysFileOf(line.cwd), 0o644);
    expect(read({})).toEqual({});
    expect(warnings).toEqual([
      expect.stringMatching(/keys is left out, since other users can read its keys; run: chmod/),
    ]);
  });

  it("asks nobody where nobody sits, where JSON is wanted, or where something says which model", async () => {
    const failing = { code: 2, stderr: expect.stringMatching(/^Error: no model is configured: set ANTHROPIC_API_KEY/) };
    const own = modelParts(NOWHERE);
    const piped = await line.run(["run", "hello", "there"], { env: NOWHERE, cwd: project, home: line.cwd, own });
    expect(piped).toMatchObject(failing);
    for (const flag of ["--json", "--events"]) {
      expect(await type(["run", "hello", "there", flag], [])).toMatchObject(failing);
    }
    for (const [words, env] of [
      [["-m", "offline"], NOWHERE],
      [[], { ...NOWHERE, RKAT_MODEL: "offline" }],
    ] as const) {
      expect(await type(["run", "hello", "there", ...words], [], env)).toMatchObject({ code: 0 });
    }
    const keyless = await type(["run", "hello", "there", "--provider", "openai"], []);
    expect(keyless).toMatchObject({ code: 2, stderr: expect.stringMatching(/^Error: no key for openai/) });
  });

  it("adds to a file that is there, and keeps the rest of it to the byte", async () => {
    const before = "# ours\n[agent] # all of them\nmax_turns = 7   # few\n\n[budget]\nmax_tokens = 5_000\n";
    writeFileSync(join(project, "rkat.toml"), before);
    expect(await type(["run", "hello", "there"], ["2"])).toMatchObject({ code: 0 });
    expect(written()).toBe(before.replace("them\n", 'them\nmodel = "offline"\n'));
    // A file that was trusted stays so, since the person at the terminal changed it.
    const shell = "[tools]\nshell_enabled = true\n";
    writeFileSync(join(project, "rkat.toml"), shell);
    const { code, stderr } = await type(["run", "hello", "there"], ["y", "2"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("model =") });
    expect(written()).toBe(`${shell}\n[agent]\nmodel = "offline"\n`);
    expect((await type(["trust", "--status"], [])).stdout).toMatch(/\(trusted\)/);
  });

  it("does not change what it cannot change without a doubt, nor write through a link", async () => {
    writeFileSync(join(project, "rkat.toml"), "agent = { max_turns = 7 }\n");
    const { code, stderr } = await type(["run", "hello", "there"], ["2"]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining("Error: rkat.toml was not changed: "),
    });
    expect(written()).toBe("agent = { max_turns = 7 }\n");
    const target = join(line.cwd, "elsewhere.toml");
    writeFileSync(target, "[budget]\n");
    mkdirSync(join(project, "linked"));
    symlinkSync(target, join(project, "linked", "rkat.toml"));
    const linked = await type(["run", "hello", "there", "--context-root", "linked"], ["2"]);
    expect(linked).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/linked\/rkat\.toml is a link, and is not written through/),
    });
    expect(written(target)).toBe("[budget]\n");
  });

  it("names a server that configurations must be told of", async () => {
    const server = {
      name: "lmstudio",
      title: "LM Studio",
      baseUrl: "http://127.0.0.1:1/v1",
      models: [{ name: "a/b" }],
    };
    const own = { ...modelParts(NOWHERE), findLocalServers: async () => [server] };
    const given = { env: NOWHERE, cwd: project, home: line.cwd, stdin: answering("1", "1"), isTerminal: true, own };
    await line.run(["run", "hello", "there", "--max-duration", "1s"], given);
    expect(written()).toBe(
      '[agent]\nmodel = "lmstudio/a/b"\n\n[self_hosted.servers.lmstudio]\nbase_url = "http://127.0.0.1:1/v1"\n',
    );
    expect((await type(["trust", "--status"], [])).stdout).toMatch(/^Nothing here needs trust/);
  });
});

/** A terminal at which nothing is typed. */
function nobody(): Terminal {
  // A question needs no more of a terminal than these.
  return { input: new PassThrough(), output: new PassThrough() } as unknown as Terminal;
}

describe("[G5] rkat without a word", () => {
  /** Talks in it, and returns what was seen in the end. */
  const chat = async (...words: string[]): Promise<string> => {
    const { ended, type, press, saw, screen } = drawn(words, { RKAT_MODEL: "offline" });
    await saw("> ");
    await type("My name is Ada.", "> My name is Ada.\r\n");
    await press(CTRL_D);
    expect(await ended).toMatchObject({ code: 0 });
    return screen();
  };
  const talk = (...words: string[]) => type(words, ["My name is Ada.\r\u0004"], { ...NOWHERE, RKAT_MODEL: "offline" });

  it("is a chat at a terminal, also with flags of one", async () => {
    const chats = [[], ["-m", "offline"], ["--agent", "ada"], ["-r", "other", "--tools=none", "--model", "offline"]];
    for (const words of chats) {
      expect(await chat(...words)).toMatch(/^A new session\./);
    }
    expect(await chat("--resume")).toMatch(/^Session .* messages with/);
  });

  it("stays what it was elsewhere, and with a word", async () => {
    const help = await line.run(["--help"]);
    const stdin = answering();
    expect(await line.run([], { stdin })).toEqual(help);
    expect(await line.run(["--help"], { stdin, isTerminal: true, env: { NO_COLOR: "1" } })).toEqual(help);
    expect(await line.run(["--version"], { stdin, isTerminal: true })).toMatchObject({ code: 0, stdout: "1.2.3\n" });
    expect(await talk("dokter")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: there is no command dokter;/),
    });
    expect(await talk("--frob")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: unknown option '--frob'/),
    });
    expect(await talk("-m")).toMatchObject({ code: 2, stderr: expect.stringMatching(/^Error: option '-m, --model/) });
    expect(await talk("--stdin", "off")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: there is no prompt/),
    });
    const env = { RKAT_MODEL: "offline" };
    expect(await line.run([], { input: "My name is Ada.", env })).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^\[Session: /),
    });
  });
});
