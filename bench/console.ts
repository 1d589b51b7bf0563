// How soon a browser shows a session, and what it holds of it: 10, 1,000 and 10,000 messages, cold, each in a page of its own.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { median, publish } from "./report.ts";
import { createAsker, startServer } from "./server-process.ts";

const SIZES = [10, 1_000, 10_000];
const ROUNDS = Number(process.env.RKAT_CONSOLE_ROUNDS ?? 5);
const PAINT_MS_MAX = 1_000;

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-console-"));
const server = startServer("cli", ["serve", "--port", "0", "--json"], {
  cwd: folder,
  env: { RKAT_MODEL: "offline", RKAT_LOG: "off" },
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
  for (const size of SIZES) {
    const { session_id } = await ask("POST /sessions", { prompt: "Hi." });
    const selection = { type: "message_range", start: 0, end: 2 };
    const rewrite = { selection, replacement: messages(size), reason: { kind: "bench" } };
    await ask(`POST /sessions/${session_id}/rewrite-transcript`, rewrite);
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
    ],
    targets: rows.map(({ size, paintMs }) => ({
      what: `newest of ${size} messages painted, ms`,
      value: paintMs,
      max: PAINT_MS_MAX,
    })),
    measured: { rounds: ROUNDS, rows },
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
