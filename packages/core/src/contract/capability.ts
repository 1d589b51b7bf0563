import type { ErrorCode } from "./error.ts";
import { ModelPrices } from "./money.ts";
import { z } from "./schema.ts";

/** A part of the runtime that can be left out. Each is a port that is there or not. */
export const CAPABILITIES = ["session-store", "memory-store", "session-compaction"] as const;
export const Capability = z.enum(CAPABILITIES);
export type Capability = z.infer<typeof Capability>;

/** The builds that are spoken of, by what they are composed of; every other combination works, too. */
export const BUILDS: Readonly<Record<"A" | "B" | "C" | "D" | "E" | "F", readonly Capability[]>> = {
  A: [],
  B: ["session-store"],
  C: ["memory-store"],
  D: ["session-compaction"],
  E: ["session-store", "memory-store"],
  F: CAPABILITIES,
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
      .object({ feature: z.string().describe("what is missing") })
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

/** What a model can be given and asked for. */
const ModelProfile = z.object({
  model_family: z.string().describe("the family it belongs to, such as claude or gpt-5"),
  supports_temperature: z.boolean().describe("whether it accepts a temperature"),
  supports_thinking: z.boolean().describe("whether it supports thinking"),
  supports_reasoning: z.boolean().describe("whether it accepts a reasoning effort"),
  vision: z.boolean().describe("whether it accepts images in a prompt"),
  image_tool_results: z.boolean().describe("whether it accepts images in tool results"),
  inline_video: z.boolean().describe("whether it accepts videos in a prompt"),
  params_schema: z.record(z.string(), z.unknown()).describe("a JSON schema of the provider's own parameters"),
});
export type ModelProfile = z.infer<typeof ModelProfile>;

const tokens = z.number().int().positive();

export const CatalogModel = z.object({
  id: z.string().describe("its id"),
  display_name: z.string().describe("its name for people"),
  tier: z.enum(["recommended", "supported"]).describe("recommended: used when only its provider is named"),
  context_window: tokens.optional().describe("the context window in tokens; absent if unknown"),
  max_output_tokens: tokens.optional().describe("the maximum output tokens; absent if unknown"),
  prices: ModelPrices.optional().describe("its prices in US dollars; absent if unknown"),
  server_id: z.string().optional().describe("the server under [self_hosted.servers] that serves it"),
  profile: ModelProfile.optional().describe("its profile; absent for your own models"),
});
export type CatalogModel = z.infer<typeof CatalogModel>;

export const ModelsCatalog = z.object({
  contract_version: ContractVersion,
  providers: z
    .array(
      z.object({
        provider: z.string().describe("its name"),
        default_model_id: z.string().describe("the model that is used when only the provider is named"),
        models: z.array(CatalogModel).describe("its models"),
      }),
    )
    .describe("the providers with their models"),
});
export type ModelsCatalog = z.infer<typeof ModelsCatalog>;

/** The rows of the table about what a runtime can do. */
export const CAPABILITY_OPERATIONS = {
  readCapabilities: {
    summary: "List the capabilities of this runtime, and which are absent.",
    input: z.object({}),
    output: Capabilities,
    rpc: "capabilities/get",
    http: "GET /capabilities",
    mcp: "meerkat_capabilities",
    cli: "rkat capabilities",
    scope: "read",
    sees: "public",
  },
  readModels: {
    summary: "List the known models with their context window and output limit.",
    input: z.object({}),
    output: ModelsCatalog,
    rpc: "models/catalog",
    http: "GET /models/catalog",
    mcp: "meerkat_models_catalog",
    cli: "rkat models",
    scope: "read",
    sees: "public",
  },
} as const;
