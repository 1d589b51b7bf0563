// How soon a browser shows a session, and what it holds of it: 10, 1,000 and 10,000 messages, cold, each in a page of its own.
// Then the longest task of the page's main thread, in CPU time, while the answer to the 10,001st message streams.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { median, publish } from "./report.ts";
import { createAsker, startServer } from "./server-process.ts";

const SIZES = [10, 1_000, 10_000];
const ROUNDS = Number(process.env.RKAT_CONSOLE_ROUNDS ?? 5);
const PAINT_MS_MAX = 1_000;
const TASK_MS_MAX = 50;
const LAST_WORDS = "The harbour ends here.";

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-console-"));
const server = startServer("cli", ["serve", "--port", "0", "--json"], {
  cwd: folder,
  env: {
    RKAT_MODEL: "openai/local",
    RKAT_LOG: "off",
    OPENAI_API_KEY: "none",
    OPENAI_BASE_URL: await openStreamingModel(),
  },
});
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // In a container there is nothing to build a sandbox of, and its shared memory is small.
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
try {
  const url = await listening();
  const { ask, close } = createAsker(url, 1);
  const rows = [];
  let longest = "";
  for (const size of SIZES) {
    const { session_id } = await ask("POST /sessions", { prompt: "Hi." });
    const selection = { type: "message_range", start: 0, end: 2 };
    const rewrite = { selection, replacement: messages(size), reason: { kind: "bench" } };
    await ask(`POST /sessions/${session_id}/rewrite-transcript`, rewrite);
    longest = session_id;
    const shown = [];
    for (let round = 0; round < ROUNDS; round += 1) shown.push(await show(browser, `${url}/#/sessions/${session_id}`));
    rows.push({
      size,
      paintMs: median(shown.map(({ paintMs }) => paintMs)),
      paintMsMax: Math.max(...shown.map(({ paintMs }) => paintMs)),
      heapMb: median(shown.map(({ heapMb }) => heapMb)),
      nodes: median(shown.map(({ nodes }) => nodes)),
    });
  }
  const taskMs = [];
  for (let round = 0; round < ROUNDS; round += 1)
    taskMs.push(await longestTask(browser, `${url}/#/sessions/${longest}`));
  close();
  await publish({
    name: "console",
    tables: [
      [
        ["messages", "newest message painted, ms", "slowest", "heap, MB", "nodes"],
        ...rows.map(({ size, paintMs, paintMsMax, heapMb, nodes }) => [
          size.toLocaleString("en"),
          paintMs.toFixed(0),
          paintMsMax.toFixed(0),
          heapMb.toFixed(1),
          nodes.toFixed(0),
        ]),
      ],
      [
        ["longest task while an answer streams, CPU ms", "slowest"],
        [median(taskMs).toFixed(1), Math.max(...taskMs).toFixed(1)],
      ],
    ],
    targets: [
      ...rows.map(({ size, paintMs }) => ({
        what: `newest of ${size} messages painted, ms`,
        value: paintMs,
        max: PAINT_MS_MAX,
      })),
      { what: "longest task while an answer streams, CPU ms", value: median(taskMs), max: TASK_MS_MAX },
    ],
    measured: { rounds: ROUNDS, rows, taskMs },
  });
} finally {
  await browser.close();
  await server.close();
  rmSync(folder, { recursive: true });
}

function messages(count: number): readonly object[] {
  return Array.from({ length: count }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: `Message number ${index}. ${"It says a few words more than the others. ".repeat(index % 9)}`,
  }));
}

/** Opens a page that nobody has opened before, until its newest message is painted, and looks at what it holds. */
async function show(within: Browser, address: string) {
  const context = await within.newContext({ viewport: { width: 1_280, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(`
    const look = () => {
      if (document.querySelector(".message[data-seq]") === null) requestAnimationFrame(look);
      // The frame after the one in which it is there has painted it.
      else requestAnimationFrame(() => { window.paintedMs = performance.now(); });
    };
    requestAnimationFrame(look);
  `);
  await page.goto(address);
  await page.locator(".message[data-seq]").first().waitFor();
  const paintMs = Number(
    await page.evaluate(
      "new Promise((tell) => { const ask = () => window.paintedMs ? tell(window.paintedMs) : setTimeout(ask, 20); ask(); })",
    ),
  );
  const tools = await context.newCDPSession(page);
  await tools.send("Performance.enable");
  await tools.send("HeapProfiler.collectGarbage");
  const { metrics } = await tools.send("Performance.getMetrics");
  const metric = (name: string): number => metrics.find((one) => one.name === name)?.value ?? Number.NaN;
  const reported = { paintMs, heapMb: metric("JSHeapUsedSize") / 1e6, nodes: metric("Nodes") };
  // What it asks for besides must not be in the way of the next.
  await page.locator(".strip-link").first().waitFor();
  await context.close();
  return reported;
}

async function listening(): Promise<string> {
  const { stdout } = server.child;
  if (stdout === null) throw new Error("its stdout is no pipe");
  const ended = once(server.child, "exit").then(() => {
    throw new Error("rkat serve ended before it listened");
  });
  const [line] = await Promise.race([once(stdout, "data"), ended]);
  const { url }: { url: string } = JSON.parse(String(line));
  return url;
}

/** Asks for an answer in a session's page, and gives the longest task of its main thread until the answer is there. */
async function longestTask(within: Browser, address: string): Promise<number> {
  const context = await within.newContext({ viewport: { width: 1_280, height: 900 } });
  const page = await context.newPage();
  await page.goto(address);
  await page.locator(".strip-link").first().waitFor();
  await page.getByLabel("Your message").fill("Describe the harbour.");
  await within.startTracing(page, { categories: ["toplevel"] });
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText(LAST_WORDS).last().waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  const trace: { traceEvents: readonly TraceEvent[] } = JSON.parse((await within.stopTracing()).toString("utf8"));
  await context.close();
  const isMain = ({ name, args }: TraceEvent) => name === "thread_name" && args?.name === "CrRendererMain";
  const threads = new Set(trace.traceEvents.filter(isMain).map(({ pid, tid }) => `${pid} ${tid}`));
  const tasks = trace.traceEvents.filter(({ pid, tid, tdur }) => tdur !== undefined && threads.has(`${pid} ${tid}`));
  return Math.max(...tasks.map(({ tdur = 0 }) => tdur / 1_000));
}

/** What a trace of the browser says of a task; `tdur` is its CPU time in microseconds. */
interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** A model server that streams 40 sections of Markdown, a word at a time. */
async function openStreamingModel(): Promise<string> {
  const section =
    "## Part\n\nA **quay** with `bollards` and [a link](https://example.org).\n\n| ship | tons |\n|---|---|\n| Ada | 12 |\n\n```ts\nconst depth = 7;\n```\n\n";
  const words = `${section.repeat(40)}${LAST_WORDS}`.split(/(?<= |\n)/);
  const model = createServer(async (request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (choice: object) => response.write(`data: ${JSON.stringify({ id: "c", choices: [choice] })}\n\n`);
    for (const content of words) {
      send({ index: 0, delta: { role: "assistant", content } });
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    send({ index: 0, delta: {}, finish_reason: "stop" });
    response.end("data: [DONE]\n\n");
  });
  model.listen(0, "127.0.0.1").unref();
  await once(model, "listening");
  return `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`; // It listens on TCP.
}
