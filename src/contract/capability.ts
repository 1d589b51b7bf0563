import { z } from "zod";
import type { ErrorCode } from "./error.ts";

/** A part of the runtime that can be left out. Each is a port that is there or not. */
export const Capability = z.enum(["session-store", "memory-store", "session-compaction"]);
export type Capability = z.infer<typeof Capability>;

/** The builds that are spoken of, by what they are composed of; every other combination works, too. */
export const BUILDS: Readonly<Record<"A" | "B" | "C" | "D" | "E" | "F", readonly Capability[]>> = {
  A: [],
  B: ["session-store"],
  C: ["memory-store"],
  D: ["session-compaction"],
  E: ["session-store", "memory-store"],
  F: Capability.options,
};

/** What an operation that needs the capability answers when it is absent. */
export const CAPABILITY_ABSENT: Readonly<Record<Capability, { code: ErrorCode; message: string }>> = {
  "session-store": {
    code: "SESSION_PERSISTENCE_DISABLED",
    message: "Session persistence is disabled (build without 'session-store').",
  },
  "memory-store": {
    code: "MEMORY_STORE_DISABLED",
    message: "Semantic memory is disabled (build without 'memory-store').",
  },
  "session-compaction": {
    code: "SESSION_COMPACTION_DISABLED",
    message: "Session compaction is disabled (build without 'session-compaction').",
  },
};

const CapabilityStatus = z.union([
  z.literal("Available"),
  z.object({ DisabledByPolicy: z.object({ description: z.string() }) }),
  z.object({ NotCompiled: z.object({ feature: z.string() }) }),
  z.object({ NotSupportedByProtocol: z.object({ reason: z.string() }) }),
]);
export type CapabilityStatus = z.infer<typeof CapabilityStatus>;

export const Capabilities = z.object({
  contract_version: z.object({ major: z.number(), minor: z.number(), patch: z.number() }),
  capabilities: z.array(z.object({ id: z.string(), description: z.string(), status: CapabilityStatus })),
});
export type Capabilities = z.infer<typeof Capabilities>;
