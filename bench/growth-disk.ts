import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { type GrowthRow, rowsOf } from "./growth-rows.ts";
import { inFolder, open, passage } from "./growth-stage.ts";
import { measureBytes } from "./memory-store-bytes.ts";

const TURNS_A_SESSION = 50;
const OVER_PAYLOAD_MAX = 3;
const ROUNDS_MAX = 50;

/** What so many turns take on the disk with everything on, for each byte that was said: by the user and by the model. */
export function measureDisk(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return rowsOf(sizes, (size) => inFolder((folder) => readDisk(folder, size)), {
    log: { what: "log/", unit: "bytes" },
    index: { what: "index.db", unit: "bytes" },
    texts: { what: "memory/, texts", unit: "bytes" },
    postings: { what: "memory/, words", unit: "bytes" },
    vectors: { what: "memory/, vectors", unit: "bytes" },
    rest: { what: "memory/, rest and what merging left", unit: "bytes" },
    events: { what: ".rkat/, events.jsonl", unit: "bytes" },
    files: { what: ".rkat/, the other files", unit: "bytes" },
    all: { what: "all of it", unit: "bytes", max: OVER_PAYLOAD_MAX },
  });
}

async function readDisk(folder: string, turns: number) {
  const runtime = await open(folder, ["session-store", "memory-store"]);
  let payload = 0;
  for (let first = 0; first < turns; first += TURNS_A_SESSION) {
    const session = await runtime.createSession();
    for (let turn = first; turn < first + TURNS_A_SESSION; turn += 1) {
      const asked = `${passage(turn * 2)} ${passage(turn * 7 + 1)}`;
      const { text } = await session.turn(asked);
      payload += Buffer.byteLength(asked) + Buffer.byteLength(text);
    }
  }
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    await runtime.searchMemory("anything");
    if ((await runtime.readMemoryStatus()).pending === 0) break;
  }
  await runtime.close();
  const memory = await measureBytes(join(folder, "memory"));
  const bytes = {
    log: bytesIn(join(folder, "log"), () => true),
    index: bytesIn(folder, (name) => name === "index.db"),
    texts: memory.texts,
    postings: memory.postings,
    vectors: memory.vectors + memory.signatures,
    rest: memory.rest + memory.free,
    events: bytesIn(join(folder, ".rkat"), (name) => name === "events.jsonl"),
    files: bytesIn(join(folder, ".rkat"), (name) => name !== "events.jsonl"),
  };
  const all = Object.values(bytes).reduce((sum, one) => sum + one, 0);
  const shares = Object.entries({ ...bytes, all }).map(([name, one]) => [name, one / payload]);
  // The names are those of the object it was made of.
  return Object.fromEntries(shares) as typeof bytes & { all: number };
}

function bytesIn(folder: string, isCounted: (name: string) => boolean): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && isCounted(entry.name))
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
