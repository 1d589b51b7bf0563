const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export function formatCount(count: number): string {
  return whole.format(count);
}

export function formatTokens(count: number): string {
  return count < 10_000 ? whole.format(count) : short.format(count);
}

/** US dollars; small amounts get four decimals. */
export function formatCost(cost: { readonly amount: number } | undefined): string {
  if (cost === undefined) return "";
  const digits = cost.amount !== 0 && cost.amount < 0.01 ? 4 : 2;
  return `$${cost.amount.toFixed(digits)}`;
}

export function formatTime(time: number | string): string {
  return clock.format(typeof time === "number" ? time * 1_000 : Date.parse(time));
}

const STEPS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

export function formatAgo(seconds: number): string {
  const past = Date.now() / 1_000 - seconds;
  for (const [unit, size] of STEPS) if (past >= size) return ago.format(-Math.floor(past / size), unit);
  return "just now";
}

/** A shortened id: its first 8 and last 4 characters. */
export function formatId(id: string): string {
  return id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

const SIZES = ["bytes", "kB", "MB", "GB"] as const;

/** An approximate size. Callers pass the number of characters of a text as its bytes. */
export function formatSize(bytes: number): string {
  const step = Math.min(SIZES.length - 1, bytes < 1_000 ? 0 : Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1_000 ** step).toFixed(step === 0 ? 0 : 1)} ${SIZES[step]}`;
}
