// Measures rkat beside other projects and writes docs/compared-measured.md: npm run bench:peers. `--only NAME,…` takes these tables
// (their newest figures replace the kept ones), `--peers NAME,…` these projects and the floor; then nothing is kept.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openModelServer } from "../model-server.ts";
import { formatTable } from "../table.ts";
import type { Contender } from "./contenders.ts";
import { measureColdStart, measureConversation, measureCrowd, measureLong } from "./costs.ts";
import { install } from "./install.ts";
import { measureKiller } from "./killer.ts";
import { measureLostTurns } from "./lost-turns.ts";
import { keep, readKept } from "./page.ts";
import { PEERS } from "./peers.ts";
import type { MeasuredPeer, Table } from "./result.ts";

const TABLES = {
  conversation: measureConversation,
  crowd: measureCrowd,
  "cold-start": measureColdStart,
  long: measureLong,
  "lost-turns": measureLostTurns,
  killer: measureKiller,
};

const { values } = parseArgs({ options: { only: { type: "string" }, peers: { type: "string" } } });
const named = values.peers?.split(",");
const startedMs = performance.now();
const peers: MeasuredPeer[] = [];
const contenders: Contender[] = [];
for (const peer of PEERS.filter(({ name }) => named?.includes(name) ?? true)) {
  const { name, title, packages, memory, folder, note, survives } = peer;
  console.log(`installing ${title}`);
  const installed = await install(peer);
  const problem = "missing" in installed ? installed.missing : installed.problem;
  peers.push({
    title,
    versions: versionsOf(name, packages),
    memory,
    ...(folder !== undefined && { folder }),
    ...(note !== undefined && { note }),
    ...(problem !== undefined && { problem }),
  });
  if ("missing" in installed) continue;
  const { driver } = installed;
  contenders.push({ name: folder === undefined ? title : `${title}, in memory`, peer: name, driver, keeps: false });
  if (folder !== undefined)
    contenders.push({ name: `${title}, on disk`, peer: name, driver, keeps: true, ...(survives && { survives }) });
}

const tables: Table[] = [];
const server = await openModelServer();
try {
  for (const [name, measure] of Object.entries(TABLES)) {
    if (values.only !== undefined && !values.only.split(",").includes(name)) continue;
    const table = await measure(contenders, server);
    tables.push(table);
    const notes = table.missing.map(([contender, reason]) => `not measured, ${contender}: ${reason}`);
    console.log(`\n# ${table.title}\n\n${formatTable([table.columns, ...table.rows])}\n${notes.join("\n")}`);
  }
} finally {
  server.close();
}
if (named === undefined) {
  const earlier = values.only === undefined ? [] : (await readKept()).tables;
  const newest = new Map([...earlier, ...tables].map((table) => [table.name, table]));
  await keep({
    at: new Date().toISOString(),
    commit: execFileSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).trim(),
    command: "npm run bench:peers",
    minutes: Math.ceil((performance.now() - startedMs) / 60_000),
    machine: {
      node: process.version,
      arch: process.arch,
      cpus: availableParallelism(),
      cpu: cpus()[0]?.model ?? "unknown",
    },
    peers,
    tables: [...newest.values()],
  });
}

function versionsOf(name: string, packages: Readonly<Record<string, string>>): string {
  if (name === "rkat") {
    const manifest = join(import.meta.dirname, "../../packages/rkat/package.json");
    return `${JSON.parse(readFileSync(manifest, "utf8")).version}, as published`;
  }
  const all = Object.entries(packages).filter(([packageName]) => packageName !== "zod");
  return all.length === 0 ? `Node ${process.version}` : all.map(([id, version]) => `${id} ${version}`).join(", ");
}
