import { createInMemoryStore, type HookOptions, type HookPoint } from "@rkat/node";
import { type Contender, converse } from "./conversation.ts";
import { openModelServer } from "./model-server.ts";
import { median, publish } from "./report.ts";
import { createRkat } from "./rkat.ts";

/**
 * What an observer at every point of the wire costs a turn of one tool call, in CPU of the same run. A machine that does
 * something else moves each reading by more than that: rounds are short and many, everybody comes in every place of a
 * round, and turns without hooks are measured twice, so that what is noise is seen beside what is measured.
 */
const TURNS = 8;
const ROUNDS = 240;
const WARM_UP_ROUNDS = 24;

const POINTS: readonly HookPoint[] = [
  "run_started",
  "run_completed",
  "run_failed",
  "pre_llm_request",
  "post_llm_response",
  "pre_tool_execution",
  "post_tool_execution",
  "turn_boundary",
];

/** Where what a tool gave is observed: the longest of what hooks are told. */
const RESULTS = POINTS.indexOf("post_tool_execution");

let calls = 0;
const observers = POINTS.map(
  (point): HookOptions => ({
    id: `see-${point}`,
    point,
    run: () => {
      calls += 1;
      return undefined;
    },
  }),
);

interface Measured {
  readonly contender: Contender;
  /** Of a round, by turn. */
  readonly cpuMs: number[];
  readonly appends: number[];
}

function measured(baseUrl: string, name: string, hooks?: readonly HookOptions[]): Measured {
  const store = createInMemoryStore();
  const counted = { ...store, log: { ...store.log } };
  const appends: number[] = [];
  counted.log.append = (...given) => {
    appends.push((appends.pop() ?? 0) + 1);
    return store.log.append(...given);
  };
  return { contender: createRkat(baseUrl, { name, store: counted, ...(hooks && { hooks }) }), cpuMs: [], appends };
}

async function measure({ contender, cpuMs, appends }: Measured): Promise<void> {
  appends.push(0);
  const before = process.cpuUsage();
  await converse(contender, TURNS);
  const { user, system } = process.cpuUsage(before);
  cpuMs.push((user + system) / 1_000 / TURNS);
}

/** Of one round each: what the machine does meanwhile, it does to both. */
function over(one: readonly number[], other: readonly number[]): readonly number[] {
  return one.map((value, round) => value / (other[round] ?? value));
}

/** The middle of values and how far it may be off: half of what two thirds of such middles lie within. */
function middle(values: readonly number[]): { readonly value: number; readonly give: number } {
  const value = median(values);
  const deviation = median(values.map((one) => Math.abs(one - value))) * 1.4826;
  return { value, give: (1.2533 * deviation) / Math.sqrt(values.length) };
}

const server = await openModelServer();
try {
  const without = measured(server.baseUrl, "without hooks");
  const again = measured(server.baseUrl, "without hooks, again", []);
  const one = measured(server.baseUrl, "one observer, of what tools give", observers.slice(RESULTS, RESULTS + 1));
  const observed = measured(server.baseUrl, "an observer at eight points", observers);
  const all = [without, again, one, observed];
  // Each comes in every place, and before and after each other.
  const orders = all.flatMap((_, at) => {
    const turned = [...all.slice(at), ...all.slice(0, at)];
    return [turned, turned.toReversed()];
  });
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    for (const next of orders[round % orders.length] ?? all) await measure(next);
  }
  for (const { cpuMs, appends } of all) {
    cpuMs.splice(0, WARM_UP_ROUNDS);
    appends.splice(0, WARM_UP_ROUNDS);
  }
  const floor = without.cpuMs.map((cpuMs, round) => (cpuMs + (again.cpuMs[round] ?? cpuMs)) / 2);
  const rows = [
    { of: without, ratio: middle(over(without.cpuMs, again.cpuMs)), to: "again" },
    { of: again, ratio: middle(over(again.cpuMs, without.cpuMs)), to: "the first" },
    { of: one, ratio: middle(over(one.cpuMs, floor)), to: "both" },
    { of: observed, ratio: middle(over(observed.cpuMs, floor)), to: "both" },
  ];
  await publish({
    name: "hooks",
    tables: [
      [
        ["turn", "CPU ms", "least", "over", "", "give or take", "appends"],
        ...rows.map(({ of: { contender, cpuMs, appends }, ratio: { value, give }, to }) => [
          contender.name,
          median(cpuMs).toFixed(3),
          Math.min(...cpuMs).toFixed(3),
          value.toFixed(3),
          to,
          give.toFixed(3),
          (median(appends) / TURNS).toFixed(2),
        ]),
      ],
    ],
    targets: [
      { what: "CPU of a turn, one observer over none", value: median(over(one.cpuMs, floor)), max: 1.02 },
      { what: "CPU of a turn, eight observers over none", value: median(over(observed.cpuMs, floor)), max: 1.08 },
      { what: "appends of a turn, observed over not", value: median(over(observed.appends, without.appends)), max: 1 },
    ],
    measured: { calls, rounds: all.map(({ contender: { name }, cpuMs }) => ({ name, cpuMs })) },
  });
} finally {
  server.close();
}
