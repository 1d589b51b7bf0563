// What `rkat watch` pays for a history of another program: CPU and memory by its size, and for looking at it again.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { publish } from "./report.ts";

const SIZES_MB = (process.env.MB ?? "8,40,200").split(",").map(Number);
/** Of a session: 500 of them are 200 MB. */
const SESSION_BYTES = 420_000;
const PROJECTS = 10;
const root = mkdtempSync(join(tmpdir(), "rkat-bench-imports-"));
const cli = join(import.meta.dirname, "../packages/rkat/dist/cli.js");

const WORDS =
  "the heron stands in cold water and waits for a fish while wind moves reeds build fails because port 8080 is taken so we changed config restarted server read file again and test passes now".split(
    " ",
  );

function prose(seed: number, words: number): string {
  let state = seed;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state;
  };
  return Array.from({ length: words }, () => {
    const at = next() >>> 8;
    return at % 11 === 0 ? `item${at % 5_000}` : (WORDS[at % WORDS.length] ?? "");
  }).join(" ");
}

/** A session as Claude Code writes it: questions, thoughts, calls with long results, and answers. */
function sessionText(number: number, project: string): string {
  const sessionId = `0199aaaa-bbbb-7ccc-8ddd-${number.toString(16).padStart(12, "0")}`;
  const lines: string[] = [];
  let bytes = 0;
  let parentUuid: string | null = null;
  const line = (type: string, message: object): void => {
    const at = lines.length;
    const uuid = `${sessionId}-${at}`;
    const timestamp = new Date(Date.UTC(2026, 0, 1 + (number % 300), 8, 0, at)).toISOString();
    const text = JSON.stringify({
      parentUuid,
      isSidechain: false,
      cwd: project,
      sessionId,
      uuid,
      timestamp,
      type,
      message,
    });
    parentUuid = uuid;
    bytes += text.length;
    lines.push(text);
  };
  for (let turn = 0; bytes < SESSION_BYTES; turn += 1) {
    const seed = number * 10_000 + turn * 10;
    const said = (content: object): void =>
      line("assistant", { id: `msg_${turn}`, role: "assistant", model: "claude-sonnet-5-5", content: [content] });
    line("user", { role: "user", content: prose(seed, 40) });
    said({ type: "thinking", thinking: prose(seed + 1, 80), signature: "c2ln" });
    const id = `toolu_${number}_${turn}`;
    said({ type: "tool_use", id, name: "Read", input: { file_path: `src/${prose(seed + 2, 1)}.ts` } });
    line("user", { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: prose(seed + 3, 700) }] });
    said({ type: "text", text: prose(seed + 4, 120) });
  }
  return `${lines.join("\n")}\n`;
}

function writeHistory(folder: string, megabytes: number): { readonly bytes: number; readonly sessions: number } {
  const sessions = Math.max(1, Math.round((megabytes * 1e6) / SESSION_BYTES));
  let bytes = 0;
  for (let number = 0; number < sessions; number += 1) {
    const project = join(folder, `project-${number % PROJECTS}`);
    const from = join(folder, "history", `project-${number % PROJECTS}`);
    mkdirSync(project, { recursive: true });
    mkdirSync(from, { recursive: true });
    const text = sessionText(number, project);
    bytes += text.length;
    writeFileSync(join(from, `0199aaaa-bbbb-7ccc-8ddd-${number.toString(16).padStart(12, "0")}.jsonl`), text);
  }
  return { bytes, sessions };
}

/** What rkat keeps of it, beside the history itself. */
function keptBytes(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const own = files
    .map((one) => join(one.parentPath, one.name))
    .filter((path) => !path.startsWith(`${folder}/history/`));
  return own.reduce((sum, path) => sum + statSync(path).size, 0);
}

interface Spent {
  readonly cpuMs: number;
  readonly peakMb: number;
}

/** One look at a history by the real command, with the CPU of all its threads and the most memory it held. */
async function watchOnce(folder: string): Promise<Spent> {
  const usage = join(root, "usage.json");
  const script = `process.on("exit", () => require("node:fs").writeFileSync(${JSON.stringify(usage)}, JSON.stringify(process.resourceUsage())))`;
  const preload = join(root, "preload.cjs");
  writeFileSync(preload, script);
  const child = spawn(process.execPath, ["--require", preload, cli, "watch", join(folder, "history"), "--once"], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`rkat watch ended with ${code}`);
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(readFileSync(usage, "utf8"));
  return { cpuMs: (userCPUTime + systemCPUTime) / 1_000, peakMb: maxRSS / 1_024 };
}

const rows: { megabytes: number; sessions: number; first: Spent; again: Spent; kept: number }[] = [];
for (const size of SIZES_MB) {
  const folder = mkdtempSync(join(root, "size-"));
  const { bytes, sessions } = writeHistory(folder, size);
  const first = await watchOnce(folder);
  const again = await watchOnce(folder);
  const kept = keptBytes(folder) / bytes;
  rows.push({ megabytes: bytes / 1e6, sessions, first, again, kept });
  rmSync(folder, { recursive: true });
}
rmSync(root, { recursive: true });

const smallest = rows[0];
const largest = rows.at(-1);
if (smallest === undefined || largest === undefined) throw new Error("MB: name a size");
await publish({
  name: "imports",
  tables: [
    [
      ["MB", "sessions", "CPU ms a MB", "most memory, MB", "looking again, CPU ms a MB", "bytes kept a byte read"],
      ...rows.map(({ megabytes, sessions, first, again, kept }) => [
        megabytes.toFixed(0),
        String(sessions),
        (first.cpuMs / megabytes).toFixed(0),
        first.peakMb.toFixed(0),
        (again.cpuMs / megabytes).toFixed(0),
        kept.toFixed(2),
      ]),
    ],
  ],
  targets: [
    {
      what: "most memory, the largest history over the smallest",
      value: largest.first.peakMb / smallest.first.peakMb,
      max: 1.5,
    },
    {
      what: "CPU a MB, the largest history over the smallest",
      value: largest.first.cpuMs / largest.megabytes / (smallest.first.cpuMs / smallest.megabytes),
      max: 1.2,
    },
  ],
  measured: { rows },
});
