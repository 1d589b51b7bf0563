import { CAPABILITY_ABSENT, type Capability } from "../contract/capability.ts";
import type { Advice } from "./operation-calls.ts";

const COMPOSED_BY: Readonly<Record<Capability, string>> = {
  "session-store": "give createRuntime a store",
  "memory-store": "give createRuntime a memory, {} for one in this process",
  "session-compaction": "give createRuntime compaction: true",
};

/** How to enable a missing capability, for the developer who composed the runtime. */
export function adviceFor(features: readonly string[]): Advice {
  // The keys of the table are the capabilities.
  const names = Object.keys(COMPOSED_BY) as Capability[];
  const rows = names.map((name) => {
    const { code, message } = CAPABILITY_ABSENT[name];
    const fix = features.includes(name)
      ? `use openRuntime, or ${COMPOSED_BY[name]}`
      : `add ${name} to the features of the configuration`;
    return [code, `${message.replace(/ \(.*$/, "")}: ${fix}`];
  });
  return Object.fromEntries(rows);
}
