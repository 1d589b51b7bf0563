import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Row, Scene, Stage } from "@rkat/conformance/demo-scenes";
import type { Config } from "@rkat/core/config/config-schema";
import { describeEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { Runtime, RuntimeOptions } from "@rkat/core/create-runtime";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { OpenOptions } from "@rkat/node/open-runtime";
import { Option } from "commander";
import { type Call, command } from "./command-row.ts";
import { noticeOf } from "./commands/turn-view.ts";
import { alignColumns, counted, createPaint, type Io, oneLine, type Paint, writeJson } from "./io.ts";
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
  const { demoScenes } = await import("@rkat/conformance/demo-scenes");
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
    for (const [index, scene] of demoScenes().entries()) {
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

/** Writes the demo at a pace one can follow, in a column that fits the terminal. */
interface Page {
  readonly paint: Paint;
  readonly columns: number;
  line(text?: string): Promise<void>;
  /** Writes a text in as many lines as it needs, indented; `brush` paints each. */
  paragraph(text: string, indent: number, brush?: (line: string) => string): Promise<void>;
  /** Begins a line with who speaks; what is said follows with `say`. */
  speaker(name: string): void;
  /** Adds to the line, wrapped between words. */
  say(words: string): Promise<void>;
  endLine(): void;
}

const COLUMNS_MAX = 80;
const COLUMNS_MIN = 40;
const SPEAKER_COLUMNS = 10;
const WORD_MS = 15;
const LINE_MS = 250;

function createPage(io: Io, isPaced: boolean): Page {
  const paint = createPaint(io.stdout, io.env);
  const columns = Math.min(COLUMNS_MAX, Math.max(COLUMNS_MIN, io.stdout.columns ?? COLUMNS_MAX));
  const pause = async (ms: number): Promise<void> => {
    if (isPaced) await sleep(ms, undefined, { signal: io.interrupt });
    else io.interrupt.throwIfAborted();
  };
  let column = 0;
  const breakLine = (): void => {
    io.stdout.write(`\n${" ".repeat(SPEAKER_COLUMNS)}`);
    column = SPEAKER_COLUMNS;
  };
  const put = (word: string): void => {
    if (word === "\n") {
      breakLine();
      return;
    }
    if (column + word.length > columns && column > SPEAKER_COLUMNS) breakLine();
    const shown = column === SPEAKER_COLUMNS ? word.trimStart() : word;
    io.stdout.write(shown);
    column += shown.length;
  };
  const endLine = (): void => {
    if (column > 0) io.stdout.write("\n");
    column = 0;
  };
  const line = async (text = ""): Promise<void> => {
    endLine();
    io.stdout.write(`${text}\n`);
    await pause(text === "" ? 0 : LINE_MS);
  };
  return {
    paint,
    columns,
    endLine,
    line,
    paragraph: async (text, indent, brush = (each) => each) => {
      for (const each of wrapped(text, columns - indent)) await line(brush(`${" ".repeat(indent)}${each}`));
    },
    speaker: (name) => {
      endLine();
      io.stdout.write(paint.bold(`  ${name}`.padEnd(SPEAKER_COLUMNS)));
      column = SPEAKER_COLUMNS;
    },
    say: async (words) => {
      for (const word of withoutControls(words).match(/\n|[^\S\n]+\S*|\S+/gu) ?? []) put(word);
      await pause(WORD_MS);
    },
  };
}

/** The lines of a text, broken between words; a word that is longer than a line has one of its own. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function createWatch(page: Page): Stage["watch"] {
  return async (prompt, start) => {
    page.speaker("you");
    for (const word of prompt.match(/(?<!\s)\s*\S+/gu) ?? []) await page.say(word);
    page.endLine();
    const stream = start(prompt);
    const events: AgentEvent[] = [];
    for await (const event of stream) {
      await showEvent(page, event, events.at(-1));
      events.push(event);
    }
    page.endLine();
    return { events, result: await stream.result };
  };
}

async function showEvent(page: Page, event: AgentEvent, before: AgentEvent | undefined): Promise<void> {
  const { dim, yellow } = page.paint;
  if (event.type === "text_delta") {
    if (before?.type !== "text_delta") page.speaker("model");
    return page.say(event.delta);
  }
  const indent = "          ";
  const line = toolLine(event);
  if (line !== undefined) return page.line(dim(`${indent}${oneLine(line, page.columns - indent.length)}`));
  if (event.type === "compaction_completed") return page.line(dim(`${indent}${describeEvent(event).text}`));
  const notice = noticeOf(event);
  if (notice !== undefined) return page.line(yellow(`${indent}! ${notice}`));
}

function toolLine(event: AgentEvent): string | undefined {
  if (event.type === "tool_call_requested") return `→ ${event.name} ${JSON.stringify(event.args)}`;
  if (event.type === "tool_execution_started") return `… ${event.name} started`;
  if (event.type !== "tool_execution_completed") return undefined;
  return `← ${event.name} ${event.is_error ? "failed" : "answered"}: ${event.result}`;
}
