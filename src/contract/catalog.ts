import { z } from "zod";
import { ContractVersion } from "./capability.ts";

/** What a model can be given and asked for. */
const ModelProfile = z.object({
  model_family: z.string().describe("the family it belongs to, such as claude or gpt-5"),
  supports_temperature: z.boolean().describe("whether it takes a temperature"),
  supports_thinking: z.boolean().describe("whether it thinks before it answers"),
  supports_reasoning: z.boolean().describe("whether it takes a reasoning effort"),
  vision: z.boolean().describe("whether it takes images in a prompt"),
  image_tool_results: z.boolean().describe("whether it takes images that tools give"),
  inline_video: z.boolean().describe("whether it takes videos in a prompt"),
  params_schema: z.record(z.string(), z.unknown()).describe("a JSON schema of the provider's own parameters"),
});
export type ModelProfile = z.infer<typeof ModelProfile>;

const tokens = z.number().int().positive();

export const CatalogModel = z.object({
  id: z.string().describe("the name to ask for it by"),
  display_name: z.string().describe("its name for people"),
  tier: z.enum(["recommended", "supported"]).describe("recommended: asked when only its provider is named"),
  context_window: tokens.optional().describe("tokens it can see; absent when nobody has said it of one's own model"),
  max_output_tokens: tokens.optional().describe("tokens it can say at once; absent as above"),
  server_id: z.string().optional().describe("the server under [self_hosted.servers] that serves it"),
  profile: ModelProfile.optional().describe("what it takes; absent for a model of one's own"),
});
export type CatalogModel = z.infer<typeof CatalogModel>;

export const ModelsCatalog = z.object({
  contract_version: ContractVersion,
  providers: z
    .array(
      z.object({
        provider: z.string().describe("its name"),
        default_model_id: z.string().describe("the model that is asked when only the provider is named"),
        models: z.array(CatalogModel).describe("its models"),
      }),
    )
    .describe("who serves models, each with its own"),
});
export type ModelsCatalog = z.infer<typeof ModelsCatalog>;
