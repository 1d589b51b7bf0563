import { defineConfig } from "rolldown";

// One file where there were hundreds: most of a short command's time was the loading of modules, and of zod's most of all.
export default defineConfig({
  input: { index: "src/index.ts", cli: "src/cli.ts", rpc: "src/rpc.ts", rest: "src/rest.ts", mcp: "src/mcp.ts" },
  platform: "node",
  external: [
    /^@ai-sdk\//,
    /^@modelcontextprotocol\//,
    /^@opentelemetry\//,
    "@cfworker/json-schema",
    "commander",
    "lmdb",
    "onnxruntime-node",
    "smol-toml",
  ],
  output: { dir: "dist", format: "esm", chunkFileNames: "chunks/[name]-[hash].js" },
});
