import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { createRuntime } from "@rkat/core/create-runtime";
import type { McpServerConfig } from "@rkat/core/ports/tool";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createClient } from "./support/mcp-connection.ts";
import { isRunning, openHttpServer, pidsOf, program, reported, runtimeWith } from "./support/mcp-servers.ts";
import { startRkat } from "./support/rkat-process.ts";

let folder: string;
let notes: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-mcp-tools-"));
  notes = join(folder, "notes");
});
afterEach(() => rmSync(folder, { recursive: true }));

const call = (...names: string[]) => ({ calls: names.map((name) => ({ name })) });

describe("tools of MCP servers", () => {
  it("[G9] are offered under their server's name, with what the server says of them, and can be called", async () => {
    const script = [
      {
        calls: [{ name: "mcp__t__echo", args: { text: "hello" } }, { name: "mcp__t__fail" }, { name: "mcp__t__mixed" }],
      },
      { calls: [{ name: "mcp__t__image" }, { name: "mcp__t__structured" }, { name: "mcp__t__huge" }] },
      { text: "done" },
    ];
    const { runtime, offered, results, warnings } = runtimeWith(script, {
      mcpServers: [{ name: "t", ...program(notes) }],
    });
    const session = await runtime.createSession("Go.");
    expect(offered()).toContain("mcp__t__echo");
    expect(offered().filter((name) => !/^[A-Za-z0-9_-]{1,64}$/.test(name))).toEqual([]);
    expect(offered().find((name) => name.startsWith("mcp__t__odd"))).toBe("mcp__t__odd_name_of_a_tool_02a50071");
    // A tool whose schema is none is left out alone.
    expect(offered()).not.toContain("mcp__t__unsound");
    expect(warnings).toEqual([
      expect.stringMatching(/^tool unsound of MCP server t is left out: its input schema is not a usable JSON schema:/),
    ]);
    const { messages } = await session.history();
    const first = messages.find(({ role }) => role === "tool_results");
    expect(first).toMatchObject({
      results: [
        { content: "You said: hello", is_error: false },
        { content: "no such page", is_error: true },
        { content: "one\n[test://two]\ntwo\n[audio/wav, about 72 bytes, not shown]\n[three: test://three]" },
      ],
    });
    const [image, structured, huge] = results();
    expect(image?.content).toEqual([
      { type: "image", source: "inline", media_type: "image/png", data: expect.stringMatching(/^iVBOR/) },
    ]);
    expect(structured).toEqual({ content: '{"celsius":7}', is_error: false });
    expect(String(huge?.content).length).toBeLessThan(70_000);
    expect(huge?.content).toContain("of 300000 bytes left out here; the full output is blob");
    await runtime.close();
  });

  it("[G9] start nothing before a turn that may use them, and never where a session has no tools", async () => {
    const { runtime, offered } = runtimeWith([{ text: "ok" }, { text: "ok" }], {
      mcpServers: [{ name: "t", ...program(notes) }],
    });
    const deferred = await runtime.createDeferredSession("Later.", { toolPreset: "safe" });
    await runtime.createSession("Now.", { toolPreset: "none" });
    expect({ reported: reported(notes), offered: offered() }).toEqual({ reported: [], offered: [] });
    await deferred.turn("Go.");
    expect(pidsOf(notes)).toHaveLength(1);
    expect(offered()).toContain("mcp__t__echo");
    await runtime.close();
  });

  it("[G9] can be allowed and denied by name, by the file and by a session", async () => {
    const tools = ["echo", "pid", "ghost"];
    const { runtime, offered, warnings } = runtimeWith([{ text: "ok" }, { text: "ok" }], {
      mcpServers: [{ name: "t", ...program(notes), tools }],
    });
    await runtime.createSession("Go.");
    expect(offered()).toEqual(["mcp__t__echo", "mcp__t__pid"]);
    await runtime.createSession("Go.", { toolFilter: { Deny: ["mcp__t__pid"] } });
    expect(offered()).toEqual(["mcp__t__echo"]);
    expect(warnings).toEqual(["MCP server t has no tool ghost"]);
    await runtime.close();
  });

  it("[G9] are those of one process for all sessions, which ends with the runtime however stubborn it is", async () => {
    const pid = call("mcp__t__pid");
    const { runtime, results } = runtimeWith([pid, { text: "ok" }, pid, { text: "ok" }], {
      // Behind a launcher, as most servers are.
      mcpServers: [{ name: "t", command: "sh", args: ["-c", `"$@"; true`, "sh", ...commandLine("stubborn")] }],
    });
    const seen: unknown[] = [];
    for (const prompt of ["One.", "Two."]) {
      await runtime.createSession(prompt);
      seen.push(results()[0]?.content);
    }
    const [only = 0, ...more] = pidsOf(notes);
    expect({ seen, more }).toEqual({ seen: [String(only), String(only)], more: [] });
    expect(isRunning(only)).toBe(true);
    await runtime.close();
    await runtime.close();
    await expect.poll(() => isRunning(only)).toBe(false);
  });

  it("[G9] that change are those of the next turn", async () => {
    const learn = { calls: [{ name: "mcp__t__learn", args: { name: "juggle" } }] };
    const { runtime, offered, results } = runtimeWith([learn, { text: "ok" }, call("mcp__t__juggle"), { text: "ok" }], {
      mcpServers: [{ name: "t", ...program(notes) }],
    });
    const session = await runtime.createSession("Learn.");
    expect(offered()).not.toContain("mcp__t__juggle");
    await session.turn("Now do it.");
    expect(offered()).toContain("mcp__t__juggle");
    expect(results()).toEqual([{ content: "learned", is_error: false }]);
    await runtime.close();
  });

  function commandLine(mode: "stubborn"): readonly string[] {
    const { command, args = [] } = program(notes, mode);
    return [command, ...args];
  }
});

describe("MCP servers that fail", () => {
  it("[G9] are left out with a sentence each, and the turn goes on with the others", async () => {
    const servers: McpServerConfig[] = [
      { name: "absent", command: join(folder, "no-such-program") },
      { name: "crashing", ...program(join(folder, "crashing"), "crash") },
      { name: "hanging", ...program(join(folder, "hanging"), "hang"), connectTimeoutMs: 1_000 },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the file says.
      { name: "unset", url: "http://127.0.0.1:1/", headers: { Authorization: "Bearer ${NO_SUCH_TOKEN}" } },
      { name: "off", command: "never", enabled: false },
      { name: "t", ...program(notes) },
    ];
    const { runtime, offered, warnings } = runtimeWith([{ text: "ok" }, { text: "ok" }], { mcpServers: servers });
    const session = await runtime.createSession("Go.");
    expect(offered()).toContain("mcp__t__echo");
    await session.turn("Again.");
    expect(warnings.filter((sentence) => !sentence.startsWith("tool unsound")).sort()).toEqual([
      `MCP server absent is left out: its command ${join(folder, "no-such-program")} was not found`,
      'MCP server crashing is left out: it ended with exit code 1 and said "Error: cannot find the database"',
      "MCP server hanging is left out: it did not answer within 1000 ms (connect_timeout)",
      "MCP server unset is left out: it needs the variable NO_SUCH_TOKEN, which is not set",
    ]);
    // The second turn came too soon to try any of them again.
    // It was started once for each family of versions.
    expect(pidsOf(join(folder, "crashing"))).toHaveLength(2);
    expect(pidsOf(join(folder, "hanging")).filter(isRunning)).toEqual([]);
    await runtime.close();
  });

  it("[G9] are tried again at a later turn, when some time has passed", async () => {
    let laterMs = 0;
    const clock = { ...createSystemClock(), now: () => Date.now() + laterMs };
    const command = join(folder, "server");
    const { runtime, offered, warnings } = runtimeWith(() => ({ text: "ok" }), {
      mcpServers: [{ name: "t", command, tools: ["echo"] }],
      clock,
    });
    const session = await runtime.createSession("One.");
    const { command: node, args = [] } = program(notes);
    writeFileSync(command, `#!/bin/sh\nexec '${node}' ${args.map((arg) => `'${arg}'`).join(" ")}\n`, { mode: 0o755 });
    await session.turn("Two.");
    expect(offered()).toEqual([]);
    laterMs = 60_000;
    await session.turn("Three.");
    expect(offered()).toEqual(["mcp__t__echo"]);
    expect(warnings).toEqual([`MCP server t is left out: its command ${command} was not found`]);
    await runtime.close();
  });

  it("[G9] in the middle of a call give an error the model sees, and are started again at the next use", async () => {
    const script = [call("mcp__t__die"), call("mcp__t__pid"), { text: "ok" }];
    const { runtime, results } = runtimeWith(script, { mcpServers: [{ name: "t", ...program(notes) }] });
    const session = await runtime.createSession("Go.");
    const { messages } = await session.history();
    expect(messages.find(({ role }) => role === "tool_results")).toMatchObject({
      results: [
        {
          content:
            "MCP server t failed during the call: it ended with exit code 3; " +
            "the call may or may not have taken effect, and the next one reconnects",
          is_error: true,
        },
      ],
    });
    const [, second] = pidsOf(notes);
    expect(results()).toEqual([{ content: String(second), is_error: false }]);
    await runtime.close();
  });

  it("[G9] to answer in time are told that the call is cancelled, and so is the model", async () => {
    const { runtime, results } = runtimeWith([call("mcp__t__wait"), call("mcp__t__pid"), { text: "ok" }], {
      mcpServers: [{ name: "t", ...program(notes), timeoutMs: 500 }],
    });
    const session = await runtime.createSession("Go.");
    const { messages } = await session.history();
    const content = "mcp__t__wait did not finish within 500 ms and was stopped; it may or may not have taken effect";
    expect(messages.find(({ role }) => role === "tool_results")).toMatchObject({ results: [{ content }] });
    await expect.poll(() => reported(notes)).toContain("cancelled");
    // The connection is as good as before.
    expect(results()).toEqual([{ content: String(pidsOf(notes)[0]), is_error: false }]);
    await runtime.close();
  });

  it("[G9] because the turn is interrupted are told so", async () => {
    const { runtime } = runtimeWith([call("mcp__t__wait")], { mcpServers: [{ name: "t", ...program(notes) }] });
    const session = await runtime.createDeferredSession("Begin.");
    const turn = session.turn("Go.");
    const ended = expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await expect.poll(() => reported(notes), { timeout: 60_000 }).toContain("waiting");
    await session.interrupt();
    await ended;
    await expect.poll(() => reported(notes)).toContain("cancelled");
    await runtime.close();
  });
});

describe("what MCP servers are given", () => {
  const secret = "hunter2-hunter2-hunter2";
  const env = { PATH: process.env.PATH ?? "", HOME: "/h", ANTHROPIC_API_KEY: "not-for-servers", PLACE: secret };

  it("[G9] [H3] is what the file names and a few harmless variables, and is never kept or told", async () => {
    const named = (name: string) => ({ name: "mcp__t__env", args: { name } });
    const script = [{ calls: [named("DB"), named("HOME"), { name: "mcp__t__names" }] }, { text: "ok" }];
    const { runtime, results, warnings } = runtimeWith(script, {
      env,
      mcpServers: [
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the file says.
        { name: "t", ...program(notes), env: { DB: "at ${PLACE}" } },
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the file says.
        { name: "c", ...program(notes, "crash"), env: { SECRET_PLACE: "${PLACE}" } },
      ],
    });
    await runtime.createSession("Go.");
    expect(results()).toEqual([
      { content: "DB is at [redacted]", is_error: false },
      { content: "HOME is /h", is_error: false },
      { content: "DB HOME PATH", is_error: false },
    ]);
    expect(warnings).toContain(
      'MCP server c is left out: it ended with exit code 1 and said "Error: cannot find [redacted]"',
    );
    await runtime.close();
  });

  it("[G9] over HTTP, are headers; a server that has forgotten its client is greeted again", async () => {
    const server = await openHttpServer(secret);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what the file says.
    const headers = { Authorization: "Bearer ${PLACE}" };
    const echo = (name: string) => ({ name: `mcp__${name}__echo`, args: { text: name } });
    const script = [
      { calls: [echo("http"), echo("sse")] },
      { text: "ok" },
      { calls: [echo("http")] },
      { calls: [echo("http")] },
      { text: "ok" },
    ];
    const { runtime, results, warnings } = runtimeWith(script, {
      env,
      mcpServers: [
        { name: "http", url: `${server.url}/mcp`, headers, tools: ["echo"] },
        { name: "sse", url: `${server.url}/sse`, headers, transport: "sse", tools: ["echo"] },
        { name: "stranger", url: `${server.url}/mcp` },
      ],
    });
    const session = await runtime.createSession("Go.");
    expect(results().map(({ content }) => content)).toEqual(["You said: http", "You said: sse"]);
    expect(warnings).toEqual([
      "MCP server stranger is left out: it requires a login; run rkat mcp login stranger, or set its headers",
    ]);
    server.forget();
    await session.turn("Again.");
    const { messages } = await session.history();
    const answers = messages.filter(({ role }) => role === "tool_results").slice(1);
    expect(answers).toMatchObject([
      { results: [{ content: expect.stringMatching(/^MCP server http failed during the call: /), is_error: true }] },
      { results: [{ content: "You said: http", is_error: false }] },
    ]);
    await runtime.close();
    await server.close();
  });
});

describe("the option mcpServers", () => {
  it("[G9] [H1] is refused in a sentence where a server is none, or two have one name", () => {
    const twice: McpServerConfig = { name: "t", command: "x" };
    const sentence = /^mcpServers: give a list of MCP servers, each \{name, command\} or \{name, url\}/;
    for (const mcpServers of [[twice, twice], [{ name: "t" }], { t: twice }]) {
      // What callers without types may hand in.
      expect(() => createRuntime({ mcpServers: mcpServers as never })).toThrow(sentence);
    }
  });
});

describe("MCP servers of a folder", () => {
  const write = (toml: string): void => {
    mkdirSync(join(folder, ".rkat"));
    writeFileSync(join(folder, ".rkat/mcp.toml"), toml);
  };
  const serverTable = (mode: "serve" | "stubborn" | "hang"): string => {
    const { command, args } = program(notes, mode);
    return `[[servers]]\nname = "t"\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
  };

  it("[G9] are used by the command line, which leaves none behind, and loads nothing without the file", async () => {
    const watch = `import { registerHooks } from "node:module";
      registerHooks({ load(url, context, next) {
        if (url.includes("modelcontextprotocol")) process.stderr.write("loaded " + url + "\\n");
        return next(url, context);
      } });`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(watch)}`, RKAT_FEATURES: "none" };
    const run = (...flags: string[]) => startRkat(folder, ["run", "hello", "-m", "offline", ...flags], { env }).ended;
    const without = await run();
    write(serverTable("stubborn"));
    const none = await run("--tools", "none");
    expect(pidsOf(notes)).toEqual([]);
    const safe = await run();
    const isLoaded = ({ stderr }: { stderr: string }) => stderr.includes("modelcontextprotocol");
    expect([without, none, safe].map(({ code }) => code)).toEqual([0, 0, 0]);
    expect([without, none, safe].map(isLoaded)).toEqual([false, false, true]);
    const [pid = 0] = pidsOf(notes);
    expect(isRunning(pid)).toBe(false);
  });

  // Three processes one after the other.
  it("[G9] are used by the servers, too, and end with them", { timeout: 90_000 }, async () => {
    write(serverTable("stubborn"));
    const create = { jsonrpc: "2.0", id: 1, method: "session/create", params: { prompt: "Hello!", model: "offline" } };
    const rpc = startRkat(folder, ["rpc"], { input: `${JSON.stringify(create)}\n`, staysOpen: true });
    await rpc.saw('"id":1');
    rpc.child.stdin?.end();
    expect({ code: (await rpc.ended).code, pids: pidsOf(notes).length }).toEqual({ code: 0, pids: 1 });

    const rest = startRkat(folder, ["serve", "--port", "0", "--json"]);
    let stdout = "";
    rest.child.stdout?.on("data", (data) => {
      stdout += data;
    });
    await rest.saw('"}');
    const { url } = JSON.parse(stdout);
    const body = JSON.stringify({ prompt: "Hello!", model: "offline" });
    const headers = { "Content-Type": "application/json" };
    expect((await fetch(`${url}/sessions`, { method: "POST", headers, body })).status).toBe(200);
    rest.child.kill("SIGTERM");
    expect((await rest.ended).code).toBe(143);

    const client = createClient();
    const args = [join(import.meta.dirname, "../packages/rkat/src/mcp.ts")];
    const env = { PATH: process.env.PATH ?? "", HOME: folder };
    const transport = new StdioClientTransport({ command: process.execPath, args, cwd: folder, env, stderr: "ignore" });
    await client.connect(transport);
    await caller(client)("meerkat_run", { prompt: "Hello!", model: "offline" });
    await client.close();

    expect(pidsOf(notes)).toHaveLength(3);
    await expect.poll(() => pidsOf(notes).filter(isRunning)).toEqual([]);
  });

  it("[G9] end with a command that is interrupted", async () => {
    write(serverTable("hang"));
    const { child, ended } = startRkat(folder, ["run", "hello", "-m", "offline"]);
    await expect.poll(() => pidsOf(notes), { timeout: 60_000 }).toHaveLength(1);
    child.kill("SIGINT");
    expect((await ended).code).toBe(130);
    const [pid = 0] = pidsOf(notes);
    expect(isRunning(pid)).toBe(false);
  });

  it("[G9] can be rkat itself: a memory that another rkat uses as its tools", async () => {
    const cli = join(import.meta.dirname, "../packages/rkat/dist/cli.js");
    const remember = {
      name: "mcp__memory__agent_remember",
      args: { agent: "ada", content: "The host is called tern." },
    };
    const search = { name: "mcp__memory__search_project_history", args: { query: "what is the host called" } };
    const { runtime, results } = runtimeWith([{ calls: [remember] }, { calls: [search] }, { text: "ok" }], {
      projectRoot: folder,
      mcpServers: [{ name: "memory", command: process.execPath, args: [cli, "mcp", "--memory-only"] }],
    });
    await runtime.createSession("Go.");
    expect(results()).toMatchObject([{ content: expect.stringContaining("tern"), is_error: false }]);
    await runtime.close();
  });
});
