import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { expect, it, vi } from "vitest";
import { expectUsable, openPage, withBrowser } from "../support/browser.ts";
import { serveRest } from "../support/rest-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

withBrowser("the timeline of a session", () => {
  it("[G8] shows model calls, tools and approvals of each turn with their times, and a failure wherever the session is", async () => {
    const tool: Tool = {
      name: "wipe",
      description: "wipes",
      inputSchema: { type: "object" },
      needsApproval: true,
      execute: () => "wiped",
    };
    const model = createScriptedModel([
      { text: "I wipe.", calls: [{ name: "wipe", args: { what: "disk" } }] },
      { text: ["It ", "is ", "wiped."] },
      { ends: { failure: { kind: "invalid_request", message: "the model refused" } } },
    ]);
    const { url, runtime } = await serveRest({ model, tools: [tool] }, { console: true, token: "secret" });
    const session = await runtime.createSession({ labels: { team: "a" } });
    const page = await openPage(`${url}/#token=secret`, { expects: [/status of 404/] });
    await page.goto(`${url}/#/sessions/${session.id}`);
    await page.getByText("No messages yet.").waitFor();
    const turn = session.turn("Wipe the disk.", { onApproval: () => undefined });
    await page.getByRole("button", { name: "Allow once" }).click();
    await turn;
    await page.getByText("It is wiped.").waitFor();
    await page.getByRole("link", { name: "Timeline" }).click();
    const card = page.locator(".turn", { hasText: "Wipe the disk." });
    await card.getByText("completed").waitFor();
    const steps = card.locator(".steps li");
    expect(await steps.locator(".step-name").allTextContents()).toEqual([
      "scripted",
      "approval of wipe",
      "wipe",
      "scripted",
    ]);
    // The page saw the deltas of the second call; each call has its tokens.
    expect(await steps.last().textContent()).toMatch(/first token \d+ ms · .*10 in, 5 out/);
    await session.turn("And again.").catch(() => {});
    await page.locator(".turn", { hasText: "And again." }).getByText("the model refused").waitFor();
    await page.locator(".session-head .badge.bad", { hasText: "failed" }).waitFor();
    await page.getByText("The last turn failed").waitFor();
    await expectUsable(page);
    await page.goto(`${url}/#/sessions`);
    await page
      .getByRole("row", { name: /Wipe the disk/ })
      .getByText("failed")
      .waitFor();
    await page.goto(`${url}/#/server`);
    for (const by of ["day", "model", "label", "token"])
      await page.getByRole("heading", { name: `Tokens by ${by}` }).waitFor();
    await page.locator(".meter", { hasText: "team=a" }).waitFor();
    await page.getByLabel("Label, as key=value").fill("team=b");
    await page.getByText("No model calls in this period.").waitFor();
  });
});
