import { z } from "../contract/schema.ts";
import { common, flag } from "./values.ts";

/** Skills, wherever they come from. */
export const Skills = z.strictObject({
  enabled: flag.default(true).meta(common("whether sessions have skills; [skills.md](skills.md)", false)),
});
