import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { openPage, withBrowser } from "../support/browser.ts";
import { firstLine } from "../support/console-server.ts";
import { openControlledModel } from "../support/controlled-model.ts";

// A page is bundled and a browser is started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const examples = join(import.meta.dirname, "../../examples");

withBrowser("the example of a support bot", () => {
  it("[S1] calls its tools, asks the customer first where that is needed, and goes on when its page is loaded again", async () => {
    const files = ["support-bot.ts", "support-bot/page.jsx"];
    const lines = files.flatMap((file) => readFileSync(join(examples, file), "utf8").trimEnd().split("\n"));
    expect(lines.length).toBeLessThan(60);
    const model = await openControlledModel();
    const env = { PATH: process.env.PATH, OPENAI_API_KEY: "sk-test", OPENAI_BASE_URL: model.baseUrl };
    const child = spawn(process.execPath, ["support-bot.ts"], {
      cwd: examples,
      env: { ...env, RKAT_MODEL: "openai/m", PORT: "0" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const page = await openPage(await firstLine(child), { expects: [/favicon/, /404/] });
    const ask = async (text: string): Promise<void> => {
      await page.getByLabel("Your question").fill(text);
      await page.keyboard.press("Enter");
    };
    await ask("Where is order A-17?");
    (await model.next()).callTool("find_order", { order: "A-17" });
    const found = await model.next();
    expect(found.newest).toContain("packed");
    found.say("It is packed.");
    await page.getByText("It is packed.").waitFor();
    found.end();
    await ask("Cancel it.");
    (await model.next()).callTool("cancel_order", { order: "A-17" });
    await page.getByRole("button", { name: "Allow" }).waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Allow" }).click();
    const cancelled = await model.next();
    expect(cancelled.newest).toContain("cancelled");
    cancelled.say("It is cancelled.");
    cancelled.end();
    await page.getByText("It is cancelled.").waitFor();
  });
});
