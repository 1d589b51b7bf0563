// What a new process pays for the first request of a stored session, by how long the session is, at the same context.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EntryBody } from "@rkat/core/contract/entry";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { median, publish } from "./report.ts";

const RUNS = Number(process.env.RUNS ?? 15);
const WARM_UP_RUNS = 2;
const LENGTHS = (process.env.TURNS ?? "21,100,1000,10000").split(",").map(Number);
/** Turns that are had with a model, at the beginning and at the end. */
const TURNS_LIVED = 21;
const COMPACTED_EVERY = 50;
const TAIL_SEQS = 20;
const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "rkat-bench-resume-"));
const dist = join(root, "build/packed/node_modules/@rkat/node/dist/index.js");

/** Answers every request with a sentence, and says when it came. */
let onRequest: (atMs: number) => void = () => {};
const server = createServer((request, response) => {
  onRequest(performance.now());
  request.resume().on("end", () => {
    const content = "It is as it was before, and nothing has to be done about it today.";
    const frame = { choices: [{ index: 0, delta: { content }, finish_reason: "stop" }] };
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`data: ${JSON.stringify(frame)}\n\ndata: [DONE]\n\n`);
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;

/** With its defaults, but that memory goes by words: what vectors cost is measured elsewhere. */
const OPEN = `
  const { openRuntime } = await import(process.argv[1]);
  const [, , state] = process.argv;
  const url = process.argv.at(-1);
  const runtime = await openRuntime({ stateFolder: state, model: "openai/local", env: { OPENAI_BASE_URL: url }, memory: { embedder: undefined } });
`;
const BEGIN = `${OPEN}
  const session = await runtime.createSession("Question number 0, if you please?");
  for (let turn = 1; turn < 8; turn += 1) await session.turn("Question number " + turn + ", if you please?");
  await session.compact();
  await runtime.close();
  console.log(session.id);
`;
/** Each length ends with the same: a compaction, and a few turns. */
const END = `${OPEN}
  const session = runtime.session(process.argv[3]);
  for (let turn = 0; turn < 8; turn += 1) await session.turn("What came of number " + turn + "?");
  await session.compact();
  for (let turn = 0; turn < 5; turn += 1) await session.turn("And then, at last, number " + turn + "?");
  const { messages } = await session.context();
  await runtime.close();
  console.log(JSON.stringify(messages));
`;
/** Bytes that are read of the log are counted where the store reads them. */
const RESUME = `
  import fs from "node:fs";
  import { syncBuiltinESMExports } from "node:module";
  let bytes = 0;
  const logs = new Set();
  const { openSync, readSync } = fs;
  fs.openSync = (path, ...rest) => {
    const fd = openSync(path, ...rest);
    if (String(path).includes("/log/")) logs.add(fd);
    return fd;
  };
  fs.readSync = (fd, ...rest) => {
    const read = readSync(fd, ...rest);
    if (logs.has(fd)) bytes += read;
    return read;
  };
  syncBuiltinESMExports();
  ${OPEN}
  const opened = process.cpuUsage();
  await runtime.session(process.argv[3]).turn("And now?");
  const asked = process.cpuUsage();
  await runtime.close();
  const closed = process.cpuUsage();
  const ms = ({ user, system }) => (user + system) / 1000;
  console.log(JSON.stringify({ opened: ms(opened), asked: ms(asked), closed: ms(closed), bytes }));
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
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify({ opened: 0, asked: (user + system) / 1000, closed: (user + system) / 1000, bytes: 0 }));
`;

interface Reading {
  readonly opened: number;
  readonly asked: number;
  readonly closed: number;
  readonly bytes: number;
  readonly wallMs: number;
}

try {
  const sessions = [];
  for (const turns of LENGTHS) {
    const state = join(folder, `state-${turns}`);
    const id = (await output([BEGIN, dist, state, url])).trim();
    await lengthen(state, id, turns - TURNS_LIVED);
    const messages = JSON.parse(await output([END, dist, state, id, url]));
    const file = join(folder, `${turns}.json`);
    writeFileSync(file, JSON.stringify(messages));
    sessions.push({ turns, state, id, file, messages: messages.length, bare: [], kept: [], whole: [] as Reading[] });
  }
  const readings = sessions.map((session) => ({ ...session, bare: [] as Reading[], kept: [] as Reading[] }));
  // Each length in its turn, so that whatever else the machine does meets all of them.
  for (let run = 0; run < WARM_UP_RUNS + RUNS; run += 1) {
    for (const { state, id, file, bare, kept, whole } of readings) {
      bare.push(await firstRequest([BARE, file, "", url]));
      const copy = join(folder, "copy");
      cpSync(state, copy, { recursive: true });
      kept.push(await firstRequest([RESUME, dist, copy, id, url]));
      rmSync(copy, { recursive: true });
      // The same as before there were checkpoints: none is there, and the whole log is read.
      cpSync(state, copy, { recursive: true });
      rmSync(join(copy, "checkpoints"), { recursive: true, force: true });
      whole.push(await firstRequest([RESUME, dist, copy, id, url]));
      rmSync(copy, { recursive: true });
    }
  }
  const middle = (all: readonly Reading[], of: keyof Reading): number =>
    median(all.slice(WARM_UP_RUNS).map((reading) => reading[of]));
  const rows = readings.map(({ turns, messages, bare, kept, whole }) => ({
    turns,
    messages,
    bare: middle(bare, "asked"),
    bareWall: middle(bare, "wallMs"),
    opened: middle(kept, "opened"),
    kept: middle(kept, "asked"),
    keptClosed: middle(kept, "closed"),
    keptWall: middle(kept, "wallMs"),
    keptBytes: middle(kept, "bytes"),
    whole: middle(whole, "asked"),
    wholeClosed: middle(whole, "closed"),
    wholeBytes: middle(whole, "bytes"),
  }));
  const [shortest] = rows;
  const longest = rows.at(-1);
  if (shortest === undefined || longest === undefined) throw new Error("nothing was measured");
  const n = (value: number, digits = 0): string => value.toFixed(digits);
  await publish({
    name: "resume",
    tables: [
      [
        [
          "turns",
          "messages shown",
          "bare script",
          "rkat opened",
          "first request",
          "closed",
          "by the whole log",
          "closed",
        ],
        ...rows.map((row) => [
          String(row.turns),
          String(row.messages),
          `${n(row.bare)} ms CPU`,
          n(row.opened),
          n(row.kept),
          n(row.keptClosed),
          n(row.whole),
          n(row.wholeClosed),
        ]),
      ],
      [
        [
          "turns",
          "log read, KB",
          "of the whole log, KB",
          `CPU over that of ${shortest.turns} turns`,
          "whole log: the same",
          "wall, over a bare script",
        ],
        ...rows.map((row) => [
          String(row.turns),
          n(row.keptBytes / 1_024),
          n(row.wholeBytes / 1_024),
          n(row.kept / shortest.kept, 2),
          n(row.whole / shortest.whole, 2),
          n(row.keptWall / row.bareWall, 2),
        ]),
      ],
    ],
    targets: [
      {
        what: `CPU to the first answer, ${longest.turns} turns over ${shortest.turns}, at the same context`,
        value: longest.kept / shortest.kept,
        max: 1.3,
      },
    ],
    measured: rows,
  });
} finally {
  server.close();
  rmSync(folder, { recursive: true, force: true });
}

/** Adds turns like its first, and compactions like its own, without anyone being asked. */
async function lengthen(state: string, id: string, turns: number): Promise<void> {
  const store = await openEmbeddedStore(state);
  const entries = await store.log.read(id, 1, Number.MAX_SAFE_INTEGER);
  const bodies = entries.map(({ body }) => body);
  const closed = bodies.findIndex(({ kind }) => kind === "turn_closed");
  const turn = bodies.slice(1, closed + 1);
  const compacted = bodies.find((body) => body.kind === "compacted");
  if (compacted === undefined) throw new Error("the session was not compacted");
  const summary = compacted.shows.filter((part) => !("from_seq" in part));
  let last = entries.at(-1);
  const add = async (added: readonly EntryBody[]): Promise<void> => {
    last = (await store.log.append(id, (last?.seq ?? 0) + (last?.span ?? 0) - 1, toNewEntries(added))).at(-1);
  };
  for (let made = 0; made < turns; made += 1) {
    await add(turn);
    const to_seq = last?.seq ?? 0;
    const shows = [...summary, { from_seq: to_seq - TAIL_SEQS, to_seq }];
    if (made % COMPACTED_EVERY === 0) await add([{ ...compacted, compaction_id: randomUUID(), shows }]);
  }
  await store.close();
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

async function firstRequest(args: readonly string[]): Promise<Reading> {
  const startedMs = performance.now();
  let arrivedMs: number | undefined;
  onRequest = (atMs) => {
    arrivedMs ??= atMs;
  };
  const reported = JSON.parse(await output(args));
  if (arrivedMs === undefined) throw new Error("no request came");
  return { ...reported, wallMs: arrivedMs - startedMs };
}
