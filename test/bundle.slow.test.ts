import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { rolldown } from "rolldown";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
/** Every process that a test starts has it in its environment, and so has what that starts. */
const MARK = `RKAT_BUNDLE_TEST=${process.pid}`;

/** Uses everything that has a thread or a process of its own, and writes one line for each time it is run. */
const PROGRAM = `
  import { appendFileSync } from "node:fs";
  import { createScriptedModel, openRuntime } from "rkat";
  const { STATE: stateFolder, RUNS } = process.env;
  appendFileSync(RUNS, process.pid + "\\n");
  const warnings = [];
  const long = "All of this was said while the kettle boiled and the rain went on. ".repeat(200);
  const model = createScriptedModel(({ outputSchema }) => ({
    text: outputSchema === undefined ? "They keep notes." : outputSchema.required ? '{"code":"AB-12"}' : '{"code":"' + "A".repeat(40) + '"}',
  }));
  const runtime = await openRuntime({
    stateFolder,
    model,
    env: {},
    warn: (sentence) => warnings.push(sentence),
    compaction: { autoCompactThreshold: 500_000, recentTurnBudget: 1 },
  });
  const session = await runtime.createSession("The freezer stays at -18 degrees. " + long, { enableMemory: true });
  for (let turn = 0; turn < 10; turn += 1) await session.turn("Turn " + turn + ". " + long);
  const code = { type: "string", pattern: "^[A-Z]{2}-[0-9]{2}$" };
  const typed = await runtime.createSession("Which code?", {
    outputSchema: { type: "object", properties: { code }, required: ["code"] },
  });
  const endless = { type: "string", pattern: "^([A-Z]+-?)*[.]$" };
  const slow = await runtime
    .createSession("Which code?", {
      structuredOutputRetries: 0,
      outputSchema: { type: "object", properties: { code: endless } },
    })
    .then(({ lastResult }) => lastResult.extractionError.reason);
  const { compacted } = await session.compact();
  const { results } = await runtime.searchMemory("freezer", { everything: true });
  const { embedder } = await runtime.readMemoryStatus();
  const { receipt } = await runtime.forget({ queryExact: "-18 degrees" });
  await runtime.close();
  const found = results.length > 0;
  console.log(JSON.stringify({ warnings, compacted, typed: typed.structuredOutput, slow, found, embedder, matches: receipt.scan.matches }));
`;

/** Starts the package's own server, which a bundle must not take itself for. */
const CLIENT = `
  import { appendFileSync } from "node:fs";
  import { connect } from "rkat/client";
  const { STATE: cwd, RUNS } = process.env;
  appendFileSync(RUNS, process.pid + "\\n");
  const client = await connect({ args: ["--isolated"], cwd }).catch(({ message }) => console.log(message));
  console.log((await client?.createSession("What is 2 + 3?", { model: "offline" }))?.text);
  await client?.close();
`;

/** Each writes a program as one file, and what it cannot put into it beside that. */
const BUNDLERS = {
  esbuild: async (input: string, folder: string) => {
    const outfile = join(folder, basename(input));
    await build({
      entryPoints: [input],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      logLevel: "error",
    });
  },
  rolldown: async (input: string, dir: string) => {
    const bundle = await rolldown({ input, platform: "node", logLevel: "silent" });
    await bundle.write({
      dir,
      format: "esm",
      codeSplitting: false,
      entryFileNames: "[name].mjs",
      chunkFileNames: "[name].mjs",
    });
    await bundle.close();
  },
};

let folder: string;
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "rkat-bundle-")));
  install("project", ["rkat", "@rkat"]);
  install("installed", ["rkat", "@rkat"]);
  install("addon-alone", ["fs-native-extensions"]);
  writeFileSync(join(folder, "project/program.mjs"), PROGRAM);
  writeFileSync(join(folder, "project/client.mjs"), CLIENT);
});
afterEach(async () => {
  for (const pid of marked()) process.kill(pid, "SIGKILL");
});
afterAll(() => rmSync(folder, { recursive: true }));

function install(name: string, packages: readonly string[]): void {
  mkdirSync(join(folder, name, "node_modules"), { recursive: true });
  for (const one of packages) {
    const from = one.includes("rkat") ? "build/packed/node_modules" : "node_modules";
    symlinkSync(join(root, from, one), join(folder, name, "node_modules", one));
  }
}

/** The processes of these tests that run. */
function marked(): readonly number[] {
  const isMarked = (path: string): boolean => {
    try {
      return readFileSync(path, "latin1").split("\0").includes(MARK);
    } catch {
      return false; // It has ended meanwhile, or is somebody else's.
    }
  };
  return globSync("/proc/[0-9]*/environ")
    .filter(isMarked)
    .map((path) => Number(path.split("/")[2]));
}

/** Runs a bundle to its end; what it printed, how often it was run, and which processes are left a while later. */
async function run(file: string, name: string) {
  const [state, runs] = [join(folder, `${name}-state`), join(folder, `${name}-runs`)];
  mkdirSync(state, { recursive: true });
  // Without the `rkat-rpc` of this repository, which npm puts on the path.
  const env = { PATH: "/usr/bin:/bin", HOME: folder, STATE: state, RUNS: runs, RKAT_BUNDLE_TEST: String(process.pid) };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], { env }).catch((failed) => failed);
  await expect.poll(marked, { timeout: 60_000 }).toEqual([]);
  return { stdout, stderr, runs: readFileSync(runs, "utf8").trim().split("\n").length };
}

describe.skipIf(!existsSync("/proc"))("a bundled program", () => {
  for (const [bundler, bundle] of Object.entries(BUNDLERS)) {
    const bundled = async (program: string, place: string): Promise<string> => {
      const made = join(folder, "project", bundler, program);
      if (!existsSync(made)) await bundle(join(folder, "project", `${program}.mjs`), made);
      const copy = join(folder, place, bundler, program);
      cpSync(made, copy, { recursive: true });
      return join(copy, `${program}.mjs`);
    };

    it(`[G10] by ${bundler} is run once, and does everything where the package is installed`, async () => {
      const { stdout, stderr, runs } = await run(await bundled("program", "installed"), `${bundler}-installed`);
      expect([stderr, runs]).toEqual(["", 1]);
      expect(JSON.parse(stdout)).toEqual({
        warnings: [],
        compacted: true,
        typed: { code: "AB-12" },
        slow: expect.stringContaining("it took longer than 2 seconds"),
        found: true,
        embedder: expect.stringMatching(/^gte-small-int8/),
        matches: 0,
      });
    });

    it(`[G10] by ${bundler} is run once without the package, and does what it can, with one warning`, async () => {
      const { stdout, stderr, runs } = await run(await bundled("program", "addon-alone"), `${bundler}-alone`);
      expect([stderr, runs]).toEqual(["", 1]);
      expect(JSON.parse(stdout)).toEqual({
        warnings: [
          expect.stringMatching(
            /^the package @rkat\/\w+ cannot be found from this bundle; memory is searched by words/,
          ),
        ],
        compacted: true,
        typed: { code: "AB-12" },
        slow: expect.stringContaining("it took longer than 2 seconds"),
        found: true,
        embedder: "none",
        matches: 0,
      });
    });

    it(`[G10] by ${bundler} says in a sentence that it cannot lock a folder without its addon`, async () => {
      const { stdout, stderr, runs } = await run(await bundled("program", "bare"), `${bundler}-bare`);
      expect([stdout, runs]).toEqual(["", 1]);
      expect(stderr).toContain("a state folder cannot be used: fs-native-extensions cannot be loaded");
    });

    it(`[G10] by ${bundler} starts the package's server, and not itself`, async () => {
      const installed = await run(await bundled("client", "installed"), `${bundler}-client`);
      expect(installed).toEqual({ stdout: "2 + 3 = 5\n", stderr: "", runs: 1 });
      const bare = await run(await bundled("client", "bare"), `${bundler}-client-bare`);
      expect(bare).toMatchObject({ stdout: expect.stringContaining("cannot start rkat-rpc"), runs: 1 });
    });
  }

  it("[G10] under Deno is told in a sentence that a folder cannot be kept", async () => {
    const script = `globalThis.Deno = {};
      const { openRuntime } = await import(${JSON.stringify(join(root, "build/packed/node_modules/@rkat/node/dist/index.js"))});
      await openRuntime({ stateFolder: process.argv[1], model: "offline", env: {} }).catch(({ code, message }) =>
        console.log(code, message));`;
    const args = ["--input-type=module", "-e", script, join(folder, "deno")];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(stdout).toMatch(
      /^CAPABILITY_UNAVAILABLE a state folder cannot be used: Deno .*; run the program with Node\n$/,
    );
  });
});
