import type { Capabilities, Capability, CapabilityStatus } from "../contract/capability.ts";
import { CONTRACT_VERSION } from "../contract/version.ts";

const OPTIONAL: Readonly<Record<Capability, { id: string; description: string }>> = {
  "session-store": { id: "session_store", description: "Sessions survive restarts and can be read, listed, archived" },
  "memory-store": { id: "memory_store", description: "What compaction hid is searchable with memory_search" },
  "session-compaction": { id: "session_compaction", description: "Long sessions are compacted before they overflow" },
};

const ALWAYS: readonly (readonly [id: string, description: string])[] = [
  ["sessions", "Sessions and turns"],
  ["streaming", "Events as they happen"],
  ["structured_output", "Results that match a JSON schema"],
  ["builtins", "Built-in tools: time, tasks, patches"],
  ["shell", "Shell commands and background jobs"],
];

/** Parts of the wire contract that this runtime does not have. */
const NEVER: readonly (readonly [id: string, description: string])[] = [
  ["hooks", "Hooks around a turn's steps"],
  ["comms", "Messages between agents"],
  ["schedule", "Scheduled turns"],
  ["work_graph", "Shared work graphs"],
  ["skills", "Skills loaded into the prompt"],
  ["mcp_live", "MCP servers added to a running session"],
];

/** What a runtime of these capabilities can do. */
export function describeCapabilities(present: ReadonlySet<Capability>): Capabilities {
  const row = (id: string, description: string, status: CapabilityStatus) => ({ id, description, status });
  const optional = Object.entries(OPTIONAL).map(([feature, { id, description }]) =>
    // The keys of OPTIONAL are exactly the capabilities.
    row(id, description, present.has(feature as Capability) ? "Available" : { NotCompiled: { feature } }),
  );
  return {
    contract_version: CONTRACT_VERSION,
    capabilities: [
      ...ALWAYS.map(([id, description]) => row(id, description, "Available")),
      ...optional,
      ...NEVER.map(([id, description]) => row(id, description, { NotCompiled: { feature: id } })),
    ],
  };
}
