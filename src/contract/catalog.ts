import { z } from "zod";

export const CatalogModel = z.object({
  id: z.string(),
  display_name: z.string(),
  context_window: z.number().int().positive(),
  max_output_tokens: z.number().int().positive(),
});
export type CatalogModel = z.infer<typeof CatalogModel>;

export const ModelsCatalog = z.object({
  contract_version: z.object({ major: z.number(), minor: z.number(), patch: z.number() }),
  providers: z.array(z.object({ provider: z.string(), default_model_id: z.string(), models: z.array(CatalogModel) })),
});
export type ModelsCatalog = z.infer<typeof ModelsCatalog>;
