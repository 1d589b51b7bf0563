import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import type { Runtime, RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import type { OpenOptions } from "@rkat/node/open-runtime";
import { Option } from "commander";
import { type Call, command } from "./command-row.ts";
import {
  badCall,
  budget,
  createLongTalk,
  createPage,
  createWatch,
  longLife,
  type Page,
  parallelTools,
  type Row,
  retry,
  type Scene,
  type Stage,
  structuredOutput,
  talk,
} from "./demo-scenes.ts";
import { alignColumns, counted, type Io, writeJson } from "./io.ts";
import type { Invocation } from "./parts.ts";

interface DemoFlags {
  readonly fast?: boolean;
  readonly json?: boolean;
}

export const demoRow = command("demo", {
  text: "Watch what it does, without a key or a network. It plays the whole story: sessions, compaction, recall, undo, an agent's memory, and failures. Nothing is left behind, and its claims are checked while it plays.",
  flags: () => [
    new Option("--fast", "do not pause; the default where stdout is not a terminal"),
    new Option("--json", "print what was shown and which claims held, as JSON, at the end"),
  ],
  examples: [
    ["rkat demo", "a minute to watch"],
    ["rkat demo --fast | less -R", "to read at your own pace"],
    ["rkat demo --json | jq .ok", "for scripts"],
  ],
  notes: [["Exit codes", "0 every claim held · 1 one did not"]],
  run: async ({ invocation, flags }: Call<DemoFlags>) => invocation.exitWith(await playDemo(invocation, flags)),
});

interface Played {
  readonly title: string;
  readonly shown: unknown[];
  readonly claims: { readonly claim: string; readonly held: boolean }[];
}

async function playDemo({ io, parts }: Invocation, { fast, json }: DemoFlags): Promise<number> {
  const page = json ? createPage(missed(io), false) : createPage(io, io.stdout.isTerminal && fast !== true);
  const stateFolder = await mkdtemp(join(tmpdir(), "rkat-demo-"));
  const { createRuntime } = await import("@rkat/core/create-runtime");
  const { loadConfig } = await import("@rkat/node/config/load-config");
  const opened: Runtime[] = [];
  const played: Played[] = [];
  // The user's configuration and environment must not change the demo.
  const setting = { env: {}, clock: createDemoClock() };
  const kept = async <T extends Runtime>(runtime: T | Promise<T>): Promise<T> => {
    const ready = await runtime;
    opened.push(ready);
    return ready;
  };
  const open = (model: NonNullable<RuntimeOptions["model"]>) => kept(createRuntime({ ...setting, model }));
  const defaults = await loadConfig({
    ...setting,
    cwd: stateFolder,
    home: stateFolder,
    readFile: async () => undefined,
  });
  // The quickest embedder: how long a better one takes to load would decide what the first search finds.
  const config: Config = { ...defaults.config, memory: { ...defaults.config.memory, embedder: "hashing" } };
  let keeping: Runtime | undefined;
  const openKept = async (options: Pick<OpenOptions, "compaction"> = {}): Promise<Runtime> => {
    // One at a time: what is opened anew has only what the one before left on disk.
    await keeping?.close();
    keeping = await kept(parts.openRuntime({ ...setting, ...options, config, model: "offline", stateFolder }));
    return keeping;
  };
  try {
    const runtime = await open("offline");
    const openScripted: Stage["openScripted"] = async (script) => open(await parts.createScriptedModel(script));
    for (const [index, scene] of scenes().entries()) {
      const scenePlayed: Played = { title: scene.title, shown: [], claims: [] };
      played.push(scenePlayed);
      await announce(page, scene, index + 1);
      await scene.play({ runtime, openScripted, openKept, watch: createWatch(page), ...showing(page, scenePlayed) });
    }
  } finally {
    page.endLine();
    for (const runtime of opened.toReversed()) await runtime.close();
    await rm(stateFolder, { recursive: true, force: true });
  }
  const claims = played.flatMap((scene) => scene.claims);
  const broken = claims.filter(({ held }) => !held).length;
  if (json) writeJson(io, { ok: broken === 0, claims: claims.length, broken, scenes: played });
  for (const line of closingLines(claims.length, broken)) await page.line(line);
  return broken === 0 ? 0 : 1;
}

function scenes(): readonly Scene[] {
  return [talk, ...createLongTalk(), longLife, parallelTools, badCall, retry, budget, structuredOutput];
}

async function announce(page: Page, { title, story }: Scene, number: number): Promise<void> {
  await page.line();
  await page.line(page.paint.bold(`${number}  ${title}`));
  await page.paragraph(story, 3, page.paint.dim);
}

type Showing = Pick<Stage, "show" | "table" | "print" | "claim">;

function showing(page: Page, played: Played): Showing {
  const { green, red, dim } = page.paint;
  return {
    show: (value) => {
      played.shown.push(value);
      return page.paragraph(`result  ${JSON.stringify(value)}`, 2);
    },
    table: async (rows) => {
      played.shown.push(rows);
      const [head = "", ...lines] = tableLines(rows);
      await page.line(dim(`  ${head}`));
      for (const line of lines) await page.line(`  ${line}`);
    },
    print: async (word, sentence) => {
      if (word !== "") played.shown.push({ [word]: sentence });
      page.speaker(word);
      await page.say(sentence);
      page.endLine();
    },
    claim: async (claim, held) => {
      played.claims.push({ claim, held });
      await page.line(held ? `  ${green("✓")} ${claim}` : `  ${red("✗ not so:")} ${claim}`);
    },
  };
}

function tableLines(rows: readonly Row[]): readonly string[] {
  const titles = Object.keys(rows[0] ?? {});
  const cells = rows.map((row) => titles.map((title) => String(row[title])));
  return alignColumns([titles.map((title) => title.toUpperCase()), ...cells]);
}

/** An output that discards everything. */
function missed(io: Io): Io {
  return { ...io, stdout: { isTerminal: false, columns: undefined, write: () => {} } };
}

/** Ids and randomness are fixed, so that two runs are the same. */
function createDemoClock(): ReturnType<typeof createSystemClock> {
  let count = 0;
  return {
    ...createSystemClock(),
    random: () => 0.5,
    newId: () => {
      count += 1;
      return `00000000-0000-7000-8000-${String(count).padStart(12, "0")}`;
    },
  };
}

function closingLines(claims: number, broken: number): readonly string[] {
  const verdict =
    broken === 0 ? `All ${counted(claims, "claim")} held.` : `${broken} of ${claims} claims did not hold.`;
  return [
    "",
    verdict,
    "",
    "Try next:",
    '  rkat "what time is it?" --model offline    your own words, without a key',
    "  rkat chat --agent ada --model offline      an agent that remembers you",
    "  rkat doctor                                what works, and what is missing",
    '  git diff | rkat "review this change"       with a model that has a key',
  ];
}
