// What a turn and a search of memory cost when everything kept is sealed, beside the same without, in one process.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { newRealmKey } from "@rkat/node/sealed-realm";
import { median, publish } from "./report.ts";

const ROUNDS = Number(process.env.ROUNDS ?? 15);
const TURNS = 100;
const SEARCHES = 5;
const SENTENCE = "The harbour was teal that morning, and the boats had not come back from the reef yet. ";
const folder = mkdtempSync(join(tmpdir(), "rkat-bench-encryption-"));
const config = defaultConfig();
// Files for people are left out of both: a sealed realm has none.
const store = { ...config.store, files: false };
const memory = { ...config.memory, embedder: "hashing" as const };

async function open(name: string, encryption: typeof config.encryption) {
  const runtime = await openRuntime({
    env: { REALM_KEY: newRealmKey() },
    stateFolder: join(folder, name),
    config: { ...config, store, memory, encryption },
    model: createScriptedModel((_request, index) => ({ text: `${index}: ${SENTENCE.repeat(8)}` })),
  });
  return { name, runtime, turnMs: [] as number[], searchMs: [] as number[] };
}

const contenders = [await open("plain", {}), await open("sealed", { key_env: "REALM_KEY" })];

/** Of the processor, not of the clock: others may share the machine. */
async function cpuMs(times: number, work: (index: number) => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  for (let index = 0; index < times; index += 1) await work(index);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / times;
}

/** Both, in turn first: whoever is first pays for what both need. */
async function inRounds(rounds: number, work: (one: (typeof contenders)[number], round: number) => Promise<void>) {
  for (let round = 0; round <= rounds; round += 1)
    for (const one of round % 2 === 0 ? contenders : [...contenders].reverse()) await work(one, round);
}

await inRounds(ROUNDS, async ({ runtime, turnMs }, round) => {
  const session = await runtime.createSession(`Round ${round}. ${SENTENCE}`);
  const turn = await cpuMs(TURNS, (index) => session.turn(`${SENTENCE.repeat(4)} Number ${index}?`));
  if (round > 0) turnMs.push(turn);
});
// Behind all turns: what a search has embedded would be counted with them.
await inRounds(ROUNDS, async ({ runtime, searchMs }, round) => {
  const search = () => runtime.dispatch("searchHistory", { query: "teal harbour reef" });
  if (round > 0) searchMs.push(await cpuMs(SEARCHES, search));
  else await search();
});
for (const { runtime } of contenders) await runtime.close();
rmSync(folder, { recursive: true, force: true });

const [plain, sealed] = contenders.map(({ name, turnMs, searchMs }) => ({
  name,
  turnMs: median(turnMs),
  searchMs: median(searchMs),
}));
const ratio = (of: "turnMs" | "searchMs"): number => (sealed?.[of] ?? Number.NaN) / (plain?.[of] ?? Number.NaN);
const row = (name: string, turn: string, search: string) => [name, turn, search];

await publish({
  name: "encryption",
  tables: [
    [
      ["CPU", "a turn, ms", "a search, ms"],
      ...[plain, sealed].map((one) =>
        row(one?.name ?? "", one?.turnMs.toFixed(3) ?? "", one?.searchMs.toFixed(3) ?? ""),
      ),
      row("sealed / plain", ratio("turnMs").toFixed(2), ratio("searchMs").toFixed(2)),
    ],
  ],
  targets: [{ what: "CPU of a turn, sealed / plain", value: ratio("turnMs"), max: 1.1 }],
  measured: { plain, sealed, rounds: ROUNDS, turns: TURNS, searches: SEARCHES },
});
