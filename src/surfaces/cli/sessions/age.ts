const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const DAYS_COUNTED_MAX = 30;

/** How long ago a moment was, in one unit; long ago, the day itself. */
export function ageOf(unixSeconds: number, nowMs: number): string {
  const seconds = Math.max(0, Math.floor(nowMs / 1_000) - unixSeconds);
  if (seconds < MINUTE_S) return "just now";
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min ago`;
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h ago`;
  const days = Math.floor(seconds / DAY_S);
  if (days <= DAYS_COUNTED_MAX) return days === 1 ? "1 day ago" : `${days} days ago`;
  return new Date(unixSeconds * 1_000).toISOString().slice(0, 10);
}
