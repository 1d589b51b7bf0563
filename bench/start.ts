import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { MODEL, openModelServer } from "./model-server.ts";
import { median, publish } from "./report.ts";

const RUNS = 21;
const WARM_UP_RUNS = 2;

const root = join(import.meta.dirname, "..");
const cli = join(root, "packages/rkat/dist/cli.js");
const run = promisify(execFile);

/** Programs of processes of their own. Watching what is loaded slows loading down, so time is taken without it. */
const IMPORT_AND_TIME = `
  const rssBytes = process.memoryUsage.rss();
  const startedMs = performance.now();
  await import("rkat");
  const ms = performance.now() - startedMs;
  console.log(JSON.stringify({ ms, rssBytes: process.memoryUsage.rss() - rssBytes }));
`;
/** CPU that the import takes, and the opening of a folder that is there; a process that does nothing is not counted. */
const IMPORT_AND_OPEN = `
  const msOf = ({ user, system }) => (user + system) / 1000;
  const begun = process.cpuUsage();
  const { openRuntime } = await import("rkat");
  const importMs = msOf(process.cpuUsage(begun));
  const runtime = await openRuntime({ stateFolder: process.argv[1], model: "offline", env: {} });
  const openMs = msOf(process.cpuUsage(begun)) - importMs;
  await runtime.close();
  console.log(JSON.stringify({ importMs, openMs }));
`;
/** The least that asks a model once and shows what it answers. */
const BARE = `
  const response = await fetch(process.argv[1] + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "${MODEL}", stream: true, messages: [{ role: "user", content: "Is it in the book?" }] }),
  });
  process.stdout.write(await response.text());
`;
/** Says at the end of a process, behind all else, what CPU it took from its start. */
const TELL_CPU = `data:text/javascript,${encodeURIComponent(`process.on("exit", () => {
  const { user, system } = process.cpuUsage();
  process.getBuiltinModule("node:fs").writeSync(1, " " + (user + system) / 1000);
});`)}`;
const IMPORT_AND_LIST = `
  import { registerHooks } from "node:module";
  const urls = [];
  registerHooks({ load: (url, context, next) => (urls.push(url), next(url, context)) });
  await import("rkat");
  console.log(JSON.stringify(urls.filter((url) => url.startsWith("file:"))));
`;

if (existsSync(cli)) await measure();
else console.log(`\n# start\n\nskipped: ${cli} is not there; build it with \`npm run build\`\n`);

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bench-start-"));
  const server = await openModelServer();
  const env = { PATH: process.env.PATH, HOME: folder, OPENAI_BASE_URL: server.baseUrl };
  const script = (program: string, ...args: readonly string[]) => ["--input-type=module", "-e", program, ...args];
  const state = join(folder, "state");
  const commands = [
    ["-e", "0"],
    [cli, "--version"],
    script(IMPORT_AND_TIME),
    script(IMPORT_AND_OPEN, state),
    ["--import", TELL_CPU, ...script(BARE, server.baseUrl)],
    [
      "--import",
      TELL_CPU,
      cli,
      "run",
      "Is it in the book?",
      "-m",
      `openai/${MODEL}`,
      "-t",
      "none",
      "--state-root",
      state,
    ],
  ];
  const runs = await interleave(commands, env).finally(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });
  const [nothing = [], version = [], importing = [], opening = [], bare = [], running = []] = runs;
  const opens = opening.map(({ stdout }): { importMs: number; openMs: number } => JSON.parse(stdout));
  const cpu = {
    importMs: median(opens.map(({ importMs }) => importMs)),
    openMs: median(opens.map(({ openMs }) => openMs)),
    bareMs: median(bare.map(lastNumber)),
    runMs: median(running.map(lastNumber)),
  };
  const nothingMs = median(nothing.map(({ wallMs }) => wallMs));
  const versionMs = median(version.map(({ wallMs }) => wallMs));
  const imports = importing.map(({ stdout }): Import => JSON.parse(stdout));
  const importMs = median(imports.map(({ ms }) => ms));
  const importBytes = median(imports.map(({ rssBytes }) => rssBytes));
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", IMPORT_AND_LIST], { cwd: root });
  const urls: readonly string[] = JSON.parse(stdout);
  await publish({
    name: "start",
    tables: [
      [
        ["whole process", "wall ms", "× node -e 0"],
        ["node -e 0", nothingMs.toFixed(1), "1.00"],
        ["rkat --version", versionMs.toFixed(1), (versionMs / nothingMs).toFixed(2)],
      ],
      [
        ['import("rkat")', ""],
        ["wall ms", importMs.toFixed(1)],
        ["RSS it adds, MB", (importBytes / 2 ** 20).toFixed(1)],
        ["modules loaded", String(urls.length)],
        ["packages loaded", packagesIn(urls).join(", ")],
      ],
      [
        ["CPU", "ms"],
        ['import("rkat")', cpu.importMs.toFixed(1)],
        ["and openRuntime of a folder", cpu.openMs.toFixed(1)],
        ["a script that asks a model once by fetch, whole process", cpu.bareMs.toFixed(1)],
        ["rkat run, whole process", cpu.runMs.toFixed(1)],
      ],
    ],
    targets: [
      { what: "rkat --version over node -e 0", value: versionMs / nothingMs, max: 1.5 },
      { what: "CPU ms of import and opening a folder", value: cpu.importMs + cpu.openMs, max: 80 },
      { what: "CPU of rkat run over a bare script", value: cpu.runMs / cpu.bareMs, max: 2 },
      { what: "provider packages loaded by the import", value: providersIn(urls).length, max: 0 },
    ],
    measured: { nothingMs, versionMs, importMs, importBytes, cpu, urls },
  });
}

interface Import {
  readonly ms: number;
  readonly rssBytes: number;
}

interface Run {
  readonly wallMs: number;
  readonly stdout: string;
}

/** Takes turns, so that what else the machine does meets everyone alike. */
async function interleave(
  commands: readonly (readonly string[])[],
  env: NodeJS.ProcessEnv,
): Promise<readonly (readonly Run[])[]> {
  const runs: Run[][] = commands.map(() => []);
  for (let round = 0; round < WARM_UP_RUNS + RUNS; round += 1) {
    for (const [index, args] of commands.entries()) {
      const startedMs = performance.now();
      const ended = run(process.execPath, args, { cwd: root, env });
      // A command reads what is piped in to its end.
      ended.child.stdin?.end();
      const { stdout } = await ended;
      if (round >= WARM_UP_RUNS) runs[index]?.push({ wallMs: performance.now() - startedMs, stdout });
    }
  }
  return runs;
}

function lastNumber({ stdout }: Run): number {
  return Number(stdout.slice(stdout.lastIndexOf(" ")));
}

function packagesIn(urls: readonly string[]): readonly string[] {
  const names = urls.flatMap((url) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  return [...new Set(names)];
}

function providersIn(urls: readonly string[]): readonly string[] {
  return packagesIn(urls).filter((name) => name.startsWith("@ai-sdk/") || name === "ai");
}
