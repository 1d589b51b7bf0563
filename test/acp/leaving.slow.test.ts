import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { called, madeByCommand, openEditor, openStage, type Script, type Stage, said } from "./editor.ts";

let refusals = 0;
const script: Script = ({ texts, body }) => {
  const last = texts.at(-1) ?? "";
  if (last.includes("CONTEXT COMPACTION")) {
    return last.includes("take forever") ? { kind: "silence", text: ["They "] } : said("They spoke of herons.");
  }
  if (JSON.parse(body).messages.at(-1).role === "tool") return said(`It gave: ${last}`);
  if (last === "Wait.") return { kind: "silence", text: ["Half of ", "it."] };
  if (last === "Run it.") return called("shell-1", "shell", { command: "echo hello", timeout_secs: 600 });
  if (last === "Read it.") return called("read-1", "read_text_file", { path: "a.txt" });
  if (last === "Fail once." && refusals === 0) {
    refusals += 1;
    return { kind: "refusal", status: 503, code: "overloaded", message: "later", retryAfterSeconds: 0 };
  }
  return said(`I heard "${last.slice(0, 40)}".`);
};

const EVERYTHING = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
const NOTICES = { session: { compaction: {}, notices: {} } };

// Each test starts several processes.
vi.setConfig({ testTimeout: 120_000 });

let stage: Stage;
beforeAll(async () => {
  stage = await openStage(script, "[compaction]\nrecent_turn_budget = 1\nmin_turns_between_compactions = 0\n");
});
afterAll(() => stage.close());

describe("clients that cancel, leave, or do not answer", () => {
  it("[K1] a request that is taken back ends its turn, and a compaction is cancelled like a turn", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    const back = new AbortController();
    const prompted = editor.agent.request(
      "session/prompt",
      { sessionId, prompt: [{ type: "text", text: "Wait." }] },
      { cancellationSignal: back.signal },
    );
    await editor.until(() => editor.words() === "Half of it.");
    back.abort();
    expect(await prompted).toEqual({ stopReason: "cancelled" });
    for (const bird of ["heron", "crane"]) await editor.prompt(sessionId, `The ${bird} is at port 8124.`);
    const compacting = editor.prompt(sessionId, "/compact take forever");
    await editor.until(() => editor.of("compaction_update").length > 0);
    await editor.agent.notify("session/cancel", { sessionId });
    expect(await compacting).toEqual({ stopReason: "cancelled" });
    expect(editor.of("compaction_update").at(-1)).toMatchObject({ status: "failed" });
    expect(await editor.prompt(sessionId, "Go on.")).toEqual({ stopReason: "end_turn" });
    expect(await editor.close()).toBe(0);
  });

  it("[K1] a call in the editor that is never answered ends with its turn, and its terminal is let go", async () => {
    const silent = ["terminal/wait_for_exit", "fs/read_text_file"];
    const editor = await openEditor(stage, { capabilities: EVERYTHING, silent, answer: () => "once" });
    const sessionId = await editor.create();
    for (const [words, isAt] of [
      ["Run it.", () => editor.commands.length > 0],
      ["Read it.", () => editor.read.length > 0],
    ] as const) {
      const prompted = editor.prompt(sessionId, words);
      await editor.until(isAt);
      await editor.agent.notify("session/cancel", { sessionId });
      expect(await prompted).toEqual({ stopReason: "cancelled" });
    }
    await editor.until(() => editor.released.length > 0);
    expect(await editor.prompt(sessionId, "Go on.")).toEqual({ stopReason: "end_turn" });
    expect(await editor.close()).toBe(0);
  });

  it("[K1] what a client answers that is no answer is a failure of the call, never of the session", async () => {
    const junk = {
      "session/request_permission": { outcome: { outcome: "selected", optionId: "constructor" } },
      "fs/read_text_file": { content: 7 },
      "terminal/create": { terminal: null },
    };
    const editor = await openEditor(stage, { capabilities: EVERYTHING, junk });
    const sessionId = await editor.create();
    expect(await editor.prompt(sessionId, "Run it.")).toEqual({ stopReason: "end_turn" });
    expect(editor.commands).toEqual([]);
    const allowed = await madeByCommand(stage, "-t", "workspace", "--allow", "*");
    await editor.agent.request("session/resume", { sessionId: allowed, cwd: stage.project });
    for (const words of ["Run it.", "Read it."]) {
      expect(await editor.prompt(allowed, words)).toEqual({ stopReason: "end_turn" });
    }
    const failed = editor.of("tool_call_update").filter(({ status }) => status === "failed");
    expect(new Set(failed.map(({ toolCallId }) => toolCallId))).toEqual(new Set(["shell-1", "read-1"]));
    await editor.write(`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":${"x".repeat(20_000_000)}`);
    await editor.write('{"jsonrpc":"2.0","id":999,"result":{}}');
    await editor.write("\u0000");
    expect(await editor.prompt(sessionId, `A long one. ${"word ".repeat(2_000)}`)).toEqual({ stopReason: "end_turn" });
    expect(await editor.close()).toBe(0);
  });

  it("[K1] a client that leaves in the middle of a turn or a question leaves a session that goes on elsewhere", async () => {
    const silent = ["session/request_permission"];
    const first = await openEditor(stage, { silent });
    const [turning, asking] = [await first.create(), await first.create()];
    const ends = [first.prompt(turning, "Wait."), first.prompt(asking, "Run it.")].map((one) => one.catch(() => {}));
    await first.until(() => first.words() === "Half of it." && first.asked.length > 0);
    expect(await first.close()).toBe(0);
    await Promise.all(ends);

    const second = await openEditor(stage, { silent });
    for (const sessionId of [turning, asking]) {
      await second.agent.request("session/load", { sessionId, cwd: stage.project, mcpServers: [] });
      expect(await second.prompt(sessionId, "Go on.")).toEqual({ stopReason: "end_turn" });
    }
    expect(second.words()).toContain("Half of it.");
    const killed = [second.prompt(turning, "Wait."), second.prompt(asking, "Run it.")].map((one) =>
      one.catch(() => {}),
    );
    await second.until(() => second.words().endsWith("Half of it.") && second.asked.length > 0);
    await second.kill();
    await Promise.all(killed);

    const third = await openEditor(stage);
    for (const sessionId of [turning, asking]) {
      await third.agent.request("session/load", { sessionId, cwd: stage.project, mcpServers: [] });
    }
    expect(await third.prompt(turning, "Go on.")).toEqual({ stopReason: "end_turn" });
    // The question is kept: it is given up by who may answer it, in a sentence that says so.
    await expect(third.prompt(asking, "Go on.")).rejects.toMatchObject({
      data: { code: "SESSION_BUSY" },
      message: expect.stringContaining("interrupt the turn"),
    });
    await third.agent.notify("session/cancel", { sessionId: asking });
    expect(await third.prompt(asking, "Go on.")).toEqual({ stopReason: "end_turn" });
    await third.close();
  });

  it("[K1] a client that wants notices is told when the model is asked again and when a budget runs out", async () => {
    const editor = await openEditor(stage, { capabilities: NOTICES });
    const sessionId = await madeByCommand(stage, "--max-tokens", "250");
    await editor.agent.request("session/resume", { sessionId, cwd: stage.project });
    await editor.prompt(sessionId, "Fail once.");
    const titles = editor.of("notice").map(({ title }) => title);
    expect(titles).toEqual([
      expect.stringMatching(/^Retrying in [\d.]+ s \(1 of \d+\): /),
      expect.stringMatching(/^\d+ % of the token budget is used: \d+ of 250$/),
    ]);
    await editor.close();
  });

  it("[K1] a hundred sessions work in one process", async () => {
    const editor = await openEditor(stage);
    const ids = await Promise.all(Array.from({ length: 100 }, () => editor.create()));
    const ends = await Promise.all(ids.map((sessionId, index) => editor.prompt(sessionId, `I am ${index}.`)));
    expect(new Set(ids).size).toBe(100);
    expect(ends.every(({ stopReason }) => stopReason === "end_turn")).toBe(true);
    expect(editor.of("agent_message_chunk")).toHaveLength(100);
    expect(await editor.close()).toBe(0);
  });
});
