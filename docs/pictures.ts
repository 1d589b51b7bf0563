// Makes the pictures of the console in docs/pictures: npm run pictures. It needs a build and a chromium.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import type { Runtime } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openRuntime } from "@rkat/node/open-runtime";
import { openRestServer } from "@rkat/server/rest/serve";
import { chromium, type Page } from "playwright-core";

const WIDTH = 1_120;
const TARGET = join(import.meta.dirname, "pictures");
const TOKEN = "pictures";

const REVIEW = `The test fails because the retry waits **before** the first attempt.

| attempt | waits | expected |
| ------: | ----: | -------: |
|       1 |  2 s  |      0 s |
|       2 |  4 s  |      2 s |

\`\`\`diff
--- a/src/retry.ts
+++ b/src/retry.ts
@@ -12,3 +12,3 @@
-  await sleep(delayMs * attempt);
+  if (attempt > 0) await sleep(delayMs * attempt);
   return send(request);
\`\`\`

Run \`npm test -- retry\` to see it pass; the rule is in [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).`;

const OUTPUT = {
  exit_code: 1,
  stdout: "FAIL test/retry.test.ts\n  expected 0 to be at most 10, got 2003\n",
  stderr: "",
};
const run: Tool = {
  name: "run_tests",
  description: "Runs the tests of a file.",
  inputSchema: { type: "object", properties: { file: { type: "string" } } },
  execute: () => JSON.stringify(OUTPUT),
};

const model = createScriptedModel((request, index) => {
  const usage = { input_tokens: 1_400 + 350 * index, output_tokens: 90 + 10 * index };
  const said = JSON.stringify(request.messages.at(-1) ?? "");
  if (said.includes("exit_code")) return { text: REVIEW, usage };
  if (said.includes("retry test")) {
    return { text: "I look at it.", calls: [{ name: "run_tests", args: { file: "test/retry.test.ts" } }], usage };
  }
  if (said.includes("Fail")) return { ends: { failure: { kind: "invalid_request", message: "the model refused" } } };
  const text =
    "Staging listens at port 7443. The nightly job warm-cache runs at 04:30. Never restart the gateway by day.";
  return { text: said.includes("summar") ? text : `Noted: ${FACTS[index % FACTS.length]}`, usage };
});

const FACTS = [
  "Staging listens at port 7443, production at 8443.",
  "The job warm-cache runs at 04:30 and keeps 9000 entries.",
  "Never restart the gateway by day.",
  "The load balancer is lb-7.internal; its health check is GET /healthz every 15 s.",
  "The logs are kept for 30 days in the bucket heron-logs-eu.",
];

/** Writes what the pictures show; returns the ids of the sessions. */
async function fill(runtime: Runtime): Promise<{ readonly review: string; readonly facts: string }> {
  const facts = await runtime.createSession("Let us note the facts of staging.", { labels: { team: "core" } });
  for (let round = 0; round < 2; round += 1) for (const fact of FACTS) await facts.turn(fact);
  await facts.compact();
  await facts.turn("Which port does staging listen at?");
  const failed = await runtime.createSession({ labels: { team: "web" } });
  await failed.turn("Fail, please.").catch(() => {});
  const review = await runtime.createSession("Why does the retry test fail?", { labels: { team: "web" } });
  return { review: review.id, facts: facts.id };
}

async function take(page: Page, route: string, { name, height, open }: Picture): Promise<void> {
  await page.setViewportSize({ width: WIDTH, height });
  await page.evaluate(`location.hash = ${JSON.stringify(route)}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForLoadState("networkidle").catch(() => {});
  if (open !== undefined) await page.getByRole("button", { name: open }).first().click();
  await page.locator(".spinner").first().waitFor({ state: "detached" });
  await page.screenshot({ path: join(TARGET, `${name}.png`) });
  console.log(`docs/pictures/${name}.png`);
}

interface Picture {
  readonly name: string;
  readonly height: number;
  /** A fold that is opened first. */
  readonly open?: RegExp;
}

const folder = mkdtempSync(join(tmpdir(), "rkat-pictures-"));
const runtime = await openRuntime({ stateFolder: folder, model, tools: [run], env: {}, config: defaultConfig() });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const server = await openRestServer({
  host: "127.0.0.1",
  port: 0,
  allowedHosts: [],
  token: TOKEN,
  runtime,
  about: { realm: "pictures" },
  version: "0.0.0",
  clock: createSystemClock(),
  log: () => {},
  console: true,
});
try {
  const { review, facts } = await fill(runtime);
  const [compaction] = await runtime.session(facts).compactions();
  const page = await browser.newPage({ colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(`${server.url}/#token=${TOKEN}`);
  await take(page, "/sessions", { name: "sessions", height: 560 });
  await take(page, `/sessions/${review}`, { name: "session", height: 860, open: /run_tests/ });
  await take(page, `/sessions/${review}/timeline`, { name: "timeline", height: 460 });
  await take(page, "/sessions/new", { name: "new-session", height: 480 });
  await take(page, `/sessions/${facts}/compactions/${compaction?.compactionId}`, { name: "compaction", height: 860 });
  await take(page, "/memory?q=staging port", { name: "memory", height: 620 });
} finally {
  await browser.close();
  await runtime.close();
  await server.close();
  rmSync(folder, { recursive: true });
}
