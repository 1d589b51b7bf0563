import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ERRORS } from "@rkat/core/contract/error";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { runCommandLine } from "rkat/command-line";
import type { Io } from "rkat/io";
import type { Parts } from "rkat/parts";
import { below, chance, pick } from "../compaction/chances.ts";
import { createRandom } from "../crash/random.ts";
import { type Attack, type AttackOptions, answered, createScore, handles, heapBytes, leakedSince } from "./attack.ts";
import { type Draw, nasty, toJson } from "./inputs.ts";

/** The parts of the real command; servers are not started, since they would serve until somebody stops them. */
const PARTS: Parts = {
  openRuntime,
  verifyStore,
  runOwnCommand: async () => ({ kind: "not_started", reason: "nobody types here" }),
  self: async () => [process.execPath],
  loadConformance: async () => {
    throw new Error("scenarios are not told here");
  },
  serve: async () => 0,
  createScriptedModel: async (script) => createScriptedModel(script),
  findLocalServers: async () => [],
  inspectModels: async () => ({
    providers: [],
    chooseDefault: async () => ({ provider: "offline", modelId: "offline" }),
  }),
};
const DOOR = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");
const ENV = { RKAT_MODEL: "offline", NO_COLOR: "1" };
/** Weights that every search would load for itself are not what is attacked. */
const CONFIGURATION = '[memory]\nembedder = "hashing"\n';

interface Line {
  readonly args: readonly string[];
  readonly input: Uint8Array | undefined;
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Words with something wrong in them, to the command line: in this process, and the last `processes` in their own. */
export async function attackCli({
  seed,
  inputs,
  processes,
}: AttackOptions & { readonly processes: number }): Promise<Attack> {
  const before = handles();
  const root = mkdtempSync(join(tmpdir(), "rkat-hostile-"));
  // A path that leads out of it leads into a folder that is ours, too.
  const cwd = join(root, "a", "b", "c", "d");
  mkdirSync(cwd, { recursive: true });
  for (const folder of [root, cwd]) writeFileSync(join(folder, "rkat.toml"), CONFIGURATION);
  // Whoever types a command may read every folder it names.
  const score = createScore("nothing is to be kept from whoever types");
  const sessions = ["last", "~1"];
  const draw: Draw = { random: createRandom(seed), sessions };
  try {
    const linesOf = await createLines(draw, (args) => runHere(cwd, { args, input: undefined }));
    let middleBytes = 0;
    for (let at = 0; at < inputs; at += 1) {
      const args = FAILED_ONCE[at];
      const line = args === undefined ? linesOf() : { args, input: undefined };
      const isOwn = at >= inputs - processes;
      const work = isOwn ? runInProcess(cwd, line) : runHere(cwd, line);
      const ended = await answered(work, () => JSON.stringify(line.args));
      score.count(judge(line, ended, (sentence) => score.fault(sentence, JSON.stringify(line.args))));
      score.check({ text: `${ended.stdout}${ended.stderr}` }, JSON.stringify(line.args));
      if (at === inputs >> 1) middleBytes = await heapBytes();
    }
    const grownBytes = (await heapBytes()) - middleBytes;
    const good = await runHere(cwd, { args: ["run", "What is 2 + 3?", "-m", "offline"], input: undefined });
    if (good.code !== 0) score.fault(`a good command ended with ${good.code}: ${good.stderr}`, "rkat run");
    const { outcomes, faults } = score;
    return { inputs, outcomes, faults, grownBytes, leaked: await leakedSince(before) };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function runHere(cwd: string, { args, input }: Line): Promise<Ended> {
  let stdout = "";
  let stderr = "";
  const text = (written: string | Uint8Array) =>
    typeof written === "string" ? written : Buffer.from(written).toString();
  const io: Io = {
    args,
    env: ENV,
    cwd,
    home: cwd,
    version: "1.2.3",
    nodeVersion: "24.0.0",
    stdin: {
      kind: input === undefined ? "none" : "stream",
      read: async function* () {
        if (input !== undefined) yield input;
      },
      terminal: () => {
        throw new Error("there is no terminal");
      },
    },
    stdout: { isTerminal: false, columns: undefined, write: (written) => (stdout += text(written)) },
    stderr: { isTerminal: false, columns: undefined, write: (written) => (stderr += text(written)) },
    interrupt: new AbortController().signal,
  };
  const code = await runCommandLine(io, PARTS);
  return { code, stdout, stderr };
}

function runInProcess(cwd: string, { args, input }: Line): Promise<Ended> {
  const child = spawn(process.execPath, [DOOR, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: cwd, ...ENV },
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  child.stdin?.on("error", () => {}); // A command that refuses its input closes it early.
  child.stdin?.end(input);
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (data) => {
    stdout += data;
  });
  child.stderr?.on("data", (data) => {
    stderr += data;
  });
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
}

/** Commands that take a second, or a port, each time. */
const LEFT_OUT = ["demo", "serve", "rpc", "mcp", "conformance"];

/** Lines that once ended with a defect: they come first in every attack. */
const FAILED_ONCE: readonly (readonly string[])[] = [
  ["restore", "--to", "last", JSON.stringify(Array.from({ length: 1_000 }, (_, index) => index))],
  ["backup", "verify", "/etc/passwd"],
];

/** Flags that have a command go on until somebody stops it. */
const FOLLOWS = ["-f", "--follow"];

/** Makes command lines of the words that the help of each command shows. */
async function createLines(draw: Draw, run: (args: readonly string[]) => Promise<Ended>): Promise<() => Line> {
  const { random } = draw;
  const commands: { readonly words: readonly string[]; readonly flags: readonly string[] }[] = [];
  const read = async (words: readonly string[]): Promise<void> => {
    const { stdout } = await run([...words, "--help"]);
    const flags = [...stdout.matchAll(/(?<=^ {2}|, )--?[a-z][\w-]*/gm)]
      .map(([flag]) => flag)
      .filter((flag) => !FOLLOWS.includes(flag));
    commands.push({ words, flags });
    const [, list = ""] = words.length === 0 ? ["", stdout] : stdout.split("\nCommands\n");
    const names = [...list.matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name = ""]) => name);
    if (words.length < 2) for (const name of names) if (!LEFT_OUT.includes(name)) await read([...words, name]);
  };
  await read([]);
  const everyFlag = commands.flatMap(({ flags }) => flags);
  const word = (): string => {
    if (chance(random, 0.5))
      return pick(random, [...draw.sessions, "Hello.", "ada", "1", "12", "a=b", "30s", "{}"]) ?? "";
    const value = nasty(draw);
    // No process can be handed a zero byte.
    return (typeof value === "object" ? toJson(value) : String(value)).slice(0, 20_000).replaceAll("\0", "");
  };
  return () => {
    const { words, flags } = pick(random, commands) ?? { words: [], flags: [] };
    const args = [...words];
    for (let more = below(random, 5); more > 0; more -= 1) {
      if (chance(random, 0.5)) args.push(word());
      else args.push(...flagWith(pick(random, chance(random, 0.8) ? flags : everyFlag) ?? "--", word, random));
    }
    if (chance(random, 0.05)) args.splice(below(random, args.length + 1), 0, pick(random, STRAY) ?? "");
    const input = chance(random, 0.2) ? Buffer.from(word().slice(0, 4_000), "latin1") : undefined;
    return { args, input };
  };
}

const STRAY = [
  "--",
  "-",
  "--=",
  "---",
  "-ojson",
  "--json",
  "--events",
  "--no-such-flag",
  "--__proto__",
  "-zzz",
  "\u0007",
];

function flagWith(flag: string, word: () => string, random: () => number): readonly string[] {
  switch (below(random, 4)) {
    case 0:
      return [flag];
    case 1:
      return [`${flag}=${word()}`];
    default:
      return [flag, word()];
  }
}

const EXITS: ReadonlySet<number> = new Set(Object.values(ERRORS).map(({ exit }) => exit));
/** The store cannot be where there is no place for it, and the place is the user's to choose. */
const PLACES = /^--(?:state-root|context-root|user-config-root)/;

function judge({ args }: Line, { code, stdout, stderr }: Ended, fault: (sentence: string) => void): string {
  if (code === 0) return "answered";
  const isPlaced = args.some((arg) => PLACES.test(arg));
  const isDefect = code === ERRORS.INTERNAL_ERROR.exit || (code === ERRORS.SESSION_STORE_ERROR.exit && !isPlaced);
  if (code === null || !EXITS.has(code) || isDefect) fault(`ended with ${code}: ${stderr.slice(-300)}`);
  const isJson = stdout.startsWith('{\n  "error"');
  if (stderr.trim() === "" && !isJson) fault(`ended with ${code} and said nothing`);
  return `exit ${code}`;
}
