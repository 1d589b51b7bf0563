import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { defaultConfig } from "@rkat/core/config/settings";
import { createScriptedModel, openRuntime } from "@rkat/node";
import { AT_REST_MS } from "@rkat/node/log/at-rest";
import { type GrowthRow, rowsOf } from "./growth-rows.ts";
import { createFreeEmbedder, createTalker, type Features, inFolder, passage } from "./growth-stage.ts";
import { measureBytes } from "./memory-store-bytes.ts";

const TURNS_A_SESSION = 50;
const ROUNDS_MAX = 1_000;
/** Files are compressed in the background, some seconds after the folder is opened. */
const REST_MS = 8_000;
const FEATURES: Features = ["session-store", "memory-store"];
const CONTEXT_WINDOW = 100_000_000;

/** Talk of some 500 bytes a turn. */
export function measureTalk(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return measureDisk(sizes, false, 5);
}

/** Turns with two calls of a tool whose outputs were recorded, of some 3 KB each. */
export function measureWork(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return measureDisk(sizes, true, 4);
}

/** What so many turns take on the disk a week later, vectors included, for each byte that was said: by the user, the model and tools. */
function measureDisk(sizes: readonly number[], isWork: boolean, max: number): Promise<readonly GrowthRow[]> {
  return rowsOf(sizes, (size) => inFolder((folder) => readDisk(folder, size, isWork)), {
    log: { what: "log/", unit: "bytes" },
    index: { what: "index.db", unit: "bytes" },
    texts: { what: "memory/, texts", unit: "bytes" },
    postings: { what: "memory/, words", unit: "bytes" },
    vectors: { what: "memory/, vectors", unit: "bytes" },
    rest: { what: "memory/, rest and what merging left", unit: "bytes" },
    events: { what: ".rkat/, events.jsonl.gz", unit: "bytes" },
    files: { what: "the other files", unit: "bytes" },
    all: { what: "all of it", unit: "bytes", max },
  });
}

async function readDisk(folder: string, turns: number, isWork: boolean) {
  const open = () =>
    openRuntime({
      stateFolder: folder,
      model: isWork ? createWorker() : createTalker(CONTEXT_WINDOW),
      toolPreset: "none",
      tools: isWork ? [{ name: "look", description: "Looks.", inputSchema: {}, execute: outputs() }] : [],
      env: {},
      config: { ...defaultConfig(), features: FEATURES },
      memory: { embedder: createFreeEmbedder() },
    });
  // As long ago as it takes sessions to come to rest.
  const { now } = Date;
  Date.now = () => now() - AT_REST_MS;
  const runtime = await open();
  let payload = 0;
  for (let first = 0; first < turns; first += TURNS_A_SESSION) {
    const session = await runtime.createSession();
    for (let turn = first; turn < first + TURNS_A_SESSION; turn += 1) {
      const asked = `${passage(turn * 2)} ${passage(turn * 7 + 1)}`;
      payload += Buffer.byteLength(asked);
      for await (const event of session.stream(asked)) {
        if (event.type === "text_complete") payload += Buffer.byteLength(event.content);
        if (event.type === "tool_call_requested") payload += Buffer.byteLength(JSON.stringify(event.args));
        if (event.type === "tool_result_received") payload += Buffer.byteLength(JSON.stringify(event.content));
      }
    }
  }
  await runtime.close();
  Date.now = now;
  // No session is in use any more: all of them get their vectors, and their events are compressed.
  const later = await open();
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    await later.searchMemory("anything");
    if ((await later.readMemoryStatus()).pending === 0) break;
  }
  await setTimeout(REST_MS);
  await later.close();
  const memory = await measureBytes(join(folder, "memory"));
  const bytes = {
    log: bytesIn(join(folder, "log"), () => true),
    index: bytesIn(folder, (name) => name === "index.db"),
    texts: memory.texts,
    postings: memory.postings,
    vectors: memory.vectors + memory.signatures,
    rest: memory.rest + memory.free,
    events: bytesIn(join(folder, ".rkat"), (name) => name.startsWith("events.jsonl")),
  };
  const isCounted = (name: string): boolean =>
    !/^(?:index|memory)\.db$|\.(?:log|rows|bits)$|^events\.jsonl/u.test(name);
  const parts = { ...bytes, files: bytesIn(folder, isCounted) };
  const all = Object.values(parts).reduce((sum, one) => sum + one, 0);
  const shares = Object.entries({ ...parts, all }).map(([name, one]) => [name, one / payload]);
  // The names are those of the object it was made of.
  return Object.fromEntries(shares) as typeof parts & { all: number };
}

/** Looks twice, then answers. */
function createWorker() {
  let said = 0;
  return createScriptedModel(
    (_, index) =>
      index % 3 === 2
        ? { text: passage(said++ * 2 + 1) }
        : {
            text: "Let me look.",
            calls: [{ name: "look", args: { path: `src/part-${index}.ts`, from: 1, lines: 200 } }],
          },
    { contextWindow: CONTEXT_WINDOW },
  );
}

const RECORDED = ["debugging", "incident", "refactoring", "months", "data-analysis"];

/** Outputs of tools that were recorded, one after the other. */
function outputs(): () => string {
  const texts = RECORDED.flatMap((name) => {
    const lines = readFileSync(join(import.meta.dirname, "logs", `${name}.jsonl`), "utf8")
      .trim()
      .split("\n");
    return lines.flatMap((line): string[] => {
      const { body } = JSON.parse(line);
      return body.kind === "tool_results" ? body.message.results.map(textOf) : [];
    });
  });
  let next = 0;
  return () => `${texts[next % texts.length] ?? ""}\n${next++}`;
}

function textOf({ content }: { readonly content: unknown }): string {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map(({ text = "" }) => text).join("\n") : "";
}

function bytesIn(folder: string, isCounted: (name: string) => boolean): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && isCounted(entry.name))
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
