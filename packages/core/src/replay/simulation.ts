import type { Entry } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { Cost, ModelPrices } from "../contract/money.ts";
import type {
  Figures,
  Policy,
  ReplayMark,
  SimulatedRun,
  Simulation,
  Specifics,
  SummariesBy,
} from "../contract/wire/simulation.ts";
import type { ModelClient } from "../ports/model.ts";
import { type Probe, probesOf } from "../runtime/probes.ts";
import { foldSession } from "../state/whole-state.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { isEviction, type Replayed, type ReplayOptions, replayLog } from "./replay.ts";
import { scriptOf } from "./replay-script.ts";

export interface SimulatedLog {
  readonly name: string;
  readonly entries: readonly Entry[];
  /** Asked before the probes made from the log. */
  readonly probes?: readonly Probe[] | undefined;
}

export interface SimulationOptions<P extends Policy = Policy> {
  readonly logs: readonly SimulatedLog[];
  readonly policies: readonly P[];
  readonly summariesBy: SummariesBy;
  readonly summariser: ModelClient;
  /** The known facts of a recorded model. */
  modelOf(model: string): { readonly prices?: ModelPrices | undefined; readonly contextWindow?: number | undefined };
  compose(policy: P, parts: Parameters<ReplayOptions["compose"]>[0]): ReturnType<ReplayOptions["compose"]>;
  /** Replays all logs as if they had used this model. */
  readonly model?: string | undefined;
  readonly signal: AbortSignal;
  progress(done: number, total: number, what: string): void;
}

/** Replays every log under every policy, deterministically. */
export async function simulate<P extends Policy>(options: SimulationOptions<P>): Promise<Simulation> {
  const { policies, signal, summariesBy, summariser } = options;
  const logs: Simulation["logs"][number][] = [];
  const runs: SimulatedRun[] = [];
  const total = options.logs.length * policies.length;
  for (const { name, entries, probes: given } of options.logs) {
    const recorded = scriptOf(entries, name);
    const script = { ...recorded, model: options.model ?? recorded.model };
    const probes = [...(given ?? []), ...(await probesOf(foldSession(name, entries).transcript))];
    const { prices, contextWindow } = options.modelOf(script.model);
    const turns = script.steps.filter(({ kind }) => kind === "turn").length;
    const { model, calls, notes } = script;
    logs.push({ name, model, calls, turns, is_priced: prices !== undefined, notes });
    for (const policy of policies) {
      options.progress(runs.length, total, `${name} with ${policy.name}`);
      const replayed = await replayLog({
        name,
        script,
        probes,
        prices,
        contextWindow,
        summariesBy,
        summariser,
        signal,
        compose: (parts) => options.compose(policy, parts),
      });
      const context = replayed.calls.map(({ usage }) => usage.input_tokens);
      runs.push({ log: name, policy: policy.name, ...figuresOf(replayed), context, marks: replayed.marks });
    }
  }
  options.progress(total, total, "done");
  return {
    summaries: summariesBy,
    policies: policies.map(({ name, settings }) => ({ name, settings })),
    logs,
    runs,
    sums: policies.map(({ name }) => ({ policy: name, ...sumOf(runs.filter(({ policy }) => policy === name)) })),
  };
}

function figuresOf({ calls, summaryUsage, summaryCalls, entries, marks, probes }: Replayed): Figures {
  const usage = calls.map((call) => call.usage).reduce(addUsage, NO_USAGE);
  const compacted = entries.flatMap(({ body }) => (body.kind === "compacted" ? [body] : []));
  const waited = calls.filter((call) => call.waited).length;
  const marked = (kind: ReplayMark["kind"]): number => marks.filter((mark) => mark.kind === kind).length;
  return {
    calls: calls.length,
    input_tokens: usage.input_tokens,
    cached_tokens: usage.cache_read_tokens ?? 0,
    output_tokens: usage.output_tokens,
    summary_calls: summaryCalls,
    summary_input_tokens: summaryUsage.input_tokens,
    summary_output_tokens: summaryUsage.output_tokens,
    ...costOf(usage, summaryUsage),
    compactions: marked("compaction"),
    evictions: marked("eviction"),
    failed: marked("failed"),
    summaries: compacted.filter((body) => !isEviction(body) && body.summary_by !== "none").length,
    waited,
    waited_share: shareOf(waited, calls.length),
    largest_context: Math.max(0, ...calls.map((call) => call.usage.input_tokens)),
    specifics: compacted.map(({ receipt }) => receipt).reduce(addSpecifics, NO_SPECIFICS),
    probes,
    as_recorded: calls.filter((call) => call.isAsRecorded).length,
  };
}

function costOf(turns: Usage, summaries: Usage): Pick<Figures, "cost"> {
  if (turns.cost === undefined) return {};
  const amount = (cost: Cost | undefined): number => cost?.amount ?? 0;
  const total = amount(addUsage(turns, summaries).cost);
  return { cost: { turns: turns.cost.amount, summaries: amount(summaries.cost), total } };
}

const SHARE_DIGITS = 4;

function shareOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Number((part / whole).toFixed(SHARE_DIGITS));
}

const NO_SPECIFICS: Specifics = { total: 0, in_summary: 0, in_tail: 0, pinned: 0, recoverable: 0, lost: 0 };

function addSpecifics(sum: Specifics, more: Specifics): Specifics {
  return {
    total: sum.total + more.total,
    in_summary: sum.in_summary + more.in_summary,
    in_tail: sum.in_tail + more.in_tail,
    pinned: sum.pinned + more.pinned,
    recoverable: sum.recoverable + more.recoverable,
    lost: sum.lost + more.lost,
  };
}

function sumOf(runs: readonly Figures[]): Figures {
  const add = (of: (figures: Figures) => number): number => runs.reduce((sum, run) => sum + of(run), 0);
  const probes = (of: keyof Figures["probes"]): number => add((run) => run.probes[of]);
  const priced = runs.flatMap(({ cost }) => cost ?? []);
  const calls = add((run) => run.calls);
  const waited = add((run) => run.waited);
  // A sum with an unknown part would look too cheap.
  const isPriced = runs.length > 0 && priced.length === runs.length;
  const dollars = (of: (cost: NonNullable<Figures["cost"]>) => number): number =>
    Number(priced.reduce((sum, cost) => sum + of(cost), 0).toFixed(DOLLAR_DIGITS));
  return {
    calls,
    input_tokens: add((run) => run.input_tokens),
    cached_tokens: add((run) => run.cached_tokens),
    output_tokens: add((run) => run.output_tokens),
    summary_calls: add((run) => run.summary_calls),
    summary_input_tokens: add((run) => run.summary_input_tokens),
    summary_output_tokens: add((run) => run.summary_output_tokens),
    ...(isPriced
      ? {
          cost: {
            turns: dollars((cost) => cost.turns),
            summaries: dollars((cost) => cost.summaries),
            total: dollars((cost) => cost.total),
          },
        }
      : {}),
    compactions: add((run) => run.compactions),
    evictions: add((run) => run.evictions),
    failed: add((run) => run.failed),
    summaries: add((run) => run.summaries),
    waited,
    waited_share: shareOf(waited, calls),
    largest_context: Math.max(0, ...runs.map((run) => run.largest_context)),
    specifics: runs.map((run) => run.specifics).reduce(addSpecifics, NO_SPECIFICS),
    probes: {
      total: probes("total"),
      in_context: probes("in_context"),
      asked: probes("asked"),
      found: probes("found"),
    },
    as_recorded: add((run) => run.as_recorded),
  };
}

const DOLLAR_DIGITS = 9;
