import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { ContentBlock, McpServer } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { called, openEditor, openStage, type Script, type Stage, said } from "./editor.ts";

const script: Script = ({ texts, body }) => {
  const last = texts.at(-1) ?? "";
  if (last.includes("CONTEXT COMPACTION")) return said("They spoke of herons.");
  if (JSON.parse(body).messages.at(-1).role === "tool") return said(`It gave: ${last}`);
  if (last === "Tell the token.") return called("mcp-1", "mcp__editors__env", { name: "API_TOKEN" });
  return said(last.includes("image_url") ? `I saw ${/https?:[^"]*|data:image/.exec(last)?.[0]}.` : `I heard ${last}`);
};

const TOOL_SERVER = join(import.meta.dirname, "../mcp/tool-server-process.ts");
/** Longer than what is kept in the log itself. */
const IMAGE = Buffer.alloc(6_000, "heron").toString("base64");
const SECRET = "a-token-of-the-editors-own";

// Each test starts several processes.
vi.setConfig({ testTimeout: 120_000 });

let stage: Stage;
beforeAll(async () => {
  stage = await openStage(script, "[compaction]\nrecent_turn_budget = 1\nmin_turns_between_compactions = 0\n");
});
afterAll(() => stage.close());

describe("what editors send and are shown again", () => {
  it("[K1] files are files, images may be elsewhere, and both are shown again; what no model takes is refused", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    const image = { type: "image" as const, mimeType: "image/png", data: IMAGE };
    const linked = {
      type: "resource_link" as const,
      name: "a",
      uri: "https://example.com/a.png",
      mimeType: "image/png",
    };
    const notes = Buffer.from("Herons wade.").toString("base64");
    const resource = { uri: "file:///notes.csv", mimeType: "text/csv", blob: notes };
    const ask = (...prompt: ContentBlock[]) => editor.agent.request("session/prompt", { sessionId, prompt });
    await ask(image);
    await ask(linked);
    await ask({ type: "resource", resource });
    expect(editor.words()).toContain("I saw data:image.");
    expect(editor.words()).toContain("I saw https://example.com/a.png.");
    expect(editor.words()).toMatch(/<file name=.*file:\/\/\/notes\.csv.*Herons wade\./);
    const pdf = { uri: "file:///a.pdf", mimeType: "application/pdf", blob: notes };
    await expect(ask({ type: "resource", resource: pdf })).rejects.toMatchObject({
      data: { code: "CAPABILITY_UNAVAILABLE" },
      message: expect.stringMatching(/^prompt\[0\]: scripted cannot be shown/),
    });
    const archive = { uri: "file:///a.zip", mimeType: "application/zip", blob: notes };
    await expect(ask({ type: "resource", resource: archive })).rejects.toMatchObject({
      data: { code: "INVALID_PARAMS" },
      message: expect.stringMatching(/^prompt\[0\]\.media_type: .*application\/zip/),
    });
    await editor.agent.request("session/load", { sessionId, cwd: stage.project, mcpServers: [] });
    const shown = editor.of("user_message_chunk").map(({ content }) => content);
    expect(shown.slice(0, 2)).toEqual([
      image,
      { type: "resource_link", name: linked.uri, uri: linked.uri, mimeType: "image/png" },
    ]);
    await editor.close();
  });

  it("[K1] a compaction has one id, live and when it is told again", async () => {
    const editor = await openEditor(stage);
    const sessionId = await editor.create();
    for (const bird of ["heron", "crane", "stork"]) await editor.prompt(sessionId, `The ${bird} is at port 8124.`);
    await editor.prompt(sessionId, "/compact");
    const live = editor.of("compaction_update").map(({ compactionId }) => compactionId);
    await editor.agent.request("session/load", { sessionId, cwd: stage.project, mcpServers: [] });
    const all = editor.of("compaction_update").map(({ compactionId }) => compactionId);
    expect([live.length, all.length, new Set(all).size]).toEqual([2, 3, 1]);
    await editor.close();
  });

  it("[K1] secrets of servers that an editor brings are masked in what their tools give", async () => {
    const editor = await openEditor(stage);
    const env = [{ name: "API_TOKEN", value: SECRET }];
    const server: McpServer = { name: "editors", command: process.execPath, args: [TOOL_SERVER], env };
    const { sessionId } = await editor.agent.request("session/new", { cwd: stage.project, mcpServers: [server] });
    await editor.prompt(sessionId, "Tell the token.");
    expect(editor.words()).toContain("API_TOKEN is [redacted]");
    expect(JSON.stringify(editor.updates)).not.toContain(SECRET);
    await editor.close();
  });

  it("[K1] a session of another folder is deleted, and only models that can be asked are listed", async () => {
    const elsewhere = join(stage.home, "elsewhere");
    mkdirSync(elsewhere);
    const maker = await openEditor(stage);
    const created = await maker.agent.request("session/new", { cwd: stage.project, mcpServers: [] });
    await maker.prompt(created.sessionId, "Hello!");
    const [model] = created.configOptions ?? [];
    const names = model?.type === "select" ? model.options.flatMap((one) => ("value" in one ? [one.value] : [])) : [];
    expect(names).toEqual(expect.arrayContaining(["scripted", "another"]));
    expect(names.some((name) => /claude|gpt|gemini/.test(name))).toBe(false);
    await maker.close();
    const editor = await openEditor(stage, { cwd: elsewhere });
    const listed = await editor.agent.request("session/list", { cwd: stage.project });
    expect(listed.sessions.map(({ sessionId }) => sessionId)).toContain(created.sessionId);
    await editor.agent.request("session/delete", { sessionId: created.sessionId });
    const left = await editor.agent.request("session/list", { cwd: stage.project });
    expect(left.sessions.map(({ sessionId }) => sessionId)).not.toContain(created.sessionId);
    await expect(editor.agent.request("session/delete", { sessionId: stage.home })).rejects.toMatchObject({
      code: expect.any(Number),
    });
    expect(existsSync(join(elsewhere, ".rkat/sessions"))).toBe(false);
    await editor.close();
  });
});
