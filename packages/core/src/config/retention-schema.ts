import { Duration, spellDuration } from "../contract/input.ts";
import { z } from "../contract/schema.ts";
import { common } from "./values.ts";

const error = 'write a duration longer than zero, like 90d, or "forever"';
const keep = z.union([z.literal("forever"), Duration.refine((ms) => ms > 0, { error })], { error });

const LABEL = /^[^=]+=/;

/** How long sessions are kept. A key a label, not a list of rules: a later layer then changes one and leaves the others. */
export const Retention = z.strictObject({
  sessions: keep
    .optional()
    .meta(
      common("a session whose last change is longer ago is forgotten, as with rkat prune; without it, none is", "90d"),
    ),
  labels: z
    .record(z.string(), keep)
    .superRefine((labels, issues) => {
      for (const label of Object.keys(labels).filter((one) => !LABEL.test(one)))
        issues.addIssue({ code: "custom", path: [label], message: 'name the label as "key=value", like "team=core"' });
    })
    .prefault({})
    .describe(
      'the same for sessions with a label, such as `"team=core" = "30d"`, in the place of `retention.sessions`; of several labels the longest counts',
    ),
});

export function spellRetention({ sessions, labels }: z.output<typeof Retention>) {
  const spell = (kept: number | "forever") => (kept === "forever" ? kept : spellDuration(kept));
  return {
    ...(sessions === undefined ? {} : { sessions: spell(sessions) }),
    labels: Object.fromEntries(Object.entries(labels).map(([label, kept]) => [label, spell(kept)])),
  };
}
