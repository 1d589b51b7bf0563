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

const part = z.number();

export const ContractVersion = z
  .object({
    major: part.describe("changes when clients would break"),
    minor: part.describe("must be the client's, too"),
    patch: part.describe("changes without consequence"),
  })
  .describe("the version of the wire contract");

const CapabilityStatus = z.union([
  z.literal("Available"),
  z.object({
    DisabledByPolicy: z
      .object({ description: z.string().describe("the policy in words") })
      .describe("it is switched off by policy"),
  }),
  z.object({
    NotCompiled: z
      .object({ feature: z.string().describe("what would have to be composed") })
      .describe("the runtime was composed without it"),
  }),
  z.object({
    NotSupportedByProtocol: z
      .object({ reason: z.string().describe("why not") })
      .describe("this surface has no way to offer it"),
  }),
]);
export type CapabilityStatus = z.infer<typeof CapabilityStatus>;

export const Capabilities = z.object({
  contract_version: ContractVersion,
  capabilities: z
    .array(
      z.object({
        id: z.string().describe("its name"),
        description: z.string().describe("what it is"),
        status: CapabilityStatus.describe("whether it is there, and if not, why"),
      }),
    )
    .describe("everything the wire contract knows of"),
});
export type Capabilities = z.infer<typeof Capabilities>;
