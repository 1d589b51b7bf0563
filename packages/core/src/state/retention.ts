import type { SessionRow } from "../ports/store.ts";

/** How long to keep something after its last change: milliseconds, or forever. */
export type Keep = number | "forever";

/** How long sessions are kept; a rule for a label, `key=value`, overrides the general one. */
export interface Retention {
  readonly sessions?: Keep | undefined;
  readonly labels: Readonly<Record<string, Keep>>;
}

export interface RetentionRule {
  /** The matching label, or `sessions` for the general rule. */
  readonly rule: string;
  readonly keep: Keep;
}

export function isRetentionSet({ sessions, labels }: Retention): boolean {
  return sessions !== undefined || Object.keys(labels).length > 0;
}

/** The rule for these labels, if any. The longest wins: a deleted session cannot come back. */
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

/** Sessions that changed more recently than this are not due. */
export function shortestKeepMs({ sessions = "forever", labels }: Retention): number {
  return Math.min(...[sessions, ...Object.values(labels)].map(lengthOf));
}

/** The rule by which a session is due; undefined while it is kept, or if nothing of it is left. */
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
