import type { SessionRow } from "../ports/store.ts";

/** How long something is kept since it last changed: milliseconds, or for good. */
export type Keep = number | "forever";

/** How long sessions are kept; what is said by a label, `key=value`, holds in the place of what is said of all. */
export interface Retention {
  readonly sessions?: Keep | undefined;
  readonly labels: Readonly<Record<string, Keep>>;
}

/** What a session is kept by. */
export interface RetentionRule {
  /** The label it goes by, or `sessions` for what is said of all. */
  readonly rule: string;
  readonly keep: Keep;
}

/** Whether anything is said of how long sessions are kept. */
export function isRetentionSet({ sessions, labels }: Retention): boolean {
  return sessions !== undefined || Object.keys(labels).length > 0;
}

/**
 * The rule of a session with these labels; undefined where there is none. Of several labels the one that keeps longest
 * counts: what was kept too long can go later, what went does not come back.
 */
export function retentionRule(
  { sessions, labels }: Retention,
  had: Readonly<Record<string, string>>,
): RetentionRule | undefined {
  const own = Object.entries(had).map(([key, value]) => `${key}=${value}`);
  const matching = own.flatMap((rule): RetentionRule[] => {
    const keep = Object.hasOwn(labels, rule) ? labels[rule] : undefined;
    return keep === undefined ? [] : [{ rule, keep }];
  });
  const [longest] = matching.toSorted((a, b) => lengthOf(b.keep) - lengthOf(a.keep));
  if (longest !== undefined) return longest;
  return sessions === undefined ? undefined : { rule: "sessions", keep: sessions };
}

/** No session that changed less long ago than this is due. */
export function shortestKeepMs({ sessions = "forever", labels }: Retention): number {
  return Math.min(...[sessions, ...Object.values(labels)].map(lengthOf));
}

/** The rule by which a session is due; undefined while it is kept, or where nothing of it is left to go. */
export function dueBy(
  row: Pick<SessionRow, "labels" | "updated_at_ms" | "forgotten_whole">,
  retention: Retention,
  nowMs: number,
): RetentionRule | undefined {
  if (row.forgotten_whole === true) return undefined;
  const rule = retentionRule(retention, row.labels);
  return rule !== undefined && nowMs - row.updated_at_ms > lengthOf(rule.keep) ? rule : undefined;
}

function lengthOf(keep: Keep): number {
  return keep === "forever" ? Number.POSITIVE_INFINITY : keep;
}
