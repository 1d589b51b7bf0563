import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { writeMeasured } from "./measured.ts";

/** One after the other: benches that share the machine measure each other. */
const BENCHES = [
  "start.ts",
  "overhead.ts",
  "permission.ts",
  "hooks.ts",
  "terminal.ts",
  "append.ts",
  "encryption.ts",
  "resume.ts",
  "imports.ts",
  "list.ts",
  "inboxes.ts",
  "growth.ts",
  "blocks.ts",
  "compaction.ts",
  "compaction-loop.ts",
  "compaction-redo.ts",
  "compaction-due.ts",
  "memory-store.ts",
  "recall.ts",
  "tiers.ts",
  "surfaces.ts",
  "openai-memory.ts",
  "operator.ts",
  "load.ts",
  "hostile.ts",
  "crash.ts",
  "durability.ts",
  "postgres.ts",
  "console-size.ts",
  "console.ts",
];

for (const bench of BENCHES) {
  const args = [join(import.meta.dirname, bench), ...process.argv.slice(2)];
  const [exitCode] = await once(spawn(process.execPath, args, { stdio: "inherit" }), "exit");
  if (exitCode !== 0) process.exitCode = 1;
}
await writeMeasured();
