import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Started, startRkat } from "./support/rkat-process.ts";

/** Eight processes, one after another, on a machine that has other things to do. */
const TIMEOUT_MS = 180_000;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-sessions-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Says two words, and goes on only when it is not asked to wait. */
let server: Server;
let env: Record<string, string>;
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const { messages } = JSON.parse(await text(request));
    const say = (content: string, finish_reason: string | null): void => {
      const chunk = { id: "1", choices: [{ index: 0, delta: { role: "assistant", content }, finish_reason }] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    response.writeHead(200, { "content-type": "text/event-stream" });
    say("Once upon", null);
    if (JSON.stringify(messages.at(-1)).includes("wait")) return;
    say(` ${messages.length} messages.`, "stop");
    response.end("data: [DONE]\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening server has an address of this shape.
  const { port } = server.address() as AddressInfo;
  env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}`, OPENAI_API_KEY: "k", RKAT_MODEL: "openai/local" };
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const start = (...args: string[]): Started => startRkat(folder, args, { env });
const rkat = (...args: string[]) => start(...args).ended;

async function states(): Promise<readonly string[]> {
  const { stdout } = await rkat("session", "list", "--json");
  return JSON.parse(stdout).sessions.map(({ state }: { state: string }) => state);
}

describe("processes that share a project", () => {
  it(
    "[F10] rewrite a transcript one at a time: of those that expect the same revision one is made",
    async () => {
      await rkat("run", "one");
      const { revision } = JSON.parse((await rkat("session", "revision", "last", "--json")).stdout);
      const messages = (word: string) => `--messages=${JSON.stringify([{ role: "user", content: word }])}`;
      const words = ["two", "three", "four"];
      const ends = await Promise.all(
        words.map((word) => rkat("session", "rewrite", "last", "--from", "0", messages(word), "--expect", revision)),
      );
      // The others are too late, or find the session busy.
      expect(ends.map(({ code }) => code).toSorted()[0]).toBe(0);
      expect(ends.filter(({ code }) => code === 0)).toHaveLength(1);
      for (const { code, stderr } of ends)
        if (code !== 0) expect(stderr).toMatch(/expected_parent_revision|running a turn/);
      const { messages: said } = JSON.parse((await rkat("session", "show", "last", "--history", "--json")).stdout);
      expect(said[0].content).toBe(words[ends.findIndex(({ code }) => code === 0)]);
      const { commits } = JSON.parse((await rkat("session", "rewrites", "last", "--json")).stdout);
      expect(commits).toMatchObject([{ parent_revision: revision, reason: { kind: "edit" } }]);
    },
    TIMEOUT_MS,
  );

  it("[F5] each keep their session, at once and after they ended", async () => {
    const turns = await Promise.all(["one", "two", "three"].map((word) => rkat("run", word)));
    expect(turns.map(({ code, stdout }) => ({ code, stdout }))).toEqual(
      turns.map(() => ({ code: 0, stdout: "Once upon 2 messages.\n" })),
    );
    const { stdout } = await rkat("session", "list");
    expect(
      stdout
        .trimEnd()
        .split("\n")
        .slice(1)
        .map((row) => row.trim().split(" ").at(-1))
        .sort(),
    ).toEqual(["one", "three", "two"]);
  });

  it("[F9] run one turn of a session at a time, and interrupt each other's", async () => {
    const turn = start("wait for me", "--stream");
    await turn.saw("Once upon");
    const second = await rkat("c", "hello");
    expect(second).toMatchObject({
      code: 11,
      stdout: "",
      stderr: expect.stringMatching(/^Error: .* running a turn.*\n$/),
    });
    expect(await states()).toEqual(["running"]);
    expect(await rkat("session", "interrupt", "last")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/to stop\.\n$/),
    });
    expect(await turn.ended).toMatchObject({ code: 14, stdout: "Once upon\n" });
    expect(await states()).toEqual(["idle"]);
  });

  it("[F5] [F9] go on with a session whose process was killed in the middle of a turn", async () => {
    const turn = start("wait for me", "--stream");
    await turn.saw("Once upon");
    turn.child.kill("SIGKILL");
    await turn.ended;
    expect(await states()).toEqual(["interrupted"]);
    const resumed = await rkat("resume", "last", "go on");
    expect(resumed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Once upon \d messages\.\n$/) });
    expect(await states()).toEqual(["idle"]);
    const verified = await rkat("doctor", "--verify");
    expect(verified).toMatchObject({ code: 0, stderr: "" });
  });

  it("follow what another one does", async () => {
    await rkat("run", "hello");
    const follower = start("session", "events", "last", "--follow");
    await follower.saw("turn completed");
    await rkat("c", "and then?");
    await follower.saw("asked: and then?");
    await follower.saw("said: Once upon 4 messages.");
    follower.child.kill("SIGINT");
    expect((await follower.ended).code).toBe(130);
  });
});

it("rkat rpc serves JSON-RPC", async () => {
  const line = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "session/list", params: {} });
  const args = ["rpc", "--realm", "alpha", "--state-root", "state"];
  const { code, stdout } = await startRkat(folder, args, { env, input: `${line}\n` }).ended;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toEqual({ jsonrpc: "2.0", id: 1, result: { sessions: [] } });
});
