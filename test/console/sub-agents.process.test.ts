import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { handingOut } from "../support/handing-runtime.ts";
import { serveRuntime } from "../support/rest-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const TASK = { calls: [{ id: "c1", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } }] };

/** A server whose sessions hand out tasks to sub-agents that ask before they do them. */
async function serve() {
  const model = createScriptedModel(({ messages, tools }) => {
    const isDone = messages.some(({ role }) => role === "tool_results");
    return tools.some(({ name }) => name === "task_create") && !isDone ? TASK : { text: "It is done." };
  });
  const runtime = createRuntime({ model, env: {}, store: createInMemoryStore() });
  const handed = handingOut(runtime);
  const { url } = await serveRuntime(handed, { console: true, token: "secret" });
  const session = await runtime.createSession("Feed all birds.");
  const page = await openPage(`${url}/#token=secret`);
  return { url, page, handed, parent: handed.session(session.id) };
}

withBrowser("sub-agents in the console", () => {
  it("[O4] are cards between messages, whose questions are put and answered where the parent is looked at", async () => {
    const { url, page, handed, parent } = await serve();
    await page.goto(`${url}/#/sessions/${parent.id}`);
    await page.getByText("It is done.").waitFor();
    const turn = parent.turn("Go on.", { onApproval: () => undefined });
    const card = page.getByRole("region", { name: "Sub-agent reviewer" });
    await card.getByText("running", { exact: true }).waitFor();
    await card.getByText("Make a task.").waitFor();
    await page.getByText("A tool call is waiting for approval").waitFor();
    await page.getByRole("link", { name: "from a sub-agent" }).waitFor();
    expect(await page.locator(".approval pre").textContent()).toContain("Feed the heron");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Allow once" }).click();
    await turn;
    await card.getByText("completed", { exact: true }).waitFor();
    await card.getByText(/^[\d,]+ tokens$/).waitFor();
    await page.getByText("A tool call is waiting for approval").waitFor({ state: "detached" });
    await card.getByRole("button", { name: /Activity/ }).click();
    await card.getByText(/→ task_create .*Feed the heron/).waitFor();
    await card.getByText(/^allowed .*by .*: 1 call$/).waitFor();
    await expectAccessible(page);
    await card.getByRole("link", { name: "Open session" }).click();
    await page.waitForURL((at) => at.hash === `#/sessions/${handed.children[0]}`);
    await page.getByRole("link", { name: /^Sub-agent reviewer of / }).click();
    await page.waitForURL((at) => at.hash === `#/sessions/${parent.id}`);
    // Whoever comes later sees how it went, too.
    await page.reload();
    await card.getByText("completed", { exact: true }).waitFor();
  });

  it("[O4] are marked in the list of sessions, and hidden by a switch that the address keeps", async () => {
    const { url, page, parent } = await serve();
    await parent.turn("Go on.", { onApproval: () => "deny" });
    await page.goto(`${url}/#/sessions`);
    const own = page.getByRole("link", { name: "Feed all birds." });
    const child = page.getByRole("link", { name: "Make a task." });
    const mark = page.getByRole("link", { name: "↳ reviewer" });
    await child.waitFor();
    await expectAccessible(page);
    await page.getByLabel("Hide sub-agents").check();
    await child.waitFor({ state: "detached" });
    expect([await own.count(), await mark.count()]).toEqual([1, 0]);
    expect(page.url()).toContain("sub-agents=hidden");
    await page.reload();
    await own.waitFor();
    expect(await child.count()).toBe(0);
    await page.getByLabel("Hide sub-agents").uncheck();
    await mark.click();
    await page.waitForURL((at) => at.hash === `#/sessions/${parent.id}`);
  });
});
