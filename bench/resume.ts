// From the start of a process to the first request its model gets, for a stored session.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median, publish } from "./report.ts";

const RUNS = 15;
const WARM_UP_RUNS = 2;
const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "rkat-bench-resume-"));
const dist = join(root, "dist", "index.js");

/** Answers every request with one word, and says when it came. */
let onRequest: (atMs: number) => void = () => {};
const server = createServer((request, response) => {
  onRequest(performance.now());
  request.resume().on("end", () => {
    const frame = { choices: [{ index: 0, delta: { content: "ok" }, finish_reason: "stop" }] };
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`data: ${JSON.stringify(frame)}\n\ndata: [DONE]\n\n`);
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;

const PREPARE = `
  const { openRuntime, createScriptedModel } = await import(process.argv[1]);
  const [, , state, turns, url] = process.argv;
  const runtime = await openRuntime({ stateFolder: state, model: "openai/local", env: { OPENAI_BASE_URL: url } });
  const session = await runtime.createSession("Question number 0, if you please?");
  for (let turn = 1; turn < Number(turns); turn += 1) await session.turn("Question number " + turn + ", if you please?");
  const { messages } = await session.history();
  await runtime.close();
  console.log(JSON.stringify({ id: session.id, messages }));
`;
const RESUME = `
  const { openRuntime } = await import(process.argv[1]);
  const [, , state, id, url] = process.argv;
  const runtime = await openRuntime({ stateFolder: state, model: "openai/local", env: { OPENAI_BASE_URL: url } });
  await runtime.session(id).turn("And now?");
  await runtime.close();
`;
const BARE = `
  import { readFileSync } from "node:fs";
  const [, file, , url] = process.argv;
  const messages = JSON.parse(readFileSync(file, "utf8")).map(({ role, content, blocks }) =>
    role === "user" ? { role, content } : { role: "assistant", content: blocks.map((block) => block.data.text).join("") });
  messages.push({ role: "user", content: "And now?" });
  const body = JSON.stringify({ model: "local", stream: true, messages });
  const response = await fetch(url + "/chat/completions", { method: "POST", body, headers: { "content-type": "application/json" } });
  await response.text();
`;

try {
  const readings = [];
  for (const turns of [10, 1_000]) {
    const state = join(folder, `state-${turns}`);
    const prepared = await output([PREPARE, dist, state, String(turns), url]);
    const { id, messages } = JSON.parse(prepared);
    const file = join(folder, `${turns}.json`);
    writeFileSync(file, JSON.stringify(messages));
    const bare: number[] = [];
    const rkat: number[] = [];
    for (let run = 0; run < WARM_UP_RUNS + RUNS; run += 1) {
      bare.push(await firstRequestMs([BARE, file, "", url]));
      rkat.push(await firstRequestMs([RESUME, dist, state, id, url]));
    }
    readings.push({ turns, bare: median(bare.slice(WARM_UP_RUNS)), rkat: median(rkat.slice(WARM_UP_RUNS)) });
  }
  await publish({
    name: "resume",
    tables: [
      [
        ["turns stored", "bare script, ms", "rkat, ms", "rkat / bare"],
        ...readings.map(({ turns, bare, rkat }) => [
          String(turns),
          bare.toFixed(0),
          rkat.toFixed(0),
          (rkat / bare).toFixed(2),
        ]),
      ],
    ],
    targets: readings.slice(-1).map(({ bare, rkat }) => ({
      what: "start to first request, 1,000 turns, over a bare script",
      value: rkat / bare,
      max: 1.5,
    })),
    measured: readings,
  });
} finally {
  server.close();
  rmSync(folder, { recursive: true, force: true });
}

function run(args: readonly string[]) {
  const env = { ...process.env, NODE_COMPILE_CACHE: join(folder, "compiled") };
  const [program = "", ...rest] = args;
  const flags = ["--input-type=module", "-e", program, ...rest];
  return spawn(process.execPath, flags, { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
}

async function output(args: readonly string[]): Promise<string> {
  let text = "";
  for await (const chunk of run(args).stdout) text += chunk;
  return text;
}

async function firstRequestMs(args: readonly string[]): Promise<number> {
  const startedMs = performance.now();
  let arrivedMs: number | undefined;
  onRequest = (atMs) => {
    arrivedMs ??= atMs;
  };
  const child = run(args);
  await new Promise((resolve) => child.on("close", resolve));
  if (arrivedMs === undefined) throw new Error("no request came");
  return arrivedMs - startedMs;
}
