import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { Page } from "playwright-core";
import { expect, it, onTestFinished, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { HOSTILE } from "../support/console-page.ts";
import { serveConsole } from "../support/console-server.ts";
import { usePausedModel } from "../support/paused-model.ts";
import { serveRest } from "../support/rest-server.ts";
import { createCallingModel } from "../turns/calling-model.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const message = (page: Page, seq: number) => page.locator(`.message[data-seq="${seq}"]`);
/** A fetch that fails is told on the browser's console whatever becomes of it. */
const AWAY = [/Failed to load resource|net::ERR/];

withBrowser("a session in the console", () => {
  const model = usePausedModel();

  it("[G8] shows an answer while it comes, and then as a message of the history", async () => {
    const { url, call } = await serveConsole({ env: model.env() });
    const { session_id } = (await call("POST /sessions", { initial_turn: "deferred" })).body;
    const page = await openPage(`${url}/#/sessions/${session_id}`);
    await page.getByLabel("Your message").fill("Tell me a story.");
    await page.keyboard.press("Enter");
    await page.getByText("Once upon", { exact: true }).waitFor();
    await page.getByText("running", { exact: true }).waitFor();
    expect(await page.getByLabel("Your message").inputValue()).toBe("");
    model.finish();
    await page.getByText("Once upon a time.", { exact: true }).waitFor();
    await page.getByText("idle", { exact: true }).waitFor();
    await expect.poll(() => page.locator(".message").count()).toBe(2);
    await page.locator(".strip-link").waitFor();
    await expectAccessible(page);
  });

  it("[G8] interrupts a turn and says so in a sentence", async () => {
    const { url, call } = await serveConsole({ env: model.env() });
    const { session_id } = (await call("POST /sessions", { initial_turn: "deferred" })).body;
    const page = await openPage(`${url}/#/sessions/${session_id}`);
    await page.getByLabel("Your message").fill("Tell me a story.");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Once upon", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("Turn interrupted.").waitFor();
    await page.getByRole("button", { name: "Send" }).waitFor();
  });

  it("[G8] [Q1] lists the messages that wait, and removes one", async () => {
    const { url, call } = await serveConsole({ env: model.env() });
    const { session_id } = (await call("POST /sessions", { initial_turn: "deferred" })).body;
    const send = (prompt: string, when_busy?: string) =>
      void call(`POST /sessions/${session_id}/messages`, { prompt, when_busy }).catch(() => {});
    send("Tell me a story.");
    const page = await openPage(`${url}/#/sessions/${session_id}`);
    await page.getByText("running", { exact: true }).waitFor();
    send(HOSTILE, "queue");
    await page.getByRole("link", { name: "Inbox and jobs (1)" }).click();
    await page.getByText("<img src=x").waitFor();
    send("And of a fox.", "interrupt");
    const removed = page.getByRole("listitem").filter({ hasText: "<img src=x" });
    await removed.getByText("queue").waitFor();
    await expectAccessible(page);
    await removed.getByRole("button", { name: "Remove" }).click();
    await page.getByText("No messages are waiting.").waitFor();
    expect(await page.locator("img, script:not([type=module]), iframe").count()).toBe(0);
    expect(await page.evaluate("window.stolen")).toBe(undefined);
    model.finish();
  });

  it("[G8] [P3] lists the background jobs of a session with their state and the end of their output", async () => {
    const projectRoot = mkdtempSync(join(tmpdir(), "rkat-console-jobs-"));
    onTestFinished(() => rmSync(projectRoot, { recursive: true, force: true }));
    const env = { PATH: process.env.PATH };
    const options = { model: createCallingModel(), toolPreset: "workspace" as const, projectRoot, env };
    const { url, call } = await serveRest(options, { console: true });
    const command = "until [ -e go ]; do sleep 0.05; done; echo '<b>quince</b>'";
    const prompt = JSON.stringify({ name: "shell", args: { command, background: true } });
    const { session_id } = (await call("POST /sessions", { prompt })).body;
    const page = await openPage(`${url}/#/sessions/${session_id}/inbox`);
    const job = page.getByRole("listitem").filter({ hasText: "until [ -e go ]" });
    await job.getByText("running").waitFor();
    await expectAccessible(page);
    writeFileSync(join(projectRoot, "go"), "");
    await job.getByText("completed").waitFor();
    await job.getByText("<b>quince</b>", { exact: true }).waitFor();
    expect(await job.getByRole("button", { name: "Cancel" }).count()).toBe(0);
    const again = JSON.stringify({ name: "shell", args: { command: "sleep 600", background: true } });
    await call(`POST /sessions/${session_id}/messages`, { prompt: again });
    const endless = page.getByRole("listitem").filter({ hasText: "sleep 600" });
    await endless.getByRole("button", { name: "Cancel" }).click();
    await endless.getByText("cancelled").waitFor();
  });

  it("[G8] goes on after the server was away, without losing what was said or written", async () => {
    const server = await serveConsole();
    const { session_id } = (await server.call("POST /sessions", { prompt: "What is 2 + 3?" })).body;
    const page = await openPage(`${server.url}/#/sessions/${session_id}`, { expects: AWAY });
    await page.getByText("2 + 3 = 5").waitFor();
    await server.stop();
    await page.getByText("Connection lost").waitFor();
    await page.getByLabel("Your message").fill("What is 20 + 22?");
    await page.keyboard.press("Enter");
    await page.getByText("Not sent").waitFor();
    expect(await page.getByLabel("Your message").inputValue()).toBe("What is 20 + 22?");
    await server.start();
    await page.getByText("Connection lost").waitFor({ state: "detached" });
    await server.call(`POST /sessions/${session_id}/messages`, { prompt: "What is 4 + 4?" });
    await page.getByText("4 + 4 = 8").waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("20 + 22 = 42").waitFor();
  });

  it("[G8] shows a tool's call and its result behind one line, and opens them by a key", async () => {
    const { url, call } = await serveConsole();
    const { session_id } = (
      await call("POST /sessions", { prompt: "Create a task: feed the cat.", tool_preset: "safe" })
    ).body;
    const page = await openPage(`${url}/#/sessions/${session_id}`);
    const line = page.getByRole("button", { name: /task_create/ });
    await line.focus();
    await page.keyboard.press("Enter");
    await page.getByText("Arguments").waitFor();
    expect(await line.getAttribute("aria-expanded")).toBe("true");
    expect(await page.locator(".fold-inside .json").first().textContent()).toContain("feed the cat");
  });

  it("[G8] pins, forks, and forks with another message in the place of one", async () => {
    const { url, call } = await serveConsole();
    const { session_id } = (await call("POST /sessions", { prompt: "The port is 8443." })).body;
    await call(`POST /sessions/${session_id}/messages`, { prompt: "What is the port?" });
    const page = await openPage(`${url}/#/sessions/${session_id}`);
    const first = page.locator(".message").first();
    await first.getByRole("button", { name: /^Pin message/ }).click();
    await first.getByText("pinned").waitFor();
    await first.getByRole("button", { name: /^Unpin message/ }).click();
    await first.getByText("pinned").waitFor({ state: "detached" });
    await page
      .locator(".message")
      .nth(1)
      .getByRole("button", { name: /^Fork after/ })
      .click();
    await page.waitForURL((at) => at.hash.startsWith("#/sessions/") && !at.hash.includes(String(session_id)));
    await page.getByText("2 messages").waitFor();
    await page
      .locator(".message")
      .first()
      .getByRole("button", { name: /^Edit message/ })
      .click();
    await page.getByLabel(/^New text/).fill("The port is 9000.");
    await page.getByRole("button", { name: "Fork with new text" }).click();
    await page.getByText("1 messages").waitFor();
    await page.locator(".message").getByText("The port is 9000.").waitFor();
  });

  it("[G8] puts a call that waits to whoever may answer it, whole, and lets the turn go on", async () => {
    const ran: string[] = [];
    const tool: Tool = {
      name: "wipe",
      description: "wipes",
      inputSchema: { type: "object" },
      needsApproval: true,
      execute: ({ what }) => {
        ran.push(String(what));
        return "wiped";
      },
    };
    const scripted = createScriptedModel([
      { calls: [{ id: "c1", name: "wipe", args: { what: "disk" } }] },
      { calls: [{ id: "c2", name: "wipe", args: { what: "table" } }] },
      { text: "The disk is wiped, the table is not." },
    ]);
    const { url, runtime } = await serveRest({ model: scripted, tools: [tool] }, { console: true, token: "secret" });
    const session = await runtime.createSession();
    const turn = session.turn("Wipe.", { onApproval: () => undefined });
    const page = await openPage(`${url}/#token=secret`);
    await page.goto(`${url}/#/sessions/${session.id}`);
    await page.getByText("A tool call is waiting for approval").waitFor();
    expect(await page.locator(".approval pre").textContent()).toContain('"what": "disk"');
    expect(ran).toEqual([]);
    await expectAccessible(page);
    await page.getByRole("button", { name: "Allow once" }).click();
    await page.locator(".approval pre", { hasText: "table" }).waitFor();
    await page.getByLabel(/Reason for denying/).fill("the table is needed");
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByText("The disk is wiped, the table is not.").waitFor();
    await page.getByText(/^Denied by RKAT_TOKEN: .*\(the table is needed\)/).waitFor();
    expect(ran).toEqual(["disk"]);
    await turn;
  });

  it("[G8] answers each waiting call by itself: one with a reason, and one for the whole session", async () => {
    const ran: string[] = [];
    const tool = (name: string): Tool => ({
      name,
      description: name,
      inputSchema: { type: "object" },
      needsApproval: true,
      execute: ({ what }) => {
        ran.push(`${name} ${what}`);
        return "done";
      },
    });
    const calls = ["copy", "wipe"].map((name) => ({ id: name, name, args: { what: "disk" } }));
    const scripted = createScriptedModel([
      { calls },
      { calls: [{ id: "again", name: "copy", args: { what: "table" } }] },
      { text: "Copied both." },
    ]);
    const tools = [tool("copy"), tool("wipe")];
    const { url, runtime } = await serveRest({ model: scripted, tools }, { console: true, token: "secret" });
    const session = await runtime.createSession();
    const turn = session.turn("Copy and wipe.", { onApproval: () => undefined });
    const page = await openPage(`${url}/#token=secret`);
    await page.goto(`${url}/#/sessions/${session.id}`);
    await page.getByText("2 tool calls are waiting for approval").waitFor();
    await page.setViewportSize({ width: 360, height: 740 });
    await expectAccessible(page);
    const call = (name: string) => page.locator(".approval-call", { hasText: `${name} wants to run` });
    await call("wipe")
      .getByLabel(/^Reason/)
      .fill("keep it");
    await call("wipe").getByRole("button", { name: "Deny" }).click();
    await page.getByText("A tool call is waiting for approval").waitFor();
    expect(ran).toEqual([]);
    await call("copy").getByRole("button", { name: "Always in this session" }).click();
    await page.getByText("Copied both.").waitFor();
    expect(ran).toEqual(["copy disk", "copy table"]);
    expect(JSON.stringify(scripted.requests[1]?.messages)).toContain("keep it");
    await turn;
  });

  it("[G8] keeps markup, tricks of direction and a megabyte of output what they are: text", async () => {
    const hostile =
      "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>\u202Edesrever\u2066<b>bold</b>";
    const give: Tool = {
      name: "give",
      description: "gives",
      inputSchema: { type: "object" },
      execute: () => `${hostile}${"x".repeat(1_000_000)}THE END`,
    };
    const steps = [{ text: hostile, calls: [{ name: "give", args: { path: hostile } }] }, { text: hostile }];
    const scripted = createScriptedModel(steps);
    const { url, runtime } = await serveRest({ model: scripted, tools: [give] }, { console: true });
    const session = await runtime.createSession(hostile, { labels: { team: hostile } });
    const page = await openPage(`${url}/#/sessions/${session.id}`);
    await page.getByRole("button", { name: /give/ }).click();
    await page.getByRole("button", { name: "Show full output" }).click();
    await page.getByRole("button", { name: /^Show all 1,000,/ }).click();
    await page.getByText("THE END").waitFor();
    expect(await page.evaluate("window.evil")).toBeUndefined();
    expect(await page.locator("main script, main img, main b").count()).toBe(0);
    const shown = hostile.replace("\u202E", "‹U+202E›").replace("\u2066", "‹U+2066›");
    expect(await page.locator(".message.user .text").textContent()).toBe(shown);
    const bidi = "getComputedStyle(document.querySelector('.message .text')).unicodeBidi";
    expect(await page.evaluate(bidi)).toBe("isolate");
  });

  it("[G8] shows ten thousand messages a few at a time, and finds any of them by its link", async () => {
    const { url, runtime } = await serveRest({}, { console: true });
    const session = await runtime.createSession("Hi.");
    const many = Array.from({ length: 10_000 }, (_, index) => {
      const content = `Message number ${index}. ${"It has some words. ".repeat(index % 7)}`;
      return index % 2 === 0 ? { role: "user" as const, content } : { role: "assistant" as const, content };
    });
    await session.rewrite({ start: 0, end: 2 }, many);
    const page = await openPage(`${url}/#/sessions/${session.id}`);
    await page.getByText("Message number 9999.").waitFor();
    expect(await page.locator(".message").count()).toBeLessThan(80);
    const { messages } = await session.history({ offset: 5_000, limit: 1 });
    const seq = messages[0]?.seq ?? 0;
    await page.goto(`${url}/#/sessions/${session.id}?seq=${seq}`);
    await message(page, seq).getByText("Message number 5000.").waitFor();
    await page.getByRole("feed").focus();
    await page.keyboard.press("Home");
    await page.locator(".message").getByText("Message number 0.").waitFor();
    await page.keyboard.press("End");
    await page.getByText("Message number 9999.").waitFor();
    expect(await page.locator(".message").count()).toBeLessThan(80);
  });
});
