import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DOOR, firstLine } from "../support/console-server.ts";
import { usePausedModel } from "../support/paused-model.ts";
import { createCaller } from "../support/rest-server.ts";

// A process is started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

let folder: string;
const started: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-app-"));
  symlinkSync(join(import.meta.dirname, "../../node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
});
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await closed;
  }
  rmSync(folder, { recursive: true, maxRetries: 10 });
});

function start(words: readonly string[], env: Record<string, string> = {}) {
  const own = { PATH: process.env.PATH, HOME: folder, RKAT_LOG: "off", ...env };
  const child = spawn(process.execPath, [DOOR, ...words], { cwd: folder, env: own, stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  const said = { stderr: "" };
  child.stderr?.on("data", (data) => {
    said.stderr += data;
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, said, exited };
}

async function serve(words: readonly string[], env: Record<string, string> = {}) {
  const { child, said } = start(["serve", "--port", "0", "--json", ...words], env);
  const { url, token } = JSON.parse(await firstLine(child)) as { url: string; token: string }; // What `--json` promises.
  const call = createCaller(url);
  const authorization = `Bearer ${token}`;
  const ask = (route: string, body?: unknown, headers = {}) => call(route, body, { authorization, ...headers });
  return { url, token, said, call, ask };
}

/** A module whose sessions are in `.state` and whose tool says a word. */
const agent = (word: string, more = ""): string => `
import { openRuntime } from "rkat";
import { WORD } from "./word.ts";
${more}
const say = { name: "say", description: "Says a word.", inputSchema: { type: "object" }, execute: async () => WORD };
export default () => openRuntime({ stateFolder: "./.state", tools: [say], systemPrompt: "${word}", env: process.env });
`;

describe("rkat serve --app", () => {
  const model = usePausedModel();

  it("[S1] serves the runtime of a module, which needs a token even on this machine", async () => {
    writeFileSync(join(folder, "word.ts"), 'export const WORD: string = "first";');
    writeFileSync(join(folder, "agent.ts"), agent("one"));
    const { call, ask, token, said } = await serve(["--app", "./agent.ts"], { RKAT_MODEL: "offline" });
    await expect.poll(() => said.stderr).toContain(`-d '{"prompt":"Hello!"}'`);
    expect(token).toMatch(/^rkat_/);
    expect((await call("GET /sessions")).status).toBe(401);
    const { body } = await ask("POST /sessions", { prompt: "Hello!", model: "offline" });
    expect(body).toMatchObject({ session_id: expect.any(String) });
    const missing = await ask("GET /sessions/0199a000-0000-7000-8000-000000000000");
    expect(missing).toMatchObject({ status: 404, body: { code: "SESSION_NOT_FOUND" } });
    expect(await ask("GET /ready")).toMatchObject({ status: 200, body: { status: "ready" } });
  });

  it("[S1] loads a watched module again between two turns, and keeps the version before one that cannot be loaded", async () => {
    writeFileSync(join(folder, "word.ts"), 'export const WORD = "first";');
    writeFileSync(join(folder, "agent.ts"), agent("one"));
    const { ask, said } = await serve(["--app", "./agent.ts", "--watch"], model.env());
    const running = ask("POST /sessions", { prompt: "Tell me a story." });
    await expect.poll(() => model.asked.length).toBe(1);
    writeFileSync(join(folder, "word.ts"), "this is not a module");
    await expect.poll(() => said.stderr).toMatch(/the module cannot be loaded: .*; the version before is still served/);
    writeFileSync(join(folder, "word.ts"), 'export const WORD = "second";');
    await expect.poll(() => said.stderr).toContain("agent.ts changed; it is served when what runs has ended");
    expect(said.stderr).not.toContain("was loaded again");
    model.finish();
    const { body } = await running;
    expect(body).toMatchObject({ text: "Once upon a time." });
    await expect.poll(() => said.stderr).toContain("agent.ts was loaded again");
    // The new version has the sessions of the one before.
    const further = await ask(`POST /sessions/${body.session_id}/messages`, {
      prompt: "Go on.",
      session_id: body.session_id,
    });
    expect(further.body).toMatchObject({ session_id: body.session_id, text: "Once upon a time." });
  });

  it.each([
    ["absent.ts", undefined, /--app .*absent\.ts: there is no such file/],
    ["empty.ts", "export {};", /: export a runtime, or a function that makes one, as default or runtime/],
    [
      "wrong.ts",
      "export const runtime = { answer: 42 };",
      /: what it exports is no runtime; export what createRuntime/,
    ],
    ["thrown.ts", 'export default () => { throw new Error("no key"); };', /: the runtime cannot be made: no key/],
    ["broken.ts", 'throw new Error("no disk");', /: the module cannot be loaded: no disk/],
  ])("[S1] says in one sentence what is wrong with %s", async (name, text, sentence) => {
    if (text !== undefined) writeFileSync(join(folder, name), text);
    const { exited, said } = start(["serve", "--app", name, "--port", "0"]);
    expect(await exited).toBe(2);
    expect(said.stderr).toMatch(sentence);
    expect(said.stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("[S1] refuses flags that do not fit together", async () => {
    for (const words of [["--watch"], ["--app", "a.ts", "--tools", "full"]]) {
      expect(await start(["serve", ...words]).exited).toBe(2);
    }
  });

  it("[S1] rkat console serves a module, too", async () => {
    writeFileSync(
      join(folder, "agent.js"),
      'import { createRuntime } from "rkat"; export const runtime = createRuntime();',
    );
    const { child } = start(["console", "--app", "agent.js", "--no-open"]);
    expect(await firstLine(child)).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#token=rkat_/);
  });
});
