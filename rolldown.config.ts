import { defineConfig } from "rolldown";

/** What is derived from the schemas for callers is bundled as its value: a client then loads no schema, and no zod. */
const wireTable = {
  name: "wire-table",
  load: async (id: string) => {
    if (!id.endsWith("/contract/wire-table.ts")) return null;
    const { WIRE_TABLE } = await import(id);
    return `export const WIRE_TABLE = ${JSON.stringify(WIRE_TABLE)};`;
  },
};

// One file where there were hundreds: most of a short command's time was the loading of modules, and of zod's most of all.
export default defineConfig([
  {
    input: {
      index: "src/index.ts",
      client: "src/client.ts",
      cli: "src/cli.ts",
      rpc: "src/rpc.ts",
      rest: "src/rest.ts",
      mcp: "src/mcp.ts",
    },
    platform: "node",
    plugins: [wireTable],
    external: [
      /^@ai-sdk\//,
      /^@modelcontextprotocol\//,
      /^@opentelemetry\//,
      "@cfworker/json-schema",
      "commander",
      "fs-native-extensions",
      "onnxruntime-node",
      "postgres",
      "smol-toml",
    ],
    output: { dir: "dist", format: "esm", chunkFileNames: "chunks/[name]-[hash].js" },
  },
  // Apart from the others: a chunk that is shared with them could bring something of Node into a page.
  {
    input: { "client-browser": "src/clients/browser.ts" },
    platform: "browser",
    plugins: [wireTable],
    output: { dir: "dist", format: "esm" },
  },
]);
