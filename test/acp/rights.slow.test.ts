import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { McpServer, ResumeSessionResponse } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { called, madeByCommand, openEditor, openStage, type Script, type Stage, said } from "./editor.ts";

/** Calls the tool a prompt names with the arguments that follow it; after a tool it says what the tool gave. */
const script: Script = ({ texts, body }) => {
  const last = texts.at(-1) ?? "";
  if (JSON.parse(body).messages.at(-1).role === "tool") return said(`It gave: ${last}`);
  const [, tool, args] = /^CALL (\w+) (.*)$/.exec(last) ?? [];
  if (tool !== undefined) return called("call-1", tool, JSON.parse(args ?? "{}"));
  if (last === "Which tools?") return said(`I have: ${namesIn(body).join(" ")}.`);
  return said("Yes.");
};

function namesIn(body: string): readonly string[] {
  const { tools = [] } = JSON.parse(body) as { tools?: readonly { function: { name: string } }[] };
  return tools.map((tool) => tool.function.name);
}

const EVERYTHING = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
const EDITORS = ["read_text_file", "write_text_file", "shell"];
const TOOL_SERVER = join(import.meta.dirname, "../mcp/tool-server-process.ts");

// Each test starts several processes.
vi.setConfig({ testTimeout: 120_000 });

let stage: Stage;
beforeAll(async () => {
  stage = await openStage(script);
});
afterAll(() => stage.close());

async function openedWith(sessionId: string, answer: string | undefined = undefined) {
  const editor = await openEditor(stage, { capabilities: EVERYTHING, answer: () => answer ?? "no" });
  const server: McpServer = { name: "editors", command: process.execPath, args: [TOOL_SERVER], env: [] };
  const where = { sessionId, cwd: stage.project, mcpServers: [server] };
  const opened: ResumeSessionResponse = await editor.agent.request("session/resume", where);
  return { editor, opened };
}

describe("what an editor may bring to a session", () => {
  it("[K1] a session made without tools gets none by the editor, and says so", async () => {
    const sessionId = await madeByCommand(stage, "-t", "none");
    const { editor, opened } = await openedWith(sessionId);
    expect(opened.modes).toMatchObject({ currentModeId: "none", availableModes: [{ id: "none" }] });
    await editor.prompt(sessionId, "Which tools?");
    expect(editor.words()).toBe("I have: .");
    await editor.prompt(sessionId, 'CALL shell {"command":"echo hello"}');
    expect(editor.commands).toEqual([]);
    await expect(editor.agent.request("session/set_mode", { sessionId, modeId: "workspace" })).rejects.toMatchObject({
      message: "modeId: there is no mode workspace; write one of none",
    });
    await editor.close();
  });

  it("[K1] a session made with safe tools gets the editor's servers, but neither its files nor its terminal", async () => {
    const sessionId = await madeByCommand(stage, "-t", "safe");
    const { editor, opened } = await openedWith(sessionId);
    expect(opened.modes).toMatchObject({ currentModeId: "safe", availableModes: [{ id: "none" }, { id: "safe" }] });
    await editor.prompt(sessionId, "Which tools?");
    expect(editor.words()).toContain("mcp__editors__echo");
    for (const name of EDITORS) expect(editor.words()).not.toContain(name);
    await editor.close();
  });

  it("[K1] the editor's tools are asked about and refused as the session's own are", async () => {
    const rules = ["--deny", "apply_patch(secret/**)", "--deny", "shell(rm *)", "--deny", "shell(cat secret/*)"];
    const sessionId = await madeByCommand(stage, "-t", "workspace", ...rules);
    const { editor, opened } = await openedWith(sessionId, "no");
    expect(opened.modes?.currentModeId).toBe("workspace");
    const tries = [
      ["shell", { command: "rm -rf src" }],
      ["write_text_file", { path: "secret/key.txt", content: "x" }],
      ["write_text_file", { path: "open/../secret/key.txt", content: "x" }],
      ["read_text_file", { path: "secret/key.txt" }],
    ] as const;
    for (const [tool, args] of tries) await editor.prompt(sessionId, `CALL ${tool} ${JSON.stringify(args)}`);
    expect([editor.asked, editor.commands, [...editor.files]]).toEqual([[], [], []]);
    expect(editor.words().match(/not run: rule deny/g)).toHaveLength(tries.length);
    await editor.prompt(sessionId, 'CALL shell {"command":"echo hello"}');
    await editor.prompt(sessionId, 'CALL write_text_file {"path":"a.txt","content":"x"}');
    expect(editor.asked.map(({ toolCall }) => toolCall.name)).toEqual(["shell", "write_text_file"]);
    expect([editor.commands, [...editor.files]]).toEqual([[], []]);
    await editor.close();
  });

  it("[K1] a session whose shell asks is asked before the editor reads a file for it, and once is enough", async () => {
    const editor = await openEditor(stage, { capabilities: EVERYTHING, answer: () => "session" });
    const sessionId = await editor.create();
    await editor.prompt(sessionId, 'CALL read_text_file {"path":"a.txt"}');
    await editor.prompt(sessionId, 'CALL read_text_file {"path":"b.txt"}');
    expect(editor.asked.map(({ options }) => options[1]?.name)).toEqual(["Always in this session: shell(cat *)"]);
    await editor.close();
  });

  it("[K1] no path leads the editor's tools out of the project", async () => {
    const outside = join(stage.home, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "key.txt"), "secret");
    symlinkSync(outside, join(stage.project, "link"));
    symlinkSync(join(outside, "key.txt"), join(stage.project, "key.txt"));
    symlinkSync(join(outside, "nothing"), join(stage.project, "broken"));
    const sessionId = await madeByCommand(stage, "-t", "workspace", "--allow", "*");
    const { editor } = await openedWith(sessionId);
    const paths = ["link/key.txt", "key.txt", "broken", "../outside/key.txt", join(outside, "key.txt"), "a\0b"];
    for (const path of paths) {
      await editor.prompt(sessionId, `CALL read_text_file ${JSON.stringify({ path })}`);
      await editor.prompt(sessionId, `CALL write_text_file ${JSON.stringify({ path, content: "x" })}`);
    }
    await editor.prompt(sessionId, 'CALL shell {"command":"ls","working_dir":"link"}');
    expect([editor.read, [...editor.files], editor.commands]).toEqual([[], [], []]);
    await editor.prompt(sessionId, 'CALL read_text_file {"path":"..name"}');
    await editor.prompt(sessionId, `CALL read_text_file ${JSON.stringify({ path: join(stage.project, "a.txt") })}`);
    expect(editor.read).toEqual([join(stage.project, "..name"), join(stage.project, "a.txt")]);
    await editor.close();
  });
});
