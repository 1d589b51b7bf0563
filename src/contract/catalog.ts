import { z } from "zod";

/** What a model can be given and asked for. */
const ModelProfile = z.object({
  model_family: z.string(),
  supports_temperature: z.boolean(),
  supports_thinking: z.boolean(),
  /** Whether it takes a reasoning effort. */
  supports_reasoning: z.boolean(),
  vision: z.boolean(),
  image_tool_results: z.boolean(),
  inline_video: z.boolean(),
  /** A JSON schema of the provider's own parameters. */
  params_schema: z.record(z.string(), z.unknown()),
});
export type ModelProfile = z.infer<typeof ModelProfile>;

export const CatalogModel = z.object({
  id: z.string(),
  display_name: z.string(),
  /** Recommended: asked when only its provider is named. */
  tier: z.enum(["recommended", "supported"]),
  /** Absent when nobody has said it of a model of one's own. */
  context_window: z.number().int().positive().optional(),
  max_output_tokens: z.number().int().positive().optional(),
  /** The server under `[self_hosted.servers]` that serves it. */
  server_id: z.string().optional(),
  /** Absent for a model of one's own, of which nothing is known. */
  profile: ModelProfile.optional(),
});
export type CatalogModel = z.infer<typeof CatalogModel>;

export const ModelsCatalog = z.object({
  contract_version: z.object({ major: z.number(), minor: z.number(), patch: z.number() }),
  providers: z.array(z.object({ provider: z.string(), default_model_id: z.string(), models: z.array(CatalogModel) })),
});
export type ModelsCatalog = z.infer<typeof ModelsCatalog>;
