import { expect, it, vi } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";
import { HOSTILE, tabTo } from "../support/console-page.ts";
import { serveConsole } from "../support/console-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

withBrowser("the screen of memory", () => {
  it("[G8] tells of the index, finds what was said with the parts of its score, and leads to where it was said", async () => {
    const { url, call } = await serveConsole();
    const { body } = await call("POST /sessions", { prompt: "The staging host listens at port 7443." });
    const page = await openPage(`${url}/#/memory`);
    await page.getByText("Searchable chunks").waitFor();
    await expectAccessible(page);
    await page.getByLabel("Search memory").fill("staging port");
    await page.keyboard.press("Enter");
    await page.getByText("The staging host listens at port 7443.").first().waitFor();
    expect(page.url()).toContain("#/memory?q=staging+port&scope=everything");
    const hit = page.getByRole("listitem").filter({ hasText: "The staging host" }).first();
    for (const part of ["Words", "Meaning", "Neighbours"]) {
      expect(await hit.locator(".meter", { hasText: part }).textContent()).toMatch(/^\w+\d+ %$/);
    }
    await hit.getByText("in context").waitFor();
    expect(await hit.locator("mark").allTextContents()).toEqual(["staging", "port"]);
    await expectAccessible(page);
    await page.getByRole("link", { name: "Turn 1 of" }).first().click();
    await page.waitForURL(new RegExp(`#/sessions/${body.session_id}\\?seq=\\d+$`));
    await page.goBack();
    await page.getByText("The staging host listens").first().waitFor();
  });

  it("[G8] looks in one session alone, and says when nothing is found", async () => {
    const { url, call } = await serveConsole();
    const first = await call("POST /sessions", { prompt: "The staging host listens at port 7443." });
    const other = await call("POST /sessions", { prompt: "Tea is ready." });
    const address = `${url}/#/memory?q=staging+port&scope=session&session=${other.body.session_id}`;
    const page = await openPage(address, { expects: [/status of 400/] });
    await page.getByText("No results").or(page.getByText("Tea is ready")).first().waitFor();
    expect(await page.getByText("7443").count()).toBe(0);
    await page.getByLabel("Session", { exact: true }).fill(String(first.body.session_id));
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("The staging host listens").first().waitFor();
    await page.getByLabel("Session", { exact: true }).fill("no-id");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("alert").waitFor();
  });

  it("[G8] shows what was said as text, whatever it is written with", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: `needle ${HOSTILE}` });
    const page = await openPage(`${url}/#/memory?q=needle`);
    await page.getByText("<img src=x").first().waitFor();
    expect(await page.locator("img, script:not([type=module]), iframe").count()).toBe(0);
    expect(await page.evaluate("window.stolen")).toBe(undefined);
  });
});

withBrowser("the screen of schedules", () => {
  it("[G8] [Q2] lists them with what they did and when they are due next, and pauses, resumes and deletes one", async () => {
    const { url, call } = await serveConsole();
    const at = new Date().toISOString();
    const { body: once } = await call("POST /schedules", { name: "rounds", prompt: "What is 2 + 3?", at });
    await call("POST /schedules", { name: HOSTILE, prompt: HOSTILE, cron: "0 9 * * 1-5", timezone: "Europe/Berlin" });
    const page = await openPage(`${url}/#/schedules`);
    const row = page.getByRole("row").filter({ hasText: "<img src=x" });
    await row.getByText("active").waitFor();
    await row.getByText("expression 0 9 * * 1-5, timezone Europe/Berlin").waitFor();
    await page.getByRole("row").filter({ hasText: "rounds" }).getByText("never again").waitFor();
    await expectAccessible(page);
    await row.getByRole("button", { name: "Pause" }).click();
    await row.getByText("paused").waitFor();
    await row.getByRole("button", { name: "Resume" }).click();
    await row.getByText("active").waitFor();
    page.on("dialog", (dialog) => void dialog.accept());
    await row.getByRole("button", { name: "Delete" }).click();
    await row.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "rounds" }).click();
    const run = page.getByRole("table").getByRole("row").filter({ hasText: "completed" });
    await run.getByRole("link").waitFor();
    await expectAccessible(page);
    expect(await page.locator("img, script:not([type=module]), iframe").count()).toBe(0);
    expect(await page.evaluate("window.stolen")).toBe(undefined);
    await run.getByRole("link").click();
    await page.getByText("2 + 3 = 5").waitFor();
    await page.goto(`${url}/#/schedules/${once.schedule_id}`);
    await page.getByRole("link", { name: "Sessions of this schedule" }).click();
    await page.getByRole("link", { name: /2 \+ 3/ }).waitFor();
  });

  it("[G8] [Q2] shows them to a token that may only read, without its buttons", async () => {
    const server = await serveConsole();
    await server.call("POST /schedules", { name: "rounds", prompt: "Look around.", every: "1h" });
    const [secret] =
      (await server.rkat("token", "create", "--name", "r", "--scope", "read")).match(/rkat_[\w-]+/) ?? [];
    const page = await openPage(`${server.url}/#token=${secret}`);
    await page.getByRole("link", { name: "Schedules" }).click();
    await page.getByRole("link", { name: "rounds" }).waitFor();
    expect(await page.getByRole("button", { name: /Pause|Resume|Delete/ }).count()).toBe(0);
  });
});

withBrowser("the screen of agents", () => {
  it("[G8] shows three tiers with what they cover, takes in a memory, and recalls it", async () => {
    const { url, call } = await serveConsole();
    for (let day = 1; day <= 3; day += 1) await call("POST /agents/ada/memories", { content: `Day ${day} was calm.` });
    const page = await openPage(`${url}/#/agents`);
    await page.getByRole("link", { name: "ada" }).click();
    await page.getByRole("heading", { name: "Immediate" }).waitFor();
    await page.getByRole("heading", { name: "Recent" }).waitFor();
    await page.getByRole("heading", { name: "Long-term" }).waitFor();
    await page.getByText("Memories 1 to 3.").waitFor();
    await page.getByRole("img", { name: "immediate 1 to 3" }).waitFor();
    await page.getByText(/at memory \d+, \d+ to go/).waitFor();
    await expectAccessible(page);
    await page.getByLabel("A memory for this agent").fill("The lighthouse keeper plays the cello.");
    await page.getByRole("button", { name: "Add memory" }).click();
    await page.getByText("Memories 1 to 4.").waitFor();
    await page.getByLabel("A private note").fill("She likes tea.");
    await page.getByRole("button", { name: "Add note" }).click();
    await expect.poll(() => page.locator("dt:text('Private notes') + dd").textContent()).toBe("1");
    await page.getByLabel("Search this agent's memories").fill("who plays the cello");
    await page.keyboard.press("Enter");
    await page.getByRole("list", { name: "Results" }).getByText("The lighthouse keeper").waitFor();
    expect(page.url()).toContain("#/agents/ada?q=who");
  });

  it("[G8] compacts on demand, and keeps every summary there was to be looked at", async () => {
    const server = await serveConsole();
    await server.call("PATCH /config", { agent_memory: { immediate_window: 2, recent_window: 2 } });
    await server.stop();
    await server.start();
    for (let day = 1; day <= 4; day += 1) {
      await server.call("POST /agents/ada/memories", { content: `On day ${day} it rained for ${day} hours.` });
    }
    const page = await openPage(`${server.url}/#/agents/ada`);
    await page.getByText("No summaries yet.").waitFor();
    await page.getByRole("button", { name: "Compact now" }).click();
    await page.getByText(/recent · memories 1 to \d/).click();
    await page.locator("details[open] pre").getByText("day 1").waitFor();
    await page
      .locator("details[open]")
      .getByText(/^\d+ facts: \d+ in view \(\d+ in this summary\), .* 0 lost/)
      .waitFor();
    await page.getByRole("img", { name: /Memories by tier: recent 1 to \d, immediate \d to 4/ }).waitFor();
    await expectAccessible(page);
  });

  it("[G8] shows memories as text, and has no form for a token that may only read", async () => {
    const server = await serveConsole();
    await server.call("POST /agents/ada/memories", { content: HOSTILE, metadata: { [HOSTILE]: HOSTILE } });
    const [secret] =
      (await server.rkat("token", "create", "--name", "r", "--scope", "read")).match(/rkat_[\w-]+/) ?? [];
    const page = await openPage(`${server.url}/#token=${secret}`);
    await page.getByRole("link", { name: "Agents" }).click();
    await page.getByRole("link", { name: "ada" }).click();
    await page.getByText("<img src=x").first().waitFor();
    expect(await page.locator("img, script:not([type=module]), iframe").count()).toBe(0);
    expect(await page.evaluate("window.stolen")).toBe(undefined);
    expect(await page.getByRole("button", { name: /Add memory|Add note|Compact now/ }).count()).toBe(0);
  });

  it("[G8] says what an agent is that nobody has heard of, with a name that is none", async () => {
    const { url } = await serveConsole();
    const page = await openPage(`${url}/#/agents/${encodeURIComponent("<b>no</b>")}`, { expects: [/status of 40/] });
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("<b>no</b>");
  });
});

withBrowser("the screen of the server", () => {
  it("[G8] tells its health, what was used, what it can do, its models with prices and its configuration", async () => {
    const { url, call } = await serveConsole();
    await call("POST /sessions", { prompt: "Say hello" });
    await call("PATCH /config", { agent: { model: "offline" } });
    const page = await openPage(`${url}/#/server`);
    await page.getByText("ready", { exact: true }).waitFor();
    await page.getByText(/^1 model calls?, /).waitFor();
    await page.getByText("session_compaction").waitFor();
    await page
      .getByRole("cell", { name: /claude-/ })
      .first()
      .waitFor();
    await page.getByText("All effective settings").click();
    await page.getByRole("cell", { name: "agent.model" }).waitFor();
    expect(await page.locator("dt:text('Generation') + dd").textContent()).toBe("1");
    await expectAccessible(page);
  });
});

withBrowser("the reference", () => {
  it("[G8] tells of every operation, and asks this server with the token at hand", async () => {
    const { url } = await serveConsole({ flags: ["--token", "s3cret"] });
    const page = await openPage(`${url}/#token=s3cret`);
    await page.getByRole("link", { name: "API" }).click();
    await page.getByRole("cell", { name: "SESSION_BUSY" }).waitFor();
    await expectAccessible(page);
    await page.getByLabel("Find an operation").fill("create a session");
    await page.getByRole("link", { name: "createSession" }).click();
    await page.waitForURL(/#\/api\/createSession$/);
    await page.getByText("requires scope run").waitFor();
    await expectAccessible(page);
    expect(await page.locator("pre").first().textContent()).toContain(`curl ${url}/sessions`);
    expect(await page.locator(".fields code").first().textContent()).toBe("prompt");
    expect(await page.getByText("enable_mob").isVisible()).toBe(false);
    await page.getByText(/fields that need not be sent/).click();
    await page.getByText("enable_mob").waitFor();
    await page.getByRole("button", { name: "TypeScript" }).click();
    await page.getByText('import { connect } from "rkat/client"').waitFor();
    await page.getByRole("button", { name: "Python" }).click();
    await page.getByText("client.create_session(").waitFor();
    await page.getByLabel("Body").fill("{");
    await page.getByRole("button", { name: "POST /sessions" }).click();
    await page.getByText("the body is not valid JSON").waitFor();
    await page.getByLabel("Body").fill('{"prompt":"Say hello"}');
    await page.getByRole("button", { name: "POST /sessions" }).click();
    await page.getByText('"session_id":').waitFor();
  });

  it("[G8] fills paths and queries, tells a failure as it came, and is used by the keyboard alone", async () => {
    const { url } = await serveConsole();
    const page = await openPage(`${url}/#/api/readHistory`, { expects: [/status of 40/] });
    const send = page.getByRole("button", { name: "GET /sessions/{session_id}/history" });
    await send.waitFor();
    expect(await send.isDisabled()).toBe(true);
    await tabTo(page, "session_id");
    await page.keyboard.type("01a1e526-4bbc-7582-b483-d7df8925736d");
    await tabTo(page, "GET /sessions");
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText('"SESSION_NOT_FOUND"').waitFor();
    await page.getByText("Fields", { exact: true }).first().click();
    await page.getByText("optional").first().waitFor();
  });

  it("[G8] has nothing to try for what the token may not do", async () => {
    const server = await serveConsole();
    const [secret] =
      (await server.rkat("token", "create", "--name", "r", "--scope", "read")).match(/rkat_[\w-]+/) ?? [];
    const page = await openPage(`${server.url}/#token=${secret}`);
    await page.getByRole("link", { name: "API" }).click();
    await page.getByRole("link", { name: "createSession" }).click();
    await page.getByText("requires scope run").waitFor();
    expect(await page.getByRole("heading", { name: "Try it" }).count()).toBe(0);
    await page.getByRole("link", { name: "listSessions" }).click();
    await page.getByRole("heading", { name: "Try it" }).waitFor();
  });
});
