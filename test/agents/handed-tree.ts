import type { Tool } from "@rkat/core/ports/tool";
import { handing, type Plan, planned } from "../support/plan-model.ts";

export const LOOK: Tool = {
  name: "look",
  description: "look",
  inputSchema: { type: "object" },
  execute: () => "a heron",
};
export const WIPE: Tool = { ...LOOK, name: "wipe", needsApproval: true, execute: () => "wiped" };

let used = 0;
/** No two calls use as much, so that no sum is right by chance. */
const usage = () => ({ input_tokens: 2 ** (used % 10), output_tokens: ++used });
const looking = (times: number): Plan => [
  ...Array.from({ length: times }, () => ({ calls: [{ name: "look" }], usage: usage() })),
  { text: "Looked.", usage: usage() },
];

/** Three tasks at once, one of them with a task of its own, and a fourth after them. */
export const TREE = planned([
  {
    calls: [
      handing(looking(2)),
      handing([
        { calls: [handing(looking(2)), { name: "look" }], usage: usage() },
        { text: "Handed.", usage: usage() },
      ]),
      handing(looking(3)),
    ],
    usage: usage(),
  },
  { calls: [handing(looking(1))], usage: usage() },
  { text: "Done.", usage: usage() },
]);
