import { costText, oneLine, type Paint } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { fitted } from "./screen.ts";
import { cellsOf } from "./wrapped-text.ts";

export interface ChatStatus {
  readonly model: string | undefined;
  readonly agent: string | undefined;
  readonly tools: string;
  readonly isKept: boolean;
  /** The context's tokens; undefined while unknown. */
  readonly context: ContextShare | undefined;
  readonly usage: Spent | undefined;
  readonly tokensLeft: number | undefined;
  readonly costLeft: number | undefined;
}

interface ContextShare {
  readonly used: number;
  readonly window: number | undefined;
  readonly threshold: number | undefined;
  /** US dollars that the next call pays for it; undefined without a price. */
  readonly nextCost?: number | undefined;
}

interface Spent {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost?: Parameters<typeof costText>[0];
}

type Read = Pick<ChatStatus, "context" | "usage" | "tokensLeft" | "costLeft" | "model"> & {
  /** Undefined where there is no session yet. */
  readonly tools: string | undefined;
};

/**
 * The status of a stored session; for others only the usage is known. Where two presets give the same
 * tools, `wanted` is named.
 */
export async function readChatStatus(
  { runtime, isKept, config }: Pick<Opened, "runtime" | "isKept" | "config">,
  sessionId: string,
  wanted: string,
): Promise<Read> {
  if (!isKept) return UNKNOWN;
  const session_id = sessionId;
  const { model, usage, budgets = [] } = await runtime.dispatch("readSession", { session_id });
  const { estimated_tokens, tool_tokens, context_window, auto_compact_threshold, next_call_cost, tools } =
    await runtime.dispatch("readContext", { session_id });
  const left = (type: "tokens" | "cost"): number | undefined => {
    const budget = budgets.find((one) => one.type === type);
    return budget === undefined ? undefined : Math.max(0, budget.limit - (budget.used ?? 0));
  };
  return {
    model,
    usage,
    tools: presetOf(tools, config.tools.memory && wanted !== "full"),
    context: {
      used: estimated_tokens + tool_tokens,
      window: context_window,
      threshold: auto_compact_threshold,
      nextCost: next_call_cost,
    },
    tokensLeft: left("tokens"),
    costLeft: left("cost"),
  };
}

export const UNKNOWN: Read = {
  tools: undefined,
  model: undefined,
  context: undefined,
  usage: undefined,
  tokensLeft: undefined,
  costLeft: undefined,
};

/** The preset of these tools; where all presets have memory, `full` and `workspace` are the same. */
function presetOf(tools: readonly string[], ignoresMemory: boolean): string {
  if (!tools.includes("shell")) return tools.length === 0 ? "none" : "safe";
  return tools.includes("memory_search") && !ignoresMemory ? "full" : "workspace";
}

const BETWEEN = " · ";
const NAME_CHARS_MAX = 200;

/** Everything in one row; the least important parts are left out where there is no room. */
export function statusLine(status: ChatStatus, columns: number, paint: Paint): string {
  const { model, agent, tools, context, usage, tokensLeft, costLeft, isKept } = status;
  // The lowest weight is left out first.
  const parts: readonly { readonly text: string | undefined; readonly weight: number }[] = [
    { text: agent === undefined ? undefined : `with ${oneLine(agent, NAME_CHARS_MAX)}`, weight: 5 },
    { text: model && oneLine(model, NAME_CHARS_MAX), weight: 9 },
    { text: context && contextText(context), weight: 8 },
    { text: usage && `${short(usage.input_tokens)} in, ${short(usage.output_tokens)} out`, weight: 2 },
    { text: context?.nextCost ? `next call ${costText({ amount: context.nextCost })}` : undefined, weight: 2.5 },
    { text: usage?.cost === undefined || usage.cost.amount === 0 ? undefined : costText(usage.cost), weight: 6 },
    { text: tokensLeft === undefined ? undefined : `${short(tokensLeft)} tokens left`, weight: 7 },
    { text: costLeft === undefined ? undefined : `${costText({ amount: costLeft })} left`, weight: 7 },
    { text: `tools ${tools}`, weight: 3 },
    { text: isKept ? undefined : "not kept", weight: 4 },
  ];
  let shown = parts.flatMap(({ text, weight }) => (text === undefined ? [] : [{ text, weight }]));
  const whole = (): string => shown.map(({ text }) => text).join(BETWEEN);
  while (shown.length > 1 && cellsOf(whole()) > columns - 1) {
    const least = Math.min(...shown.map(({ weight }) => weight));
    shown = shown.filter(({ weight }) => weight > least);
  }
  const isNear = context?.threshold !== undefined && context.used >= NEAR * context.threshold;
  const row = fitted(whole(), columns - 1);
  return isNear ? paint.yellow(row) : paint.dim(row);
}

/** The part of the threshold from which the colour changes. */
const NEAR = 0.9;

function contextText({ used, window, threshold }: ContextShare): string {
  const share = (of: number): string => `${Math.round((100 * used) / of)} %`;
  if (window === undefined)
    return threshold === undefined ? `context ${short(used)}` : `context ${share(threshold)} of ${short(threshold)}`;
  const mark =
    threshold === undefined || threshold >= window ? "" : `, compacts at ${Math.round((100 * threshold) / window)} %`;
  return `context ${share(window)} of ${short(window)}${mark}`;
}

const THOUSAND = 1_000;

/** `950`, `1.2k`, `128k`, `1M`. */
function short(count: number): string {
  if (count < THOUSAND) return String(count);
  const [amount, unit] = count < THOUSAND ** 2 ? [count / THOUSAND, "k"] : [count / THOUSAND ** 2, "M"];
  return `${amount < 10 ? Number(amount.toFixed(1)) : Math.round(amount)}${unit}`;
}
