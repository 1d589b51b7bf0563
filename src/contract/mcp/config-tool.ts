import { z } from "zod";
import { PatchConfig, SetConfig } from "../config/envelope.ts";

/** What `meerkat_config` takes: one tool for the three operations on the configuration. */
export const ConfigTool = z.object({
  action: z
    .enum(["get", "set", "patch"], { error: 'write one of "get", "set", "patch"' })
    .describe("get reads what holds, set replaces the project's own layer, patch changes it"),
  config: SetConfig.out.shape.config.optional(),
  patch: PatchConfig.out.shape.patch.optional(),
  expected_generation: SetConfig.out.shape.expected_generation,
});
