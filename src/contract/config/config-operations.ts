import { z } from "zod";
import { ConfigEnvelope, PatchConfig, SetConfig } from "./envelope.ts";

/** The rows of the table about the configuration. */
export const CONFIG_OPERATIONS = {
  readConfig: {
    summary: "Read the effective configuration, defaults filled in, with the generation of the realm's own layer.",
    input: z.object({}),
    output: ConfigEnvelope,
    rpc: "config/get",
    http: "GET /config",
    mcp: "meerkat_config",
    cli: "rkat config get",
  },
  setConfig: {
    summary: "Replace the realm's own layer of the configuration; turns that start afterwards follow it.",
    input: SetConfig,
    output: ConfigEnvelope,
    rpc: "config/set",
    http: "PUT /config",
    mcp: "meerkat_config",
    cli: "rkat config set FILE",
  },
  patchConfig: {
    summary: "Change the realm's own layer of the configuration by a merge patch; null removes a key.",
    input: PatchConfig,
    output: ConfigEnvelope,
    rpc: "config/patch",
    http: "PATCH /config",
    mcp: "meerkat_config",
    cli: "rkat config patch FILE",
  },
} as const;
