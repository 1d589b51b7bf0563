import type { JSX } from "preact";
import type { SessionInfo } from "../../src/contract/session-info.ts";
import { formatCost, formatCount, formatDuration, formatTokens } from "../format.ts";

type Budget = NonNullable<SessionInfo["budgets"]>[number];

const NAMES = { tokens: "tokens", time: "time a turn", tool_calls: "tool calls", cost: "cost" } as const;

/** What the session may use, and how much of it is used. */
export function Budgets({ info }: { info: SessionInfo }): JSX.Element {
  return (
    <>
      {(info.budgets ?? []).map((budget) => (
        <Gauge key={budget.type} budget={budget} />
      ))}
    </>
  );
}

function Gauge({ budget }: { budget: Budget }): JSX.Element {
  const { type, limit, used } = budget;
  if (used === undefined) {
    return (
      <span class="gauge">
        {NAMES[type]}: at most {amountOf(type, limit)}
      </span>
    );
  }
  const told = `${NAMES[type]}: ${amountOf(type, used)} of ${amountOf(type, limit)}`;
  const share = limit === 0 ? 1 : used / limit;
  return (
    <span class={`gauge ${share >= 1 ? "bad" : share >= 0.8 ? "warn" : ""}`}>
      <meter min={0} max={limit} high={limit * 0.8} value={Math.min(used, limit)} aria-label={told} />
      {told}
    </span>
  );
}

function amountOf(type: Budget["type"], amount: number): string {
  switch (type) {
    case "tokens":
      return formatTokens(amount);
    case "time":
      return formatDuration(amount);
    case "tool_calls":
      return formatCount(amount);
    case "cost":
      return formatCost({ amount });
  }
}
