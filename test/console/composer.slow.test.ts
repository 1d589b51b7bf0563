import { createScriptedModel } from "@rkat/core/providers/scripted";
import { expect, it, vi } from "vitest";
import { expectAccessible, expectUsable, openPage, withBrowser } from "../support/browser.ts";
import { serveConsole } from "../support/console-server.ts";
import { serveRest } from "../support/rest-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

withBrowser("a new session in the console", () => {
  it("[G8] is created by its first message, with the model, tools, agent, prompt and budget that were chosen", async () => {
    const { url, call } = await serveConsole();
    await call("POST /agents/ada/memories", { content: "The staging host listens at port 7443." });
    const page = await openPage(`${url}/#/sessions/new`);
    await page.getByLabel("Model").fill("offline");
    await page.getByLabel("Tools").selectOption("none");
    await page.getByLabel("Agent").selectOption("ada");
    await page.getByLabel("Budget in tokens").fill("50000");
    await page.getByLabel("System prompt").fill("You count.");
    await page.getByLabel("Your message").fill("What is");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("2 + 3?");
    await expectUsable(page);
    expect((await call("GET /sessions")).body.sessions).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/sessions\/[0-9a-f-]{36}$/);
    await page.locator(".message.block_assistant[data-seq]").waitFor();
    const [session] = (await call("GET /sessions")).body.sessions as { session_id: string; model: string }[];
    expect(session?.model).toBe("offline");
    const { messages } = (await call(`GET /sessions/${session?.session_id}/history`)).body;
    expect(messages).toMatchObject([
      { role: "system", content: expect.stringMatching(/You count\.[\s\S]*7443/) },
      { role: "user", content: "What is\n2 + 3?" },
      { role: "block_assistant" },
    ]);
    await page.getByText("of 50K").waitFor();
    await page.getByText("agent=ada").waitFor();
  });

  it("[G8] sends images and texts with a message, and keeps a message that was refused", async () => {
    const model = createScriptedModel([{ text: "A dot and a text." }]);
    const { url } = await serveRest({ model }, { console: true });
    const page = await openPage(`${url}/#/sessions/new`, { expects: [/status of 400/] });
    const attach = page.getByLabel("Files to attach");
    await attach.setInputFiles([
      { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(DOT, "base64") },
      { name: "notes.ts", mimeType: "", buffer: Buffer.from("const port = 7443;") },
      { name: "left-out.txt", mimeType: "text/plain", buffer: Buffer.from("left out") },
    ]);
    await page.getByRole("button", { name: "Remove left-out.txt" }).click();
    await page.getByLabel("Your message").fill("What is this?");
    await page.getByLabel("Budget in tokens").fill("0");
    await page.keyboard.press("Tab");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("alert").getByText("Not sent").waitFor();
    expect(await page.getByLabel("Your message").inputValue()).toBe("What is this?");
    await page.getByLabel("Budget in tokens").fill("");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("A dot and a text.").waitFor();
    await page.locator(".message.user").getByText("const port = 7443;").waitFor();
    expect(JSON.stringify(model.requests[0]?.messages)).toContain("const port = 7443;");
    expect(JSON.stringify(model.requests[0]?.messages)).not.toContain("left out");
  });

  it("[G8] edits a message, runs it again in a fork, and shows the difference of both answers", async () => {
    const { url, call } = await serveConsole();
    const { session_id } = (await call("POST /sessions", { prompt: "What is 2 + 3?" })).body;
    const page = await openPage(`${url}/#/sessions/${session_id}`);
    await page
      .getByRole("button", { name: /^Edit message/ })
      .first()
      .click();
    await page.getByLabel(/^New text/).fill("What is 2 + 4?");
    // By the keyboard: a click is lost where something that loads moves the button meanwhile.
    await page.getByRole("button", { name: "Run again" }).press("Enter");
    await expect.poll(() => page.url(), { timeout: 30_000 }).toContain(`compared=${session_id}`);
    await page.getByText("2 + 4 = 6").waitFor();
    await page.getByRole("button", { name: /Compare with the answer/ }).click();
    const changes = page.locator(".changes");
    expect(await changes.locator("del").allTextContents()).not.toEqual([]);
    expect((await changes.locator("ins").allTextContents()).join("")).toContain("6");
    await expectAccessible(page);
    expect((await call(`GET /sessions/${session_id}/history`)).body.message_count).toBe(2);
  });
});
