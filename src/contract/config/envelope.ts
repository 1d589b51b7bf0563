import { z } from "zod";
import { isJsonTable } from "../input/merge-patch.ts";
import { nonnegative } from "../input/whole-number.ts";

const wanted = { error: "write the configuration as an object, by the keys of its file" };
const ConfigTable = z.record(z.string(), z.unknown(), wanted);

/** Refused unless the configuration is still of this generation. */
const expected_generation = nonnegative.nullish();

/** What is asked for may stand by itself, as clients of this wire send it: `{agent: …}` for `{config: {agent: …}}`. */
const named = (name: "config" | "patch") => (given: unknown) => {
  if (!isJsonTable(given) || name in given) return given;
  const { expected_generation: generation, ...bare } = given;
  if (Object.keys(bare).length === 0) return given;
  return { [name]: bare, ...(generation === undefined ? {} : { expected_generation: generation }) };
};

/** Replaces the realm's own layer of the configuration. */
export const SetConfig = z.preprocess(named("config"), z.object({ config: ConfigTable, expected_generation }));

/** Changes the realm's own layer by a merge patch of RFC 7396; null removes a key. */
export const PatchConfig = z.preprocess(named("patch"), z.object({ patch: ConfigTable, expected_generation }));

/** Which realm is configured. */
export const ConfiguredRealm = z.object({
  realm_id: z.string().optional(),
  instance_id: z.string().optional(),
  backend: z.string().optional(),
  resolved_paths: z.record(z.string(), z.string()).optional(),
});
export type ConfiguredRealm = z.infer<typeof ConfiguredRealm>;

export const ConfigEnvelope = ConfiguredRealm.extend({
  /** The effective configuration by the keys of its file, defaults filled in; what is read can be written back. */
  config: ConfigTable,
  /** Counts the changes of the realm's own layer. */
  generation: z.number().int().nonnegative(),
  /** What has changed and waits for the next start of this process. */
  restart_required: z.array(z.string()).optional(),
});
export type ConfigEnvelope = z.infer<typeof ConfigEnvelope>;
