import type { AcpParts } from "@rkat/server/acp/start";
import type { RestParts } from "@rkat/server/rest/start";

/** The parts of every server; each is loaded when it is first used. */
export const serverParts: AcpParts & Required<RestParts> = {
  loadConfig: async (places) => (await import("@rkat/node/config/load-config")).loadConfig(places),
  openRuntime: async (options) => (await import("@rkat/node/open-runtime")).openRuntime(options),
  openApp: async (options) => (await import("./app-runtime.ts")).openApp(options),
  openDatabaseTokens: async (...given) => (await import("@rkat/postgres")).openDatabaseTokens(...given),
  resolveInProject: async (...given) => (await import("@rkat/core/tools/project-path")).resolveInProject(...given),
  keylessProviders: async (...given) =>
    (await import("@rkat/core/providers/provider-settings")).keylessProviders(...given),
  openServers: async (...given) => (await import("@rkat/node/open-runtime")).openMcpServers(...given),
  loadMounts: async (...given) => {
    const { loadMounts } = await import("@rkat/server/openai/mount");
    const { mountMcp } = await import("@rkat/server/mcp/mount");
    return [...(await loadMounts(...given)), mountMcp];
  },
};
