// Sends every surface what nobody should, and counts what became of it.
import { attackAcp } from "../test/hostile/acp.ts";
import { type Attack, type AttackOptions, GROWN_BYTES_MAX } from "../test/hostile/attack.ts";
import { attackCli } from "../test/hostile/cli.ts";
import { attackMcpHttp } from "../test/hostile/mcp-http.ts";
import { attackMcpStdio } from "../test/hostile/mcp-stdio.ts";
import { attackOpenAi } from "../test/hostile/openai.ts";
import { attackRest } from "../test/hostile/rest.ts";
import { attackRpc } from "../test/hostile/rpc.ts";
import { publish } from "./report.ts";

const INPUTS = Number(process.env.RKAT_HOSTILE_INPUTS ?? 20_000);
/** Of the command line's inputs, those that start a process of their own. */
const PROCESSES = Math.min(300, INPUTS);

const ATTACKS: Readonly<Record<string, (options: AttackOptions) => Promise<Attack>>> = {
  "JSON-RPC": attackRpc,
  REST: attackRest,
  "MCP, stdio": attackMcpStdio,
  "MCP, HTTP": attackMcpHttp,
  OpenAI: attackOpenAi,
  "Agent Client Protocol": attackAcp,
  "command line": (options) => attackCli({ ...options, processes: PROCESSES }),
};

const seed = Number(process.env.RKAT_SEED ?? Date.now() % 1_000_000);
const only = process.env.RKAT_HOSTILE_SURFACE;
const measured: ({ readonly surface: string; readonly seed: number; readonly secs: number } & Attack)[] = [];
for (const [surface, attack] of Object.entries(ATTACKS)) {
  if (only !== undefined && only !== surface) continue;
  const startedMs = performance.now();
  const result = await attack({ seed, inputs: INPUTS });
  measured.push({ surface, seed, secs: (performance.now() - startedMs) / 1_000, ...result });
  for (const fault of result.faults) console.error(`${surface}, seed ${seed}: ${fault}`);
}

const sum = (of: (one: (typeof measured)[number]) => number) => measured.reduce((all, one) => all + of(one), 0);
await publish({
  name: "hostile",
  tables: [
    [
      [`seed ${seed}`, "inputs", "faults", "leaked", "heap grown, MB", "s"],
      ...measured.map(({ surface, inputs, faults, leaked, grownBytes, secs }) => [
        surface,
        String(inputs),
        String(faults.length),
        String(leakedIn(leaked)),
        (grownBytes / 1e6).toFixed(1),
        secs.toFixed(0),
      ]),
    ],
    ...measured.map(({ surface, outcomes }) => [
      [surface, "inputs"],
      ...Object.entries(outcomes)
        .sort(([, one], [, other]) => other - one)
        .map(([outcome, count]) => [outcome, String(count)]),
    ]),
  ],
  targets: [
    { what: "wrong answers, crashes, hangs", value: sum(({ faults }) => faults.length), max: 0 },
    { what: "handles leaked", value: sum(({ leaked }) => leakedIn(leaked)), max: 0 },
    {
      what: "heap grown in the second half, MB",
      value: Math.max(...measured.map(({ grownBytes }) => grownBytes / 1e6)),
      max: GROWN_BYTES_MAX / 1e6,
    },
  ],
  measured,
});

function leakedIn(leaked: Readonly<Record<string, number>>): number {
  return Object.values(leaked).reduce((all, count) => all + count, 0);
}
