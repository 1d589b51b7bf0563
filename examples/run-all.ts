// Runs every example; one that fails its own assertions fails the run.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const folder = import.meta.dirname;
const examples = readdirSync(folder).filter((name) => /^\d\d-.*\.ts$/.test(name));
for (const name of examples) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [name], { cwd: folder, encoding: "utf8" });
  console.log(`${status === 0 ? "ok    " : "FAILED"} examples/${name}`);
  if (status === 0) continue;
  console.log(stdout + stderr);
  process.exitCode = 1;
}
