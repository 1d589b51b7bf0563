// Measures rkat beside other projects and writes docs/compared-measured.md: npm run bench:peers. `--only NAME,…` takes these tables
// (their newest figures replace the kept ones), `--peers NAME,…` these projects and the floor; then nothing is kept.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openModelServer } from "../model-server.ts";
import { formatTable } from "../table.ts";
import { measureCompaction } from "./compaction.ts";
import type { Contender } from "./contenders.ts";
import { measureColdStart, measureConversation, measureCrowd, measureLong } from "./costs.ts";
import { install } from "./install.ts";
import { measureKiller } from "./killer.ts";
import { measureLostTurns } from "./lost-turns.ts";
import { keep, readKept } from "./page.ts";
import { PEERS } from "./peers.ts";
import { measureRecall } from "./recall.ts";
import type { MeasuredPeer, Table } from "./result.ts";

const TABLES = {
  "cold-start": measureColdStart,
  "lost-turns": measureLostTurns,
  killer: measureKiller,
  recall: measureRecall,
  compaction: measureCompaction,
  conversation: measureConversation,
  long: measureLong,
  crowd: measureCrowd,
};

const { values } = parseArgs({ options: { only: { type: "string" }, peers: { type: "string" } } });
const named = values.peers?.split(",");
const startedMs = performance.now();
const [load = 0] = loadavg();
const peers: MeasuredPeer[] = [];
const contenders: Contender[] = [];
for (const peer of PEERS.filter(({ name }) => named?.includes(name) ?? true)) {
  const { name, title, packages, memory, folder, note, survives, isDatabase, recalls, compacts, compactsNot } = peer;
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
  const given = { ...(recalls && { recalls }), ...(compacts && { compacts }), ...(compactsNot && { compactsNot }) };
  if (isDatabase && survives) {
    contenders.push({ name: title, title, peer: name, driver: installed.driver, keeps: true, survives, isDatabase });
    continue;
  }
  const contender = { title, peer: name, driver: installed.driver, ...given };
  contenders.push({ ...contender, name: folder === undefined ? title : `${title}, in memory`, keeps: false });
  if (folder !== undefined)
    contenders.push({ ...contender, name: `${title}, on disk`, keeps: true, ...(survives && { survives }) });
}

const tables: Table[] = [];
const commit = execFileSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).trim();
const server = await openModelServer();
try {
  for (const [name, measure] of Object.entries(TABLES)) {
    if (values.only !== undefined && !values.only.split(",").includes(name)) continue;
    const taking = contenders.filter((one) => name === "killer" || !one.isDatabase);
    const table = { ...(await measure(taking, server)), at: new Date().toISOString(), commit };
    tables.push(table);
    const notes = table.missing.map(([contender, reason]) => `not measured, ${contender}: ${reason}`);
    console.log(`\n# ${table.title}\n\n${formatTable([table.columns, ...table.rows])}\n${notes.join("\n")}`);
    // After each table, so that a run that is stopped leaves what it has.
    if (named === undefined) await keepAll();
  }
  // A run of no table writes the page again.
  if (named === undefined && tables.length === 0) await keepAll();
} finally {
  server.close();
}

async function keepAll(): Promise<void> {
  const earlier = await readKept().then(
    (kept) => kept.tables,
    () => [],
  );
  const newest = new Map([...earlier, ...tables].map((table) => [table.name, table]));
  await keep({
    command: "npm run bench:peers",
    minutes: Math.ceil((performance.now() - startedMs) / 60_000),
    machine: {
      node: process.version,
      arch: process.arch,
      cpus: availableParallelism(),
      cpu: cpus()[0]?.model ?? "unknown",
      load,
    },
    peers,
    tables: Object.keys(TABLES).flatMap((name) => newest.get(name) ?? []),
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
