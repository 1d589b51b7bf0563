import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { McpServer } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { called, openEditor, openStage, type Script, type Stage, said } from "./editor.ts";

const PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+three\n*** End Patch";
const IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Answers by the last message; after a tool it says what the tool gave. */
const script: Script = ({ texts, body }) => {
  const last = texts.at(-1) ?? "";
  const isResult = /"role":"tool"[^}]*\}\],"/.test(body) || JSON.parse(body).messages.at(-1).role === "tool";
  if (last.includes("CONTEXT COMPACTION")) return said("They spoke of herons.");
  if (isResult) return said(`It gave: ${last}`);
  if (last.includes("Wait.")) return { kind: "silence", text: ["Half of ", "it."] };
  if (last.includes("Patch it.")) return called("patch-1", "apply_patch", { patch: PATCH });
  if (last.includes("Run it.")) return called("shell-1", "shell", { command: "echo hello" });
  if (last.includes("Plan it.")) {
    return called("task-1", "task_create", { subject: "Lay the table", description: "With forks", priority: "high" });
  }
  if (last.includes("Read it.")) return called("read-1", "read_text_file", { path: "a.txt", line: 2 });
  if (last.includes("Write it.")) return called("write-1", "write_text_file", { path: "b.txt", content: "new" });
  if (last.includes("Is there an image?")) return said(body.includes("data:image/png") ? "An image." : "None.");
  if (last.includes("Call the server.")) return called("mcp-1", "mcp__editors__echo", { text: "Zed" });
  if (last.includes("Which tools?")) return said(names(body).join(" "));
  return said("I heard ", `"${last}".`);
};

function names(body: string): readonly string[] {
  const { tools = [] } = JSON.parse(body) as { tools?: readonly { function: { name: string } }[] };
  return tools.map((tool) => tool.function.name);
}

// Each test starts several processes.
vi.setConfig({ testTimeout: 120_000 });

let stage: Stage;
beforeAll(async () => {
  stage = await openStage(script, "[compaction]\nrecent_turn_budget = 1\nmin_turns_between_compactions = 0\n");
});
afterAll(() => stage.close());

describe("rkat acp with the SDK's own client", () => {
  it("[K1] says what it can do, and answers a prompt piece by piece", async () => {
    const editor = await openEditor(stage);
    expect(editor.hello).toMatchObject({
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: true },
        sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {} },
      },
    });
    const sessionId = await editor.create();
    expect(await editor.prompt(sessionId, "Hello!")).toEqual({ stopReason: "end_turn" });
    expect(editor.of("agent_message_chunk").map(({ content }) => content)).toEqual([
      { type: "text", text: "I heard " },
      { type: "text", text: '"Hello!".' },
    ]);
    expect(editor.of("usage_update").at(-1)).toMatchObject({ used: 110, size: 20_000 });
    expect(await editor.close()).toBe(0);
  });

  it("[K1] sends nothing before the answer to session/new, then the commands there are", async () => {
    const editor = await openEditor(stage);
    const created = editor.agent.request("session/new", { cwd: stage.project, mcpServers: [] });
    const { sessionId, modes, configOptions } = await created.then((answer) => {
      expect(editor.updates).toEqual([]);
      return answer;
    });
    await editor.until(() => editor.updates.length > 0);
    expect(editor.updates[0]?.sessionId).toBe(sessionId);
    const [announced] = editor.of("available_commands_update");
    expect(announced?.availableCommands.map(({ name }) => name)).toEqual([
      "compact",
      "receipt",
      "undo",
      "pin",
      "memory",
    ]);
    expect(modes).toMatchObject({ currentModeId: "workspace" });
    expect(configOptions?.map(({ id, currentValue }) => [id, currentValue])).toEqual([
      ["model", "scripted"],
      ["tools", "workspace"],
    ]);
    await editor.close();
  });

  it("[K1] a prompt takes images and embedded files, and refuses what it does not take in a sentence", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    const resource = { uri: "file:///notes.md", text: "Herons wade." };
    await editor.agent.request("session/prompt", { sessionId, prompt: [{ type: "resource", resource }] });
    expect(editor.words()).toMatch(/<file name=.*file:\/\/\/notes\.md.*Herons wade\./);
    const image = { type: "image" as const, mimeType: "image/png", data: IMAGE };
    const question = { type: "text" as const, text: "Is there an image?" };
    await editor.agent.request("session/prompt", { sessionId, prompt: [image, question] });
    expect(editor.words()).toContain("An image.");
    const audio = { type: "audio" as const, mimeType: "audio/wav", data: "AAAA" };
    await expect(editor.agent.request("session/prompt", { sessionId, prompt: [audio] })).rejects.toMatchObject({
      code: -32_602,
      message: "prompt[0]: audio is not taken; send a text, an image or a PDF",
    });
    await editor.close();
  });

  it("[K1] cancel ends a turn with the reason cancelled, and what was said is kept", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    const prompted = editor.prompt(sessionId, "Wait.");
    await editor.until(() => editor.words() === "Half of it.");
    await editor.agent.notify("session/cancel", { sessionId });
    expect(await prompted).toEqual({ stopReason: "cancelled" });
    expect(await editor.prompt(sessionId, "Go on.")).toEqual({ stopReason: "end_turn" });
    await editor.close();
  });

  it("[K1] cancel ends a turn also while a question is open", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    const prompted = editor.prompt(sessionId, "Run it.");
    await editor.until(() => editor.asked.length > 0);
    await editor.agent.notify("session/cancel", { sessionId });
    expect(await prompted).toEqual({ stopReason: "cancelled" });
    expect(await editor.prompt(sessionId, "Go on.")).toEqual({ stopReason: "end_turn" });
    await editor.close();
  });

  it("[K1] asks once, always or no, and shows the edit as a diff with its place", async () => {
    writeFileSync(join(stage.project, "a.txt"), "one\ntwo\n");
    const answers = ["no", "session"];
    const editor = await openEditor(stage, { answer: () => answers.shift() });
    const sessionId = await editor.create();
    await editor.prompt(sessionId, "Patch it.");
    expect(readFileSync(join(stage.project, "a.txt"), "utf8")).toBe("one\ntwo\n");
    expect(editor.asked[0]?.options.map(({ kind }) => kind)).toEqual([
      "allow_once",
      "allow_always",
      "allow_always",
      "reject_once",
    ]);
    const path = join(stage.project, "a.txt");
    const diff = { type: "diff", path, oldText: "one\ntwo\n", newText: "one\nthree\n" };
    expect(editor.asked[0]?.toolCall).toMatchObject({ kind: "edit", locations: [{ path }], content: [diff] });
    expect(editor.of("tool_call")[0]).toMatchObject({ kind: "edit", title: "Edit a.txt", content: [diff] });
    expect(editor.of("tool_call_update").at(-1)).toMatchObject({ toolCallId: "patch-1", status: "failed" });
    await editor.prompt(sessionId, "Patch it.");
    expect(readFileSync(join(stage.project, "a.txt"), "utf8")).toBe("one\nthree\n");
    expect(editor.of("tool_call_update").some(({ status }) => status === "completed")).toBe(true);
    writeFileSync(join(stage.project, "a.txt"), "one\ntwo\n");
    await editor.prompt(sessionId, "Patch it.");
    expect([editor.asked.length, readFileSync(join(stage.project, "a.txt"), "utf8")]).toEqual([2, "one\nthree\n"]);
    await editor.close();
  });

  it("[K1] tasks are told as a plan", async () => {
    const editor = await openEditor(stage);
    await editor.prompt(await editor.create(), "Plan it.");
    expect(editor.of("plan").map(({ entries }) => entries)).toEqual([
      [{ content: "Lay the table", priority: "high", status: "pending" }],
    ]);
    await editor.close();
  });

  it("[K1] the mode and the model hold from the next turn on", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    await editor.prompt(sessionId, "Which tools?");
    expect(editor.words()).toMatch(/apply_patch.*shell/);
    await editor.agent.request("session/set_mode", { sessionId, modeId: "safe" });
    await editor.until(() => editor.of("config_option_update").length > 0);
    editor.updates.length = 0;
    await editor.prompt(sessionId, "Which tools?");
    expect(editor.words()).toMatch(/task_create/);
    expect(editor.words()).not.toMatch(/apply_patch|shell/);
    const { configOptions } = await editor.agent.request("session/set_config_option", {
      sessionId,
      configId: "model",
      value: "another",
    });
    expect(configOptions[0]).toMatchObject({ id: "model", currentValue: "another" });
    await editor.prompt(sessionId, "Hello!");
    const refused = editor.agent.request("session/set_mode", { sessionId, modeId: "wild" });
    const message = "modeId: there is no mode wild; write one of none, safe, workspace";
    await expect(refused).rejects.toMatchObject({ code: -32_602, message });
    await editor.close();
  });

  it("[K1] uses the editor's files and its terminal where it offers them", async () => {
    const capabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
    const editor = await openEditor(stage, { capabilities, answer: () => "once" });
    editor.files.set(join(stage.project, "a.txt"), "not saved yet");
    const sessionId = await editor.create();
    await editor.prompt(sessionId, "Read it.");
    expect(editor.words()).toContain("It gave: not saved yet");
    expect(editor.of("tool_call")[0]).toMatchObject({
      kind: "read",
      locations: [{ path: join(stage.project, "a.txt"), line: 2 }],
    });
    await editor.prompt(sessionId, "Write it.");
    expect(editor.files.get(join(stage.project, "b.txt"))).toBe("new");
    expect(existsSync(join(stage.project, "b.txt"))).toBe(false);
    await editor.prompt(sessionId, "Run it.");
    expect(editor.commands).toEqual(["sh -c echo hello"]);
    expect(editor.words()).toContain("from the terminal");
    const shown = editor.of("tool_call_update").flatMap(({ content }) => content ?? []);
    expect(shown).toContainEqual({ type: "terminal", terminalId: "terminal-1" });
    await editor.close();
  });

  it("[K1] sessions are loaded with their history after a restart, and resumed without it", async () => {
    const first = await openEditor(stage, { answer: () => "once" });
    const sessionId = await first.create();
    await first.prompt(sessionId, "Remember the heron.");
    await first.prompt(sessionId, "Plan it.");
    expect(await first.close()).toBe(0);

    const second = await openEditor(stage);
    const where = { sessionId, cwd: stage.project, mcpServers: [] };
    await second.agent.request("session/load", where);
    const users = second.of("user_message_chunk").map(({ content }) => content);
    expect(users).toEqual([
      { type: "text", text: "Remember the heron." },
      { type: "text", text: "Plan it." },
    ]);
    expect(second.words()).toContain('I heard "Remember the heron.".');
    expect(second.of("tool_call")[0]).toMatchObject({ toolCallId: "task-1", kind: "think" });
    expect(second.of("plan")[0]?.entries[0]).toMatchObject({ content: "Lay the table" });
    expect(await second.prompt(sessionId, "Go on.")).toEqual({ stopReason: "end_turn" });
    await second.close();

    const third = await openEditor(stage);
    await third.agent.request("session/resume", where);
    expect(third.of("user_message_chunk")).toEqual([]);
    const { sessions } = await third.agent.request("session/list", { cwd: stage.project });
    const row = sessions.find((one) => one.sessionId === sessionId);
    expect(row).toMatchObject({ cwd: stage.project, title: "Remember the heron." });
    await third.agent.request("session/close", { sessionId });
    await expect(third.prompt(sessionId, "Go on.")).rejects.toMatchObject({ code: -32_002 });
    await third.agent.request("session/delete", { sessionId });
    const left = await third.agent.request("session/list", {});
    expect(left.sessions.some((one) => one.sessionId === sessionId)).toBe(false);
    await third.close();
  });

  it("[K1] a session that another process runs is refused in a sentence", async () => {
    const [one, other] = [await openEditor(stage), await openEditor(stage)];
    const sessionId = await one.create();
    await one.prompt(sessionId, "Hello!");
    await other.agent.request("session/resume", { sessionId, cwd: stage.project });
    const prompted = one.prompt(sessionId, "Wait.");
    await one.until(() => one.words().endsWith("Half of it."));
    await expect(other.prompt(sessionId, "Me, too.")).rejects.toMatchObject({
      code: -32_603,
      data: { code: "SESSION_BUSY" },
      message: expect.stringContaining(sessionId),
    });
    await one.agent.notify("session/cancel", { sessionId });
    await prompted;
    await Promise.all([one.close(), other.close()]);
  });

  it("[K1] compactions are seen, and the commands work on them", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    for (const bird of ["heron", "crane", "stork"]) await editor.prompt(sessionId, `The ${bird} is at port 8124.`);
    editor.updates.length = 0;
    expect(await editor.prompt(sessionId, "/compact keep the port")).toEqual({ stopReason: "end_turn" });
    const [begun, ended] = editor.of("compaction_update");
    expect([begun?.status, ended?.status]).toEqual(["in_progress", "completed"]);
    expect(begun?.compactionId).toBe(ended?.compactionId);
    expect(editor.of("compaction_summary_chunk")[0]?.content).toMatchObject({ type: "text" });
    expect(editor.words()).toMatch(/^Compacted: \d+ messages became \d+/);
    await editor.prompt(sessionId, "/receipt");
    expect(editor.words()).toMatch(
      /Nothing lost\. \d+ facts? (?:is|are) no longer shown to the model and can be found again\./,
    );
    await editor.prompt(sessionId, "/memory heron");
    await editor.prompt(sessionId, "/pin");
    expect(editor.words()).toMatch(/Pinned message \d+/);
    await editor.prompt(sessionId, "/undo");
    expect(editor.words()).toMatch(/Undone\. The context has \d+ messages/);
    await editor.prompt(sessionId, "/etc/hosts is a path.");
    expect(editor.words()).toContain('I heard "/etc/hosts is a path."');
    const quiet = await openEditor(stage, { capabilities: { session: {} } });
    await quiet.agent.request("session/load", { sessionId, cwd: stage.project, mcpServers: [] });
    await quiet.prompt(sessionId, "/compact");
    expect([quiet.of("compaction_update"), quiet.of("compaction_summary_chunk")]).toEqual([[], []]);
    await Promise.all([editor.close(), quiet.close()]);
  });

  it("[K1] has the tools of servers that the editor brings, and refuses what it cannot honour", async () => {
    const editor = await openEditor(stage);
    const server: McpServer = { name: "editors", command: process.execPath, args: [TOOL_SERVER], env: [] };
    const { sessionId } = await editor.agent.request("session/new", { cwd: stage.project, mcpServers: [server] });
    await editor.prompt(sessionId, "Call the server.");
    expect(editor.words()).toContain("You said: Zed");
    const refused = async (more: object) =>
      editor.agent.request("session/new", { cwd: stage.project, mcpServers: [], ...more });
    await expect(refused({ additionalDirectories: ["/tmp"] })).rejects.toMatchObject({
      message: expect.stringMatching(/^additionalDirectories: a session works in one folder/),
    });
    await expect(refused({ mcpServers: [server, server] })).rejects.toMatchObject({
      message: expect.stringMatching(/^mcpServers\[1\]\.name: another server has the name editors/),
    });
    await expect(refused({ cwd: "project" })).rejects.toMatchObject({
      code: -32_602,
      message: "cwd: project is not absolute; write the whole path",
    });
    await expect(editor.agent.request("session/new", Object({ mcpServers: [] }))).rejects.toMatchObject({
      code: -32_602,
      message: expect.stringMatching(/^cwd: /),
    });
    await editor.close();
  });

  it("[K1] a session works in its own folder, wherever the process was started", async () => {
    const elsewhere = join(stage.home, "elsewhere");
    mkdirSync(elsewhere);
    const editor = await openEditor(stage, { cwd: elsewhere });
    const sessionId = await editor.create();
    await editor.prompt(sessionId, "Hello!");
    expect(existsSync(join(stage.project, ".rkat"))).toBe(true);
    const { sessions } = await editor.agent.request("session/list", { cwd: stage.project });
    expect(sessions.map((one) => one.sessionId)).toContain(sessionId);
    expect(await editor.close()).toBe(0);
  });
});

const TOOL_SERVER = join(import.meta.dirname, "../mcp/tool-server-process.ts");
