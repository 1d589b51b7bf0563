import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it, vi } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import type { Parts } from "../parts.ts";

const line = useCommandLine();
const { run } = line;

/** Starts a session and returns its id. */
async function begin(prompt: string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(["run", prompt, "-m", "offline", "--json", ...flags]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout).session_id;
}

const json = async (...args: string[]) => JSON.parse((await run([...args, "--json"])).stdout);

describe("a session that is kept", () => {
  it("[F10] [F6] [G5] is rewritten, read at a revision, restored and forked with a message replaced", async () => {
    const id = await begin("The server is called heron.", "-t", "none");
    const text = `--messages=${JSON.stringify([{ role: "assistant", content: "A crane." }])}`;
    const { stdout } = await run(["session", "rewrite", id, "--from", "1", "--to", "2", text, "--note", "a slip"]);
    const [, revision = "", parent = ""] = /now has 2 messages: (\S+)\n.*restore \S+ (\S+)\n$/.exec(stdout) ?? [];
    const summaries = () =>
      readdirSync(line.cwd, { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith("summary.txt"))
        .map((path) => readFileSync(join(line.cwd, path), "utf8"));
    expect(summaries()).toEqual(["A crane."]);
    expect((await run(["session", "rewrites", id])).stdout).toMatch(
      new RegExp(`edit: a slip.*\n.*\n   from ${parent}\n   to   ${revision}\n`),
    );
    expect((await run(["session", "revision", id, parent])).stdout).toContain(`2 messages, ${parent}, now ${revision}`);
    expect(await json("session", "revision", id)).toMatchObject({ revision, head_revision: revision });
    const cut = await run(["session", "rewrite", id, "--from", "1", "--json"]);
    expect(JSON.parse(cut.stdout)).toMatchObject({ message_count: 1, session_ref: expect.stringContaining(id) });
    expect(summaries()).toEqual([]);
    const back = await json("session", "restore", id, parent, "--reason", "undo", "--actor", "me");
    expect(back).toMatchObject({ revision: parent, commit: { actor: "me", reason: { kind: "undo" } } });
    const message = JSON.stringify({ type: "message", message: { role: "user", content: "Hi." } });
    const fork = await json("session", "fork", id, "--at", "0", "--replacement", message);
    expect((await json("session", "show", fork.session_id, "--history")).messages).toMatchObject([{ content: "Hi." }]);
    expect((await run(["session", "fork", id, "--replacement", message])).code).toBe(2);
    expect((await run(["session", "restore", id, "yesterday"])).stderr).toContain("revision: write a revision");
    expect((await run(["session", "rewrite", id, "--from", "0", "--messages", "{}"])).code).toBe(2);
  });

  it("[G5] is the last where who only looks names none", async () => {
    await begin("The server is called heron.");
    const id = await begin("The port is 8443.");
    for (const words of ["show", "context", "calls", "events", "pins"]) {
      const [named, last] = await Promise.all([run(["session", words, id]), run(["session", words])]);
      expect({ words, ...last }).toEqual({ words, ...named });
    }
    expect(await run(["compact", "list"])).toEqual(await run(["compact", "list", id]));
    expect((await run(["session", "delete"])).stderr).toContain("missing required argument 'session'");
  });

  it("[F5] goes on in later commands with the model and tools it had, however it is named", async () => {
    const id = await begin("The server is called heron.", "-t", "none");
    const other = await begin("The port is 8443.");
    const ask = async (...words: string[]) => (await run([...words, "--json"])).stdout;
    expect(JSON.parse(await ask("resume", id, "What is the server called?"))).toMatchObject({
      session_id: id,
      session_ref: expect.stringMatching(new RegExp(`^ws-[a-z0-9-]+:${id}$`)),
      text: expect.stringContaining("heron"),
    });
    const turns = [
      ["c", "Which port?"],
      ["run", "--resume=~1", "Which port?"],
      ["--resume", id, "And again?"],
      ["--resume", "What now?"],
      ["resume", id.toUpperCase(), "Hm?"],
    ];
    const taken = [];
    for (const words of turns) taken.push(JSON.parse(await ask(...words)).session_id);
    expect(taken).toEqual([id, other, id, id, id]);
    expect(await json("session", "show", id)).toMatchObject({ model: "offline", message_count: 12, state: "idle" });
  });

  it("[H1] refuses on resume what only a new session can be given", async () => {
    const id = await begin("hello");
    for (const flags of [
      ["--max-tokens", "9"],
      ["-t", "full"],
      ["--label", "a=b"],
      ["--system", "Be brief."],
    ]) {
      const { code, stderr } = await run(["resume", id, "hello", ...flags]);
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: expect.stringMatching(/on a session that has run: it is set/),
      });
    }
    expect(await json("session", "show", id)).toMatchObject({ message_count: 2 });
  });

  it("is found by the beginning of its id, as long as that is one session's", async () => {
    const [first, second] = [await begin("one"), await begin("two")];
    const shared = first.slice(0, 4);
    const ambiguous = await run(["session", "show", shared]);
    expect(ambiguous.code).toBe(2);
    expect(ambiguous.stderr).toBe(
      `Error: ${shared} begins 2 sessions: ${second.slice(0, 13)}, ${first.slice(0, 13)}; write more of the one you mean\n`,
    );
    expect(await json("session", "show", first.slice(0, 13))).toMatchObject({ session_id: first });
    const refusals = {
      ffff: [10, "Error: no session begins with ffff; rkat session list shows them\n"],
      "019": [2, expect.stringMatching(/^Error: 019 names no session; write an id, the first 4 or more/)],
      "~7": [10, "Error: ~7 is further back than the oldest session; rkat session list shows them\n"],
      [`other:${first}`]: [2, expect.stringContaining("is of realm other")],
    };
    for (const [word, [code, stderr]] of Object.entries(refusals)) {
      expect(await run(["session", "show", word])).toMatchObject({ code, stderr });
    }
  });

  it("is listed with its labels until it is archived, and read after that", async () => {
    expect((await run(["session", "list"])).stdout).toBe("No sessions found.\n");
    const id = await begin("Water the plants", "--label", "team=home");
    await begin("Ship it", "--label", "team=core");
    const { stdout } = await run(["sessions", "list", "--label", "team=home"]);
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^ID +CHANGED +MESSAGES +TOKENS +STATE +MODEL +BEGINS WITH$/),
      expect.stringMatching(new RegExp(`^${id.slice(0, 13)} +just now +2 +[\\d,]+ +idle +offline +Water the plants$`)),
      "",
    ]);
    expect(await run(["session", "delete", "~1"])).toMatchObject({ code: 0, stdout: expect.stringContaining(id) });
    expect((await json("session", "list")).sessions).toHaveLength(1);
    expect(await json("session", "show", id)).toMatchObject({ state: "archived" });
    expect(await run(["resume", id, "hello"])).toMatchObject({ code: 10 });
  });

  it("[F10] forks at a message, and tells the context of an earlier call", async () => {
    const id = await begin("The server is called heron.", "--system", "Be brief.");
    await run(["c", "It is now called egret."]);
    const { stdout } = await run(["session", "show", "last", "--history"]);
    expect(stdout).toMatch(
      /\n0 {2}system {2}seq 1\n {3}Be brief\.\n\n1 {2}you {2}seq 2\n {3}The server is called heron\.\n/,
    );
    const fork = await json("session", "fork", id, "--at", "3");
    expect(fork).toMatchObject({ source_session_id: id, message_count: 3 });
    const answer = await run(["resume", fork.session_id, "What is the server called?"]);
    expect(answer.stdout).toMatch(/heron/);
    expect(answer.stdout).not.toMatch(/egret/);
    const calls = (await run(["session", "events", id])).stdout
      .split("\n")
      .filter((text) => text.includes("model call 1"));
    const [first = ""] = calls.map((text) => text.trim().split(" ")[0]);
    const context = await json("session", "context", id, "--at", first);
    expect(context.messages.map(({ role }: { role: string }) => role)).toEqual(["system", "user"]);
    expect((await run(["session", "context", id])).stdout).toMatch(
      /\n5 messages, about \d+ tokens, sha256 [0-9a-f]{64}\n$/,
    );
    expect(await run(["session", "context", id, "--at", "1"])).toMatchObject({ code: 2 });
  });

  it("is told as events, after any of them, and shown a text without a turn", async () => {
    const id = await begin("What is 2 + 3?");
    const { stdout } = await run(["session", "events", id, "--json"]);
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((text) => JSON.parse(text));
    expect(events.map(({ payload }) => payload.type)).toEqual([
      "run_started",
      "turn_started",
      "text_complete",
      "turn_completed",
      "run_completed",
    ]);
    const after = String(events[3].cursor.sequence);
    expect((await run(["session", "events", id, "--after", after])).stdout).toMatch(
      /^ +\d+ {2}[\d:]+ {2}turn completed, .*\n$/,
    );
    expect(await run(["session", "inject", id, "The", "port", "is", "8443."])).toMatchObject({ code: 0 });
    expect((await json("session", "context", id)).messages.at(-1)).toMatchObject({ body: "The port is 8443." });
  });

  it("[Q1] [Q4] has messages of another session in its inbox, and loses the one that is named", async () => {
    const [ada, bob] = [await begin("hi", "--comms-name", "ada"), await begin("hi", "--comms-name", "bob")];
    await run(["comms", "send", ada, "first", "--to", "bob"]);
    await run(["comms", "send", ada, "second", "--to", "bob"]);
    const waiting = async () => (await json("session", "inbox", bob)).messages;
    const [first, second] = await waiting();
    const { code, stdout } = await run(["session", "unqueue", bob, first.message_id]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^Removed from the inbox of \S+\.\n$/) });
    expect(await waiting()).toEqual([second]);
    expect((await run(["session", "unqueue", bob, first.message_id.replace(/.$/, "x")])).stderr).toContain(
      "message_id: no",
    );
  });

  it("says that an idle session needs no interrupt", async () => {
    const id = await begin("hello");
    const { code, stdout } = await run(["session", "interrupt", id]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${id.slice(0, 13)} is not running a turn.\n` });
  });
});

it("writes the bytes of a blob: the whole of what a tool said", async () => {
  writeFileSync(join(line.cwd, "rkat.toml"), "[tools]\noutput_bytes_max = 1024\n");
  await run(["run `seq 1 2000`", "-m", "offline", "-t", "workspace"]);
  const { stdout } = await run(["session", "show", "last", "--history"]);
  const [blobId = ""] = /sha256:[0-9a-f]{64}/.exec(stdout) ?? [];
  const blob = await run(["blob", "get", blobId]);
  expect(blob).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(blob.stdout).stdout).toMatch(/^1\n2\n[\s\S]*\n1999\n2000\n$/);
  expect(await run(["blob", "get", `sha256:${"0".repeat(64)}`])).toMatchObject({ code: 2, stdout: "" });
});

describe("where sessions are kept", () => {
  it("a folder that git ignores, made by the first session and by nothing else", async () => {
    for (const words of [["session", "list"], ["continue", "hello"], ["demo"], ["doctor"], ["capabilities"]])
      await run(words);
    expect(existsSync(join(line.cwd, ".rkat"))).toBe(false);
    await begin("hello");
    expect(readFileSync(join(line.cwd, ".rkat", "realms", ".gitignore"), "utf8")).toBe("*\n");
  });

  it("another realm has others, wherever the flags stand", async () => {
    await begin("hello", "--realm", "alpha", "--state-root", "state");
    expect(readdirSync(join(line.cwd, "state")).sort()).toEqual([".gitignore", "alpha"]);
    expect((await json("session", "list")).sessions).toEqual([]);
    expect((await json("--state-root", "state", "-r", "alpha", "session", "list")).sessions).toHaveLength(1);
    const both = await run(["run", "hello", "-m", "offline", "--realm", "a", "--isolated"]);
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining("use one of them") });
  });

  it("a folder that cannot be made is one sentence that says what to do", async () => {
    mkdirSync(join(line.cwd, ".rkat"));
    writeFileSync(join(line.cwd, ".rkat", "realms"), "");
    const { code, stdout, stderr } = await run(["run", "hello", "-m", "offline"]);
    expect({ code, stdout }).toEqual({ code: 31, stdout: "" });
    expect(stderr).toMatch(
      /^Error: sessions cannot be kept in .* \(E\w+\); .*--state-root FOLDER.*RKAT_FEATURES=none\n$/,
    );
    expect(await run(["run", "hello", "-m", "offline"], { env: { RKAT_FEATURES: "none" } })).toMatchObject({ code: 0 });
  });

  it("rkat doctor tells the place and its size, and --verify every record of it", async () => {
    await begin("hello");
    expect((await run(["doctor"])).stdout).toMatch(/✓ state +1 session, [\d.]+ \w+ in .*realms.ws-/);
    expect((await run(["doctor", "--verify"])).stdout).toMatch(
      /^✓ \d+ records of 1 session in 1 file, .*: every checksum is right\n$/,
    );
    const problems = ["segment 1 is damaged at 40"];
    const verifyStore: Parts["verifyStore"] = async () => ({
      segments: 1,
      records: 3,
      sessions: 1,
      agents: 0,
      bytes: 99,
      blobs: 0,
      problems,
    });
    const damaged = await run(["doctor", "--verify"], { own: { verifyStore } });
    expect(damaged).toEqual({
      code: 31,
      stdout: "✗ segment 1 is damaged at 40\n✗ 3 records of 1 session in 1 file, 99 bytes: 1 problem\n",
      stderr: "",
    });
  });
});

describe("[F3] without session-store", () => {
  const env = { RKAT_FEATURES: "none" };
  const { code: name, message } = CAPABILITY_ABSENT["session-store"];
  const id = "019a2b3c-4d5e-7abc-8def-0123456789ab";

  it("a turn runs and leaves nothing behind", async () => {
    expect(await run(["run", "hello", "-m", "offline"], { env })).toMatchObject({ code: 0 });
    expect(readdirSync(line.cwd)).toEqual([]);
  });

  it.each([
    `resume ${id} hello`,
    "continue hello",
    "run --resume hello",
    "chat --continue",
    "session list",
    ...["show", "delete", "interrupt", "fork", "context", "events"].map((word) => `sessions ${word} ${id}`),
    `session inject ${id} hello`,
  ])("%s is refused with one sentence, as text and as JSON", async (words) => {
    const refused = await run(words.split(" "), { env, input: "" });
    expect(refused).toEqual({ code: 40, stdout: "", stderr: `Error: ${message}\n` });
    const { code, stdout } = await run([...words.split(" "), "--json"], { env, input: "" });
    expect(code).toBe(40);
    expect(JSON.parse(stdout)).toEqual({ error: { code: name, category: "capability", message } });
  });
});

it("tells a budget of an earlier command without guessing which", async () => {
  const own: Partial<Parts> = {
    openRuntime: (options) =>
      openRuntime({
        ...options,
        model: createScriptedModel(() => ({ text: "Yes.", usage: { input_tokens: 40, output_tokens: 1 } })),
      }),
  };
  await run(["run", "hello", "--max-tokens", "60"], { own });
  expect(await run(["c", "hello"], { own })).toMatchObject({
    code: 21,
    stderr: expect.stringMatching(/\nStopped: a budget of the session is used up\.\n$/),
  });
});

it("[P1] resume without a prompt finishes a turn that was left, from a pipe too, and says where there is none", async () => {
  const answering = (step: ScriptedStep) => {
    const model = createScriptedModel([step]);
    const opened = Promise.withResolvers<Awaited<ReturnType<Parts["openRuntime"]>>>();
    const open: Parts["openRuntime"] = async (options) => {
      const runtime = await openRuntime({ ...options, model, resumeTurns: step.ends === "silent" });
      opened.resolve(runtime);
      return runtime;
    };
    return { model, opened: opened.promise, own: { openRuntime: open } };
  };
  const leave = async () => {
    const { model, opened, own } = answering({ ends: "silent" });
    const left = run(["run", "Say it."], { own });
    await vi.waitFor(() => expect(model.requests).toHaveLength(1));
    await (await opened).close();
    await left;
  };
  for (const given of [{}, { input: "" }]) {
    await leave();
    const { own } = answering({ text: "Finished." });
    expect(await run(["resume", "last"], { own, ...given })).toMatchObject({ code: 0, stdout: "Finished.\n" });
    const none = await run(["resume", "last"], given);
    expect(none.stderr).toMatch(
      /^Error: session [0-9a-f-]{36} has no unfinished turn; to continue it, write a prompt\n$/,
    );
  }
  await leave();
  const { model, own } = answering({ text: "Instead." });
  expect(await run(["resume", "last"], { own, input: "Say this." })).toMatchObject({ stdout: "Instead.\n" });
  expect(JSON.stringify(model.requests[0]?.messages.at(-1))).toContain("Say this.");
});
