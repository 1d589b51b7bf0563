import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { importsOf } from "../../../test/source-files.ts";
import { startRkat } from "../../../test/support/rkat-process.ts";

const root = join(import.meta.dirname, "..");
const source = readFileSync(join(root, "src/cli.ts"), "utf8");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "rkat-cli-"));
});
afterAll(() => rmSync(home, { recursive: true }));

const start = (args: readonly string[], given?: Parameters<typeof startRkat>[2]) => startRkat(home, args, given);
const rkat = (...args: string[]) => start(args).ended;
const ESCAPE = String.fromCharCode(27);

describe("the door", () => {
  it("answers --version before it loads anything", async () => {
    const statics = importsOf({ path: "src/cli.ts", text: source }).filter(({ kind }) => kind === "static");
    expect(statics.filter(({ specifier }) => !specifier.startsWith("node:"))).toEqual([]);
    expect(await rkat("--version")).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: "" });
  });

  it("[H1] says in a sentence that its folder is gone or its output cannot be written", async () => {
    const shell = promisify(execFile);
    const command = `"${process.execPath}" "${join(import.meta.dirname, "cli.ts")}" models`;
    const refused = (script: string) => shell("sh", ["-c", script]).catch((error) => error);
    expect(
      await refused(`mkdir "${home}/gone" && cd "${home}/gone" && rmdir "${home}/gone" && ${command}`),
    ).toMatchObject({
      code: 2,
      stderr: "Error: the working folder is not there any more; change to one that is.\n",
    });
    expect(await refused(`cd "${home}" && ${command} > /dev/full`)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Error: cannot write the output: ENOSPC.*\n$/),
    });
  });

  it("[G5] is quiet about a reader that has left", async () => {
    const child = start(["models"]);
    child.child.stdout?.destroy();
    expect(await child.ended).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});

describe("rkat run", () => {
  it("[A8] answers offline: the text on stdout, what it took on stderr, no colour in a pipe", async () => {
    const { code, stdout, stderr } = await rkat("what is 17 * 3?", "-m", "offline");
    expect(code).toBe(0);
    expect(stdout).toMatch(/\b51\b.*\n$/);
    expect(stderr).toMatch(/^\[Session: [0-9a-f]{8} \| Turns: 1 \| Tokens: \d+ in \/ \d+ out\]\n$/);
    expect(stdout + stderr).not.toContain(ESCAPE);
  });

  it("[A7] without a key says in one sentence which variable to set and that offline needs none", async () => {
    const { code, stdout, stderr } = await rkat("run", "hello");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^Error: .*ANTHROPIC_API_KEY.*"offline", which needs no key\n$/);
  });

  it("puts what is piped in before the prompt, as context", async () => {
    const { stdout } = await start(["run", "why?", "-m", "offline", "-t", "none", "--events"], { input: "the log\n" })
      .ended;
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines[0]).toMatchObject({ type: "run_started", prompt: "<stdin>\nthe log\n</stdin>\n\nwhy?" });
    expect(lines.at(-1)).toMatchObject({ type: "result", turns: 1, tool_calls: 0 });
  });

  it("takes what is piped in as the prompt when there is no other", async () => {
    const { code, stdout } = await start(["-m", "offline"], { input: "What is 2 + 3?" }).ended;
    expect(code).toBe(0);
    expect(stdout).toMatch(/\b5\n$/);
  });

  it("[H1] refuses a prompt that is not there, and stdin beyond its bound", async () => {
    expect(await rkat("run", "-m", "offline")).toEqual({
      code: 2,
      stdout: "",
      stderr: 'Error: there is no prompt: write one, like rkat run "hello", or pipe one in\n',
    });
    const large = await start(["run", "x", "-m", "offline"], { input: "a".repeat(8 * 1024 * 1024 + 1) }).ended;
    expect(large).toMatchObject({ code: 52, stdout: "" });
    expect(large.stderr).toMatch(/^Error: stdin holds more than 8 MiB; .*\n$/);
  });

  it("[B1] [B3] prints what was said when a budget runs out, and exits with the table's code", async () => {
    const flags = ["--max-tokens", "10", "--max-duration", "30s", "--max-tool-calls", "5"];
    const { code, stdout, stderr } = await rkat("What is 2 + 3?", "-m", "offline", ...flags);
    expect(code).toBe(21);
    expect(stdout).toMatch(/\b5\n$/);
    expect(stderr).toMatch(
      /^! \d+ % of the token budget is used: .*\n\[Session: .*\nStopped: the token budget of 10 .*/,
    );
  });
});

describe("against a server", () => {
  let server: Server;
  let env: Record<string, string>;
  const KEY = "sk-very-secret-0123456789";

  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume();
      if (request.url?.startsWith("/refusing")) {
        response.writeHead(401, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { message: `wrong key ${KEY}` } }));
        return;
      }
      response.writeHead(200, { "content-type": "text/event-stream" });
      const chunk = { id: "1", choices: [{ index: 0, delta: { role: "assistant", content: "Once upon" } }] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`); // And never another word.
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    // A listening server has an address of this shape.
    const { port } = server.address() as AddressInfo;
    env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}`, OPENAI_API_KEY: KEY };
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  it("[G5] keeps what was said until Ctrl-C, and exits with 130", async () => {
    const turn = start(["run", "go", "-m", "openai/m", "--stream"], { env });
    await turn.saw("Once upon");
    turn.child.kill("SIGINT");
    expect(await turn.ended).toEqual({ code: 130, stdout: "Once upon\n", stderr: "Interrupted.\n" });
  });

  it("reports an interrupt to scripts as the last line, with the partial text", async () => {
    const turn = start(["run", "go", "-m", "openai/m", "--events"], { env });
    await turn.saw("Once upon");
    turn.child.kill("SIGTERM");
    const { code, stdout } = await turn.ended;
    expect(code).toBe(143);
    expect(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "")).toMatchObject({
      type: "error",
      error: { code: "REQUEST_CANCELLED", category: "request", details: { partial_text: "Once upon" } },
    });
  });

  it("[G1] [H3] exits with PROVIDER_ERROR's code, as JSON too, and never shows the key", async () => {
    const refusing = { ...env, OPENAI_BASE_URL: `${env.OPENAI_BASE_URL}/refusing` };
    const { code, stdout, stderr } = await start(["run", "go", "-m", "openai/m", "--json"], { env: refusing }).ended;
    expect(code).toBe(20);
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "PROVIDER_ERROR", category: "provider" } });
    expect(stderr).toMatch(/^Error: [^\n]+\n$/);
    const doctor = await start(["doctor"], { env }).ended;
    expect(doctor.code).toBe(0);
    expect(stdout + stderr + doctor.stdout + doctor.stderr).not.toContain(KEY);
  });
});

describe("rkat demo", () => {
  it("[A8] tells only what happens, twice the same, and leaves nothing behind", async () => {
    const before = readdirSync(home);
    const scratch = mkdtempSync(join(tmpdir(), "rkat-scratch-"));
    const demo = (...flags: string[]) => start(["demo", ...flags], { env: { TMPDIR: scratch } }).ended;
    const [first, second] = await Promise.all([demo(), demo("--fast")]);
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(/\nAll \d+ claims held\.\n/);
    expect(first.stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    expect(first.stdout).not.toContain(ESCAPE);
    expect(second).toEqual(first);
    expect(readdirSync(home)).toEqual(before);
    expect(readdirSync(scratch).filter((name) => name.startsWith("rkat-demo-"))).toEqual([]);
    rmSync(scratch, { recursive: true });
  }, 60_000);
});
