import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { median, publish } from "./report.ts";

const RUNS = 21;
const WARM_UP_RUNS = 2;

const root = join(import.meta.dirname, "..");
const cli = join(root, "dist", "cli.js");
const run = promisify(execFile);

/** Programs of processes of their own. Watching what is loaded slows loading down, so time is taken without it. */
const IMPORT_AND_TIME = `
  const rssBytes = process.memoryUsage.rss();
  const startedMs = performance.now();
  await import("rkat");
  const ms = performance.now() - startedMs;
  console.log(JSON.stringify({ ms, rssBytes: process.memoryUsage.rss() - rssBytes }));
`;
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
  const [nothing = [], version = [], importing = []] = await interleave([
    ["-e", "0"],
    [cli, "--version"],
    ["--input-type=module", "-e", IMPORT_AND_TIME],
  ]);
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
        ["node dist/cli.js --version", versionMs.toFixed(1), (versionMs / nothingMs).toFixed(2)],
      ],
      [
        ['import("rkat")', ""],
        ["wall ms", importMs.toFixed(1)],
        ["RSS it adds, MB", (importBytes / 2 ** 20).toFixed(1)],
        ["modules loaded", String(urls.length)],
        ["packages loaded", packagesIn(urls).join(", ")],
      ],
    ],
    targets: [
      { what: "rkat --version over node -e 0", value: versionMs / nothingMs, max: 1.5 },
      { what: "provider packages loaded by the import", value: providersIn(urls).length, max: 0 },
    ],
    measured: { nothingMs, versionMs, importMs, importBytes, urls },
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
async function interleave(commands: readonly (readonly string[])[]): Promise<readonly (readonly Run[])[]> {
  const runs: Run[][] = commands.map(() => []);
  for (let round = 0; round < WARM_UP_RUNS + RUNS; round += 1) {
    for (const [index, args] of commands.entries()) {
      const startedMs = performance.now();
      const { stdout } = await run(process.execPath, args, { cwd: root });
      if (round >= WARM_UP_RUNS) runs[index]?.push({ wallMs: performance.now() - startedMs, stdout });
    }
  }
  return runs;
}

function packagesIn(urls: readonly string[]): readonly string[] {
  const names = urls.flatMap((url) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  return [...new Set(names)];
}

function providersIn(urls: readonly string[]): readonly string[] {
  return packagesIn(urls).filter((name) => name.startsWith("@ai-sdk/") || name === "ai");
}
