import { type Config, ConfigFile } from "./config-schema.ts";

/** The configuration without any file or variable. The package is built with its value: a start without a file makes no schema. */
// Interpreted: to compile the schema takes many times as long as to follow it once.
export const DEFAULT_CONFIG: Config = ConfigFile.parse({}, { jitless: true });
